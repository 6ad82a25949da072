"""Prefetching for the next block: how far an address moves when ``ctaid.x`` grows by one.

A block with phases leaves memory idle while it reduces; what its first phase reads is fetched
into the second-level cache one block ahead. Kernels without barriers walk memory in order and gain
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ge2rt.ptx.ast import Imm, Instr, Operand, Reg, Special
from ge2rt.ptx.emit import BITS, Value
from ge2rt.ptx.lanes import FULL, wrap
from ge2rt.ptx.lower.address import Where, at
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.geometry import Geometry
from ge2rt.ptx.lower.kinds import Kinds
from ge2rt.ptx.lower.shape import shape_of
from ge2rt.ptx.lower.values import Scope

LINE = 64  # bytes


def block_steps(flow: Flow, kinds: Kinds, geometry: Geometry) -> dict[str, int | None]:
    """The step of each register, None where it is not a constant."""
    finder = _Finder(kinds, geometry)
    changed = True
    while changed:
        changed = False
        for node in flow.nodes:
            for instr in node.instrs:
                for name in shape_of(instr).written:
                    changed |= finder.define(name, instr)
    return finder.steps


class _Finder:
    def __init__(self, kinds: Kinds, geometry: Geometry) -> None:
        self.steps: dict[str, int | None] = {}
        self._kinds, self._geometry = kinds, geometry

    def define(self, name: str, instr: Instr) -> bool:
        """Take a definition into account; whether that changed the register's step."""
        found = self._step(instr)
        if name in self.steps and self.steps[name] != found:
            found = None
        changed = name not in self.steps or self.steps[name] != found
        self.steps[name] = found
        return changed

    def _step(self, instr: Instr) -> int | None:
        if instr.op == "ld" and "param" in instr.mods:
            return 0
        operands = shape_of(instr).sources
        if instr.op in ("ld", "ldu", "atom", "call") or len(shape_of(instr).written) != 1:
            return None
        known = [step for o in operands if (step := self._of(o)) is not None]
        if len(known) != len(operands):
            return None
        if not any(known):
            return 0
        if instr.op in ("mul", "mad"):
            return self._product(instr, operands, known)
        rule = _RULES.get(instr.op)
        if instr.op == "shl" and (count := self._value(operands[1])) is not None:
            return known[0] << count
        return rule(known) if rule else None

    def _of(self, operand: Operand) -> int | None:
        if isinstance(operand, Reg):
            return self.steps.get(operand.name, 0)
        return int(operand == Special("ctaid", "x"))

    def _value(self, operand: Operand) -> int | None:
        """The constant that an operand is, if it is one."""
        if isinstance(operand, Imm):
            return operand.value if operand.kind == "int" else None
        lanes = None
        if isinstance(operand, Reg):
            lanes = self._kinds.lanes.get(operand.name)
        elif isinstance(operand, Special):
            lanes = self._geometry.lanes_of(operand)
        exact = lanes is not None and lanes.uniform and lanes.known == FULL
        return wrap(lanes.residue, FULL) if lanes is not None and exact else None

    def _product(
        self, instr: Instr, operands: Sequence[Operand], known: Sequence[int]
    ) -> int | None:
        added = known[2] if instr.op == "mad" else 0
        if not known[0] and not known[1]:
            return added
        for moving, other in ((0, 1), (1, 0)):
            factor = self._value(operands[other])
            if factor is not None and "hi" not in instr.mods:
                return known[moving] * factor + added
        return None


_RULES: dict[str, Callable[[Sequence[int]], int]] = {
    "add": lambda k: k[0] + k[1], "sub": lambda k: k[0] - k[1], "mov": lambda k: k[0],
    "cvta": lambda k: k[0], "cvt": lambda k: k[0],
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
