"""Prefetching for the next block: how far an address moves when ``ctaid.x`` grows by one.

A block with phases leaves memory idle while it reduces; what its first phase reads is fetched
into the second-level cache one block ahead. Kernels without barriers walk memory in order and gain
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ge2rt.ptx.ast import Imm, Instr, Operand, Reg, Special
from ge2rt.ptx.emit import BITS, Value
from ge2rt.ptx.lower.address import Where, at
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.shape import shape_of
from ge2rt.ptx.lower.values import Scope

LINE = 64  # bytes
Steps = Mapping[str, "int | None"]


def block_steps(flow: Flow) -> dict[str, int | None]:
    """The step of each register, None where it is not a constant."""
    steps: dict[str, int | None] = {}
    changed = True
    while changed:
        changed = False
        for node in flow.nodes:
            for instr in node.instrs:
                for name in shape_of(instr).written:
                    found = _step(instr, steps)
                    if name in steps and steps[name] != found:
                        found = None
                    if name not in steps or steps[name] != found:
                        steps[name] = found
                        changed = True
    return steps


def _step(instr: Instr, steps: Steps) -> int | None:
    given = [_of(o, steps) for o in shape_of(instr).sources]
    if instr.op == "ld" and "param" in instr.mods:
        return 0
    if instr.op in ("ld", "ldu", "atom", "call") or len(shape_of(instr).written) != 1:
        return None
    rule = _RULES.get(instr.op)
    known = [g for g in given if g is not None]
    if len(known) != len(given):
        return None
    if not any(known):
        return 0
    return rule(instr, known) if rule else None


def _of(operand: Operand, steps: Steps) -> int | None:
    if isinstance(operand, Reg):
        return steps.get(operand.name, 0)
    if isinstance(operand, Special):
        return int(operand == Special("ctaid", "x")) if operand.axis in ("", "x") else 0
    return 0


def _factor(instr: Instr, known: Sequence[int]) -> int | None:
    """``mul`` by a literal."""
    operands = shape_of(instr).sources
    for value, other in ((0, 1), (1, 0)):
        constant = operands[other]
        if isinstance(constant, Imm) and "hi" not in instr.mods:
            return known[value] * constant.value
    return None


def _mad(instr: Instr, known: Sequence[int]) -> int | None:
    if not known[0] and not known[1]:
        return known[2]
    product = _factor(instr, known)
    return None if product is None else product + known[2]


def _shl(instr: Instr, known: Sequence[int]) -> int | None:
    count = shape_of(instr).sources[1]
    return known[0] << count.value if isinstance(count, Imm) else None


_RULES: dict[str, Callable[[Instr, Sequence[int]], int | None]] = {
    "add": lambda i, k: k[0] + k[1], "sub": lambda i, k: k[0] - k[1], "mov": lambda i, k: k[0],
    "cvta": lambda i, k: k[0], "cvt": lambda i, k: k[0], "mul": _factor, "mad": _mad, "shl": _shl,
}  # fmt: skip


def prefetch(scope: Scope, place: Where, type: str, count: int, step: int) -> None:
    """Fetch what the lanes of the next block will read, line by line."""
    e, width = scope.e, scope.code.width
    if place.lanes is None:
        return
    size = BITS[type] // 8 * count
    offsets = place.lanes.offsets or (0,)
    low, high = min(offsets), max(offsets) + size
    if high - low > 2 * width * size or abs(step) < LINE:
        return
    e.declarations["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    for offset in range(low, high, LINE):
        target: Value = at(scope, place.pointer, offset + step)
        e.line(f"call void @llvm.prefetch.p0({target}, i32 0, i32 2, i32 1)")
    scope.code.count("prefetches")
