"""Addresses of the lanes of a warp: lane 0's pointer and offsets, or a vector of pointers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ge2rt.ptx.ast import Address, Imm, Operand, Symbol
from ge2rt.ptx.emit import Value
from ge2rt.ptx.lanes import Lanes, Offsets, constant
from ge2rt.ptx.lower.values import Scope, spread_lanes


class Where(NamedTuple):
    """Addresses of the lanes: ``pointer`` is lane 0's, or all lanes' (offsets unknown)."""

    pointer: Value
    lanes: Lanes | None

    def offsets(self, width: int) -> tuple[int, ...] | None:
        """Byte offsets from lane 0, or None."""
        if self.lanes is None:
            return None
        return self.lanes.offsets or (0,) * width


def where(scope: Scope, address: Address, space: str, extra: int = 0) -> Where:
    """The pointers of an address operand in a state space."""
    e = scope.e
    offset = address.offset + extra
    base: Operand = address.base if address.base is not None else Imm(0)
    if isinstance(base, Symbol):
        base, offset = Symbol(base.name, base.offset + offset), 0
    lanes = scope.lanes(base)
    if lanes is not None:
        number = scope.scalar(base)
        lanes = _only(lanes.offsets)
    else:
        number = scope.vector(base)
    number = _wide(scope, number)
    shared = space == "shared" or (
        isinstance(base, Symbol) and scope.code.places.place(base).space == "shared"
    )
    if number.lanes:
        lanes = None
    if offset:
        number = e.binary("add", number, e.const("i64", offset, number.lanes))
    return Where(pointer(scope, number, shared), lanes)


@lru_cache(maxsize=4096)
def _only(offsets: Offsets) -> Lanes:
    """Lanes of which no more is known."""
    return Lanes(offsets)


def _wide(scope: Scope, number: Value) -> Value:
    """A register as a 64-bit address: 32-bit ones are offsets below 2**31 where they are used."""
    e = scope.e
    if number.type == "i64":
        return number
    if number.text.lstrip("-").isdigit():
        return Value("i64", number.text)
    return e.convert("sext", number, "i64")


def pointer(scope: Scope, number: Value, shared: bool) -> Value:
    """An address (or shared offset) as a pointer or vector of pointers."""
    e = scope.e
    full = f"<{number.lanes} x ptr>" if number.lanes else "ptr"
    if shared:
        return e.raw(f"getelementptr i8, ptr %arena, {number}", "ptr", number.lanes)
    return e.raw(f"inttoptr {number} to {full}", "ptr", number.lanes)


def at(scope: Scope, base: Value, offset: int) -> Value:
    """A scalar pointer moved by a constant."""
    if not offset:
        return base
    return scope.e.raw(f"getelementptr i8, {base}, i64 {offset}", "ptr")


def moved(place: Where, offsets: Sequence[int]) -> Where:
    """The same lane 0 with other offsets."""
    return Where(place.pointer, Lanes(tuple(offsets)))


def full_lanes(scope: Scope, place: Where) -> Value:
    """All lanes' addresses as an i64 vector."""
    e = scope.e
    if place.lanes is None:
        return e.raw(
            f"ptrtoint {place.pointer} to <{place.pointer.lanes} x i64>", "i64",
            place.pointer.lanes,
        )  # fmt: skip
    number = e.raw(f"ptrtoint {place.pointer} to i64", "i64")
    return spread_lanes(e, number, place.lanes if place.lanes.offsets else constant(0))


def steps_evenly(offsets: Sequence[int], step: int) -> bool:
    """Whether each lane lies ``step`` bytes behind the one before."""
    return tuple(offsets) == _even(len(offsets), step)


@lru_cache(maxsize=256)
def _even(lanes: int, step: int) -> Offsets:
    return tuple(range(0, lanes * step, step))


def pointers_of(scope: Scope, place: Where) -> Value:
    """A vector of pointers from lane 0's and the offsets."""
    e, width = scope.e, scope.code.width
    if place.pointer.lanes:
        return place.pointer
    offsets = e.per_lane("i64", place.offsets(width) or ())
    return e.raw(f"getelementptr i8, {place.pointer}, {offsets}", "ptr", width)


def any_lane(scope: Scope, mask: Value) -> Value:
    """Whether a mask has any lane, as a scalar i1."""
    e = scope.e
    bits = e.raw(f"bitcast {mask} to i{mask.lanes}", f"i{mask.lanes}")
    return e.compare("icmp ne", bits, Value(bits.type, "0"))


def short(type: str) -> str:
    """A type in the name of an intrinsic."""
    return {"float": "f32", "double": "f64"}.get(type, type)


def neighbours(
    scope: Scope, pointers: Value, step: int, active: Value | None
) -> tuple[Value, Value]:
    """Where lane 0 would be and whether all active lanes lie ``step`` bytes apart from there."""
    e, width = scope.e, scope.code.width
    numbers = e.raw(f"ptrtoint {pointers} to <{width} x i64>", "i64", width)
    starts = e.binary("sub", numbers, e.per_lane("i64", [step * k for k in range(width)]))
    if active is None:
        first = e.raw(f"extractelement {starts}, i32 0", "i64")
    else:
        living = e.select(active, starts, e.const("i64", 0, width))
        first = e.call_named(f"llvm.vector.reduce.umax.v{width}i64", [living], "i64")
    agree = e.compare("icmp eq", starts, e.splat(first))
    if active is not None:
        dead = e.binary("xor", active, e.const("i1", "true", width))
        agree = e.binary("or", agree, dead)
    bits = e.raw(f"bitcast {agree} to i{width}", f"i{width}")
    near = e.compare("icmp eq", bits, Value(bits.type, "-1"))
    return e.raw(f"inttoptr {first} to ptr", "ptr"), near
