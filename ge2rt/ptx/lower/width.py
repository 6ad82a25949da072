"""How many lanes a kernel's native warps should have when nobody asks for a number."""

from __future__ import annotations

from ge2rt.ptx.ast import Function, Special
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.graph import bits
from ge2rt.ptx.lower.shape import shape_of
from ge2rt.ptx.rules import WARP

FULL_WIDTH = 32
NARROW_WIDTH = 16
# Float registers that live across a node at once: from here on 32 lanes of each spill on AVX-512 (a
# 4x4 register tile ran at 42 GFLOP/s with 32 lanes and at 50 with 16).
MANY_LIVE = 16

_NEEDS_32 = frozenset(("ldmatrix", "stmatrix", "wmma", *WARP))


def preferred_width(function: Function, flow: Flow) -> int:
    """16 where many values live at once and no instruction looks across lanes, else 32."""
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
    most = max(sum(1 for _ in bits(live & floats)) for live in flow.live_in)
    return NARROW_WIDTH if most >= MANY_LIVE else FULL_WIDTH
