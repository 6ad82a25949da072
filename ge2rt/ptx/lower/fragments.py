"""``wmma.load`` and ``wmma.store``: fragments between memory and registers.

Which element lies where in a fragment is :mod:`ge2rt.ptx.rules.wmma`'s matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Address, Imm, Instr, Operand
from ge2rt.ptx.emit import Value
from ge2rt.ptx.lower.address import Where, moved, where
from ge2rt.ptx.lower.checks import READ, WRITE
from ge2rt.ptx.lower.loads import load
from ge2rt.ptx.lower.memory import space_of
from ge2rt.ptx.lower.shape import flatten
from ge2rt.ptx.lower.stores import store
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.rules.operands import PtxType, cast, types_of
from ge2rt.ptx.rules.warp import WARP as LANES_OF_WARP
from ge2rt.ptx.rules.wmma import places, shape_of

_LOADED = {"a": "a", "b": "b", "c": "c", "d": "c"}


class _Fragment:
    """One fragment in memory: where each register's elements lie."""

    def __init__(
        self, scope: Scope, instr: Instr, address: Operand, stride: Operand | None
    ) -> None:
        if scope.code.width != LANES_OF_WARP:
            raise UnsupportedError(f"{instr.form} needs 32 lanes", where=f"ptx:{instr.line}")
        assert isinstance(address, Address)
        self.scope, self.type = scope, types_of(instr)[-1]
        matrix = next(_LOADED[m] for m in instr.mods if m in _LOADED)
        self.rows = instr.has("row")
        shape = shape_of(instr)
        self.places = places(matrix, shape, self.type)
        base = where(scope, address, space_of(instr))
        pointer = base.pointer
        if pointer.lanes:
            pointer = scope.e.raw(f"extractelement {pointer}, i32 0", "ptr")
        self.base = pointer
        m, n, k = shape
        extents = {"a": (m, k), "b": (k, n), "c": (m, n)}[matrix]
        self.stride: int | Value = extents[1] if self.rows else extents[0]
        if isinstance(stride, Imm):
            self.stride = stride.value
        elif stride is not None:
            value = scope.vector(stride)
            if value.lanes:
                value = scope.e.raw(f"extractelement {value}, i32 0", value.type)
            self.stride = scope.e.convert("zext", value, "i64")

    def element(self, spots: Sequence[tuple[int, int]]) -> Where:
        """The addresses of one (row, column) a lane."""
        majors = [r if self.rows else c for r, c in spots]
        minors = [c if self.rows else r for r, c in spots]
        if isinstance(self.stride, int):
            offsets = [
                self.type.bits * (a * self.stride + b) // 8
                for a, b in zip(majors, minors, strict=True)
            ]
            e = self.scope.e
            first = e.raw(f"getelementptr i8, {self.base}, i64 {offsets[0]}", "ptr")
            return moved(Where(first, None), [o - offsets[0] for o in offsets])
        e = self.scope.e
        row = e.binary("mul", self.stride, Value("i64", str(self.type.bits)))
        step = e.splat(e.binary("lshr", row, Value("i64", "3")))  # rows begin at whole bytes
        far = e.binary("mul", step, e.per_lane("i64", majors))
        near = e.per_lane("i64", [self.type.bits * b // 8 for b in minors])
        offsets_now = e.binary("add", far, near)
        return Where(e.raw(f"getelementptr i8, {self.base}, {offsets_now}", "ptr", 32), None)

    def together(self, register: int) -> bool:
        """Whether a register's elements are neighbours in memory."""
        across = (0, 1) if self.rows else (1, 0)
        return all(
            (r, c) == (lane[0][0] + across[0] * s, lane[0][1] + across[1] * s)
            for lane in self.places[register] for s, (r, c) in enumerate(lane)
        )  # fmt: skip

    def pieces(self, register: int) -> list[tuple[Where, str, int]]:
        """(addresses, LLVM type, first bit) of the accesses that make up a register."""
        lanes = self.places[register]
        count = len(lanes[0])
        bits = self.type.bits
        if self.together(register):
            return [(self.element([lane[0] for lane in lanes]), f"i{bits * count}", 0)]
        return [
            (self.element([lane[s] for lane in lanes]), f"i{bits}", bits * s) for s in range(count)
        ]


def load_fragment(scope: Scope, instr: Instr) -> list[Value]:
    """``wmma.load``: the values of all registers."""
    operands = instr.operands
    if scope.code.watch is not None:
        scope.code.watch.warp(scope, instr, ())
    fragment = _Fragment(scope, instr, operands[1], operands[2] if len(operands) > 2 else None)
    count = len(flatten(operands[0]))
    e, active, found = scope.e, scope.active(instr), dict[str, Value]()
    results: list[Value] = []
    for register in range(count):
        key = str(fragment.places[register])
        if key not in found:
            word: Value | None = None
            for place, type, shift in fragment.pieces(register):
                _watch(scope, instr, place, type, how=READ)
                got = e.splat(load(scope, place, type, 1, active)[0])
                if type in ("i8", "i16"):
                    got = e.convert("zext", got, "i32")
                    got = e.binary("shl", got, e.const("i32", shift))
                word = got if word is None else e.binary("or", word, got)
            assert word is not None
            found[key] = _as_register(scope, word, fragment.type)
        results.append(found[key])
    return results


def _as_register(scope: Scope, word: Value, type: PtxType) -> Value:
    return cast(scope.e, word, type.llvm) if type.bits >= 32 else word


def store_fragment(scope: Scope, instr: Instr) -> None:
    """``wmma.store.d``."""
    operands = instr.operands
    if scope.code.watch is not None:
        scope.code.watch.warp(scope, instr, ())
    fragment = _Fragment(scope, instr, operands[0], operands[2] if len(operands) > 2 else None)
    e, active = scope.e, scope.active(instr)
    for register, operand in enumerate(o for o in flatten(operands[1]) if o is not None):
        word_type = "i64" if fragment.type.bits == 64 else "i32"
        word = e.splat(cast(e, scope.vector(operand), word_type))
        for place, type, shift in fragment.pieces(register):
            part = e.binary("lshr", word, e.const(word_type, shift)) if shift else word
            _watch(scope, instr, place, type, how=WRITE)
            store(scope, place, [e.convert("trunc", part, type)], active)


def _watch(scope: Scope, instr: Instr, place: Where, type: str, *, how: int) -> None:
    if (watch := scope.code.watch) is not None:
        active, space = scope.active(instr), space_of(instr)
        watch.access(scope, instr, place, type, 1, how=how, space=space, active=active)


def wmma(scope: Scope, instr: Instr) -> list[Value] | None:
    """A load or store; None for the multiplication."""
    if instr.has("load"):
        return load_fragment(scope, instr)
    if instr.has("store"):
        store_fragment(scope, instr)
        return []
    return None
