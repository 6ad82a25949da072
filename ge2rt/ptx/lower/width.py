"""How many lanes a kernel's native warps should have when nobody asks for a number."""

from __future__ import annotations

from ge2rt.ptx.ast import Function, Special
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.shape import shape_of
from ge2rt.ptx.rules import WARP

FULL_WIDTH = 32
# By the bits of a vector register: from how many float registers that live across a node at once
# 32 lanes of each are kept in memory, and the lanes that are not. AVX-512: a 4x4 register tile ran
# at 42 GFLOP/s with 32 lanes and at 50 with 16. AVX2: a 4x2 tile at 12 with 32, 33 with 16, 40 with
# 8; attention with 11 such registers took 6.3 ms, 4.6 ms, 4.1 ms.
_NARROW = {512: (16, 16), 256: (8, 8)}

_NEEDS_32 = frozenset(("ldmatrix", "stmatrix", "wmma", *WARP))


def preferred_width(function: Function, flow: Flow, vector_bits: int) -> int:
    """Fewer than 32 where many values live at once and no instruction looks across lanes."""
    for node in flow.nodes:
        for instr in node.instrs:
            if instr.op in _NEEDS_32 or (instr.op in ("bar", "barrier") and instr.has("warp")):
                return FULL_WIDTH
            for operand in shape_of(instr).sources:
                if isinstance(operand, Special) and operand.name.startswith("lane"):
                    return FULL_WIDTH
    floats = 0
    for name, number in flow.registers.items():
        if function.registers.get(name) == "f32":
            floats |= 1 << number
    most = max((live & floats).bit_count() for live in flow.live_in)
    many, narrow = _NARROW[vector_bits]
    return narrow if most >= many else FULL_WIDTH
