"""Loads: one scalar, wide, shuffled or gathered access, by what is known of the addresses."""

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
from ge2rt.ptx.lower.groups import few
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.lower.weave import chunk, concat, merge, shuffle, unwoven

MAX_HOLE = 4096  # bytes between two accessed elements that may be read along: less than a page
MAX_RUNS = 8


def load(
    scope: Scope, place: Where, type: str, count: int, active: Value | None, suffix: str = ""
) -> list[Value]:
    """``count`` consecutive elements a lane; ``active`` None: all lanes. Scalars if uniform."""
    width = scope.code.width
    offsets = place.offsets(width)
    size = BITS[type] // 8
    if offsets is None:
        return _load_unknown(scope, place.pointer, type, count, active, suffix)
    if not any(offsets):
        return _load_uniform(scope, place.pointer, type, count, active, suffix)
    if steps_evenly(offsets, size * count):
        return _load_wide(scope, place.pointer, type, count, active, suffix)
    if active is None and count > 1 and _in_records(offsets, size * count, chunk(type, width)):
        scope.code.count("wide loads")
        return _load_records(scope, place.pointer, type, count, offsets, suffix)
    if active is None:
        found = _load_pattern(scope, place.pointer, type, count, offsets, suffix)
        if found is not None:
            return found
    vector = pointers_of(scope, place)
    return [_gather(scope, vector, type, k * size, active) for k in range(count)]


def _load_uniform(
    scope: Scope, base: Value, type: str, count: int, active: Value | None, suffix: str
) -> list[Value]:
    e = scope.e
    scope.code.count("scalar loads")
    size = BITS[type] // 8
    if active is None or active is scope.mask:
        return [
            e.raw(f"load {type}, {at(scope, base, k * size)}, align 1{suffix}", type)
            for k in range(count)
        ]
    some = any_lane(scope, active)
    one = e.raw(f"insertelement <1 x i1> poison, {some}, i32 0", "i1", 1)
    results = []
    for k in range(count):
        zero = e.const(type, "zeroinitializer", 1)
        got = _masked_load(scope, at(scope, base, k * size), type, 1, one, zero)
        results.append(e.raw(f"extractelement {got}, i32 0", type))
    return results


def _masked_load(
    scope: Scope, base: Value, type: str, lanes: int, mask: Value, passed: Value
) -> Value:
    e = scope.e
    name = f"llvm.masked.load.v{lanes}{short(type)}.p0"
    full = f"<{lanes} x {type}>"
    e.declarations[name] = f"declare {full} @{name}(ptr, <{lanes} x i1>, {full})"
    return e.raw(f"call {full} @{name}(ptr align 1 {base.text}, {mask}, {passed})", type, lanes)


def _load_wide(
    scope: Scope, base: Value, type: str, count: int, active: Value | None, suffix: str
) -> list[Value]:
    e, width = scope.e, scope.code.width
    scope.code.count("wide loads")
    if active is None:
        if count == 1:
            return [e.raw(f"load <{width} x {type}>, {base}, align 1{suffix}", type, width)]
        size = BITS[type] // 8
        return _load_records(scope, base, type, count, [k * size * count for k in range(width)],
                             suffix)  # fmt: skip
    total = width * count
    mask = active if count == 1 else shuffle(e, active, [k // count for k in range(total)])
    got = _masked_load(scope, base, type, total, mask, e.const(type, "zeroinitializer", total))
    if count == 1:
        return [got]
    return [shuffle(e, got, range(k, total, count)) for k in range(count)]


def _load_records(
    scope: Scope, base: Value, type: str, count: int, offsets: Sequence[int], suffix: str
) -> list[Value]:
    """Records of ``count`` elements, contiguous over each register's worth of lanes."""
    e, width = scope.e, scope.code.width
    lanes = chunk(type, width)
    size = BITS[type] // 8
    known: dict[int, list[Value]] = {}
    for first in range(0, width, lanes):
        start = offsets[first]
        if start not in known:
            records = [
                e.raw(f"load <{lanes} x {type}>, {at(scope, base, start + k * lanes * size)}, "
                      f"align 1{suffix}", type, lanes)
                for k in range(count)
            ]  # fmt: skip
            known[start] = unwoven(e, records)
    parts = [known[offsets[first]] for first in range(0, width, lanes)]
    return [concat(e, [part[k] for part in parts]) for k in range(count)]


def _in_records(offsets: Sequence[int], step: int, lanes: int) -> bool:
    return all(offsets[k] == offsets[k - k % lanes] + k % lanes * step for k in range(len(offsets)))


def _load_pattern(
    scope: Scope, base: Value, type: str, count: int, offsets: Sequence[int], suffix: str
) -> list[Value] | None:
    """Repeated, permuted or gapped lanes: few wide loads and shuffles. None: no gain."""
    size = BITS[type] // 8
    starts = sorted(set(offsets))
    if any((o - starts[0]) % size for o in starts):
        return None
    runs: list[list[int]] = []  # [first offset, bytes]
    for start in starts:
        gap = start - (runs[-1][0] + runs[-1][1]) if runs else 0
        if runs and gap < min(MAX_HOLE, 3 * size * count + 1):
            runs[-1][1] = max(runs[-1][1], start + size * count - runs[-1][0])
        else:
            runs.append([start, size * count])
    if len(runs) > MAX_RUNS:
        return None
    scope.code.count("shuffled loads")
    e, width = scope.e, scope.code.width
    if count == 1 and len(starts) <= few(width):
        return [_load_few(scope, base, type, offsets, starts, suffix)]
    pieces = []
    for first, nbytes in runs:
        lanes = nbytes // size
        got = e.raw(f"load <{lanes} x {type}>, {at(scope, base, first)}, align 1{suffix}",
                    type, lanes)  # fmt: skip
        pieces.append((first, nbytes, got))
    results = []
    for k in range(count):
        result: Value | None = None
        for first, nbytes, got in pieces:
            inside = [first <= o < first + nbytes for o in offsets]
            picks = [(o - first) // size + k if i else -1
                     for o, i in zip(offsets, inside, strict=True)]  # fmt: skip
            moved = shuffle(scope.e, got, picks)
            result = moved if result is None else merge(scope.e, result, moved, inside)
        assert result is not None
        results.append(Value(type, result.text, width))
    return results


def _load_few(
    scope: Scope, base: Value, type: str, offsets: Sequence[int], starts: Sequence[int], suffix: str
) -> Value:
    """Few distinct addresses: a broadcast each."""
    e = scope.e
    result: Value | None = None
    for start in starts:
        got = e.splat(e.raw(f"load {type}, {at(scope, base, start)}, align 1{suffix}", type))
        here = [o == start for o in offsets]
        result = got if result is None else merge(scope.e, result, got, here)
    assert result is not None
    return result


def one_by_one(e: Emitter, type: str, *, stores: bool = False) -> bool:
    """Whether the target has no masked gather (or scatter) of such elements, or a slow one.

    LLVM would write a branch a lane: with 500 of them an hgemm took 47 s to compile on AVX2, as
    loops over the lanes 16 s, and scattered stores under a mask run no slower.
    """
    if BITS[type] < 32:
        return True
    if "+avx512f" in e.features:
        return False
    return stores or "+avx2" not in e.features or e.cpu.startswith("znver")


def _gather(scope: Scope, pointers: Value, type: str, offset: int, active: Value | None) -> Value:
    e, width = scope.e, scope.code.width
    scope.code.count("gathers")
    if offset:
        pointers = e.raw(
            f"getelementptr i8, {pointers}, {e.const('i64', offset, width)}", "ptr", width
        )
    if active is not None and one_by_one(e, type):

        def step(inner: Emitter, args: Sequence[Value]) -> list[Value]:
            return [inner.raw(f"load {type}, {args[0]}, align 1", type)]

        return by_lane(e, f"load.{type}", active, (pointers,), results=(type,), step=step)[0]
    mask = active if active is not None else e.const("i1", "true", width)
    name = f"llvm.masked.gather.v{width}{short(type)}.v{width}p0"
    full = f"<{width} x {type}>"
    e.declarations[name] = f"declare {full} @{name}(<{width} x ptr>, <{width} x i1>, {full})"
    zero = e.const(type, "zeroinitializer", width)
    marked = f"<{width} x ptr> align 1 {pointers.text}"
    return e.raw(f"call {full} @{name}({marked}, {mask}, {zero})", type, width)


def _load_unknown(
    scope: Scope, pointers: Value, type: str, count: int, active: Value | None, suffix: str
) -> list[Value]:
    """One wide load where the lanes turn out to be neighbours, else gathers."""
    e, size = scope.e, BITS[type] // 8
    base, near = neighbours(scope, pointers, size * count, active)
    wide, apart, done = e.name("near"), e.name("apart"), e.name("loaded")
    e.line(f"br {near}, label %{wide}, label %{apart}")
    e.label(wide)
    first = _load_wide(scope, base, type, count, active, suffix)
    e.line(f"br label %{done}")
    e.label(apart)
    second = [_gather(scope, pointers, type, k * size, active) for k in range(count)]
    e.line(f"br label %{done}")
    e.label(done)
    return [
        e.raw(f"phi {a.full_type} [ {a.text}, %{wide} ], [ {b.text}, %{apart} ]", a.type, a.lanes)
        for a, b in zip(first, second, strict=True)
    ]
