"""Stores: one scalar, wide, split or scattered access, by what is known of the addresses."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.lanewise import by_lane
from ge2rt.ptx.lower.address import (
    Where,
    any_lane,
    at,
    neighbours,
    pointers_of,
    short,
    steps_evenly,
)
from ge2rt.ptx.lower.loads import one_by_one
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.lower.weave import chunk, concat, shuffle, woven


def store(scope: Scope, place: Where, values: Sequence[Value], active: Value | None) -> None:
    """Consecutive elements a lane; of lanes with one address the last wins."""
    width = scope.code.width
    offsets = place.offsets(width)
    size = BITS[values[0].type] // 8
    if offsets is not None and not any(offsets):
        _store_uniform(scope, place.pointer, values, active)
        return
    vectors = [scope.e.splat(v) for v in values]
    if offsets is not None and steps_evenly(offsets, size * len(values)):
        _store_wide(scope, place.pointer, vectors, active)
    elif offsets is not None and active is None:
        spots = [o + k * size for o in offsets for k in range(len(vectors))]
        _store_runs(scope, place.pointer, _records(scope, vectors), spots)
    elif offsets is None:
        _store_unknown(scope, place.pointer, vectors, active)
    else:
        pointers = pointers_of(scope, place)
        for k, value in enumerate(vectors):
            _scatter(scope, pointers, value, k * size, active)


def _store_uniform(
    scope: Scope, base: Value, values: Sequence[Value], active: Value | None
) -> None:
    e = scope.e
    scope.code.count("scalar stores")
    guarded = active is not None and active is not scope.mask
    for k, value in enumerate(values):
        target = at(scope, base, k * BITS[value.type] // 8)
        single = last_lane(scope, value, active)
        if not guarded:
            e.line(f"store {single}, {target}, align 1")
            continue
        assert active is not None
        some = any_lane(scope, active)
        one = e.raw(f"insertelement <1 x i1> poison, {some}, i32 0", "i1", 1)
        boxed = e.raw(f"insertelement <1 x {single.type}> poison, {single}, i32 0", single.type, 1)
        _masked_store(scope, target, boxed, one)


def last_lane(scope: Scope, value: Value, active: Value | None) -> Value:
    """The value of the last active lane (any, if there is none)."""
    if not value.lanes:
        return value
    e, width = scope.e, scope.code.width
    if active is None:
        return e.raw(f"extractelement {value}, i32 {width - 1}", value.type)
    bits = e.raw(f"bitcast {active} to i{width}", f"i{width}")
    e.declarations[f"llvm.ctlz.i{width}"] = f"declare i{width} @llvm.ctlz.i{width}(i{width}, i1)"
    zeros = e.raw(f"call i{width} @llvm.ctlz.i{width}({bits}, i1 false)", f"i{width}")
    index = e.binary("sub", Value(f"i{width}", str(width - 1)), zeros)
    index = e.binary("and", index, Value(f"i{width}", str(width - 1)))
    return e.raw(f"extractelement {value}, {index}", value.type)


def _masked_store(scope: Scope, base: Value, value: Value, mask: Value) -> None:
    e = scope.e
    name = f"llvm.masked.store.v{value.lanes}{short(value.type)}.p0"
    e.declarations[name] = f"declare void @{name}({value.full_type}, ptr, <{value.lanes} x i1>)"
    e.line(f"call void @{name}({value}, ptr align 1 {base.text}, {mask})")


def _store_wide(scope: Scope, base: Value, values: Sequence[Value], active: Value | None) -> None:
    e = scope.e
    scope.code.count("wide stores")
    value = _records(scope, values)
    if active is None:
        e.line(f"store {value}, {base}, align 1")
        return
    mask = active
    if len(values) > 1:
        mask = shuffle(scope.e, active, [k // len(values) for k in range(value.lanes)])
    _masked_store(scope, base, value, mask)


def _records(scope: Scope, fields: Sequence[Value]) -> Value:
    """Lane by lane: all values of lane 0, then all of lane 1..."""
    e, width = scope.e, scope.code.width
    if len(fields) == 1:
        return fields[0]
    lanes = chunk(fields[0].type, width)
    if lanes == width:
        return concat(e, woven(e, fields))
    pieces: list[Value] = []
    for first in range(0, width, lanes):
        pieces += woven(e, [shuffle(e, v, range(first, first + lanes)) for v in fields])
    return concat(e, pieces)


def _store_runs(scope: Scope, base: Value, value: Value, offsets: Sequence[int]) -> None:
    """Static offsets, all lanes: neighbours in memory and lane order are stored together."""
    e = scope.e
    size = BITS[value.type] // 8
    scope.code.count("split stores")
    first = 0
    for lane in range(1, len(offsets) + 1):
        if lane < len(offsets) and offsets[lane] == offsets[lane - 1] + size:
            continue
        target = at(scope, base, offsets[first])
        if lane - first == 1:
            single = e.raw(f"extractelement {value}, i32 {first}", value.type)
            e.line(f"store {single}, {target}, align 1")
        else:
            part = shuffle(scope.e, value, range(first, lane))
            e.line(f"store {part}, {target}, align 1")
        first = lane


def _store_one(e: Emitter, args: Sequence[Value]) -> list[Value]:
    e.line(f"store {args[0]}, {args[1]}, align 1")
    return []


def _scatter(
    scope: Scope, pointers: Value, value: Value, offset: int, active: Value | None
) -> None:
    e, width = scope.e, scope.code.width
    scope.code.count("scatters")
    if offset:
        pointers = e.raw(
            f"getelementptr i8, {pointers}, {e.const('i64', offset, width)}", "ptr", width
        )
    if active is not None and one_by_one(e, value.type, stores=True):
        by_lane(e, "store", active, (value, pointers), results=(), step=_store_one)
        return
    mask = active if active is not None else e.const("i1", "true", width)
    name = f"llvm.masked.scatter.v{width}{short(value.type)}.v{width}p0"
    e.declarations[name] = (
        f"declare void @{name}({value.full_type}, <{width} x ptr>, <{width} x i1>)"
    )
    e.line(f"call void @{name}({value}, <{width} x ptr> align 1 {pointers.text}, {mask})")


def _store_unknown(
    scope: Scope, pointers: Value, values: Sequence[Value], active: Value | None
) -> None:
    """As :func:`_load_unknown`."""
    e = scope.e
    size = BITS[values[0].type] // 8
    base, near = neighbours(scope, pointers, size * len(values), active)
    wide, apart, done = e.name("near"), e.name("apart"), e.name("stored")
    e.line(f"br {near}, label %{wide}, label %{apart}")
    e.label(wide)
    _store_wide(scope, base, values, active)
    e.line(f"br label %{done}")
    e.label(apart)
    for k, value in enumerate(values):
        _scatter(scope, pointers, value, k * size, active)
    e.line(f"br label %{done}")
    e.label(done)
