"""Shuffles with constant patterns: merging, joining, and turning records into lanes and back."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.emit import BITS, Emitter, Value

CHUNK_BYTES = 64  # a vector register: shuffles inside one or two of them are single instructions


def two(e: Emitter, a: Value, b: Value | None, picks: Sequence[int]) -> Value:
    """Elements of ``a`` followed by ``b`` by number (-1: any)."""
    listed = ", ".join(f"i32 {p}" if p >= 0 else "i32 poison" for p in picks)
    other = b if b is not None else Value(a.type, "poison", a.lanes)
    return e.raw(f"shufflevector {a}, {other}, <{len(picks)} x i32> <{listed}>", a.type, len(picks))


def shuffle(e: Emitter, value: Value, picks: Sequence[int]) -> Value:
    """Elements of one vector by number (-1: any)."""
    return two(e, value, None, picks)


def merge(e: Emitter, a: Value, b: Value, from_b: Sequence[bool]) -> Value:
    """Lane by lane from ``a`` or from ``b``."""
    return two(e, a, b, [k + a.lanes if chosen else k for k, chosen in enumerate(from_b)])


def concat(e: Emitter, values: Sequence[Value]) -> Value:
    """Vectors of one length, one after the other (a power of two of them)."""
    joined = list(values)
    while len(joined) > 1:
        joined = [
            two(e, a, b, range(a.lanes + b.lanes))
            for a, b in zip(joined[::2], joined[1::2], strict=True)
        ]
    return joined[0]


def chunk(type: str, lanes: int) -> int:
    """Elements of a register-sized piece of a vector of ``lanes``."""
    return min(lanes, CHUNK_BYTES * 8 // BITS[type])


def unwoven(e: Emitter, records: Sequence[Value]) -> list[Value]:
    """``count`` consecutive vectors that hold records of ``count`` elements: one vector a field.

    Four fields take two steps of two-register shuffles: eight shuffles instead of twelve.
    """
    count, lanes = len(records), records[0].lanes
    if count != 4 or lanes < 4:
        whole = concat(e, records)
        return [shuffle(e, whole, range(k, count * lanes, count)) for k in range(count)]
    quarter = [[k + 4 * n for n in range(lanes // 2)] for k in range(4)]
    low = [two(e, records[0], records[1], quarter[k] + quarter[k + 1]) for k in (0, 2)]
    high = [two(e, records[2], records[3], quarter[k] + quarter[k + 1]) for k in (0, 2)]
    half, rest = range(lanes // 2), range(lanes // 2, lanes)
    return [
        two(e, low[pair], high[pair], [*part, *(p + lanes for p in part)])
        for pair in (0, 1)
        for part in (half, rest)
    ]


def woven(e: Emitter, fields: Sequence[Value]) -> list[Value]:
    """The inverse of :func:`unwoven`."""
    count, lanes = len(fields), fields[0].lanes
    if count != 4 or lanes < 4:
        whole = concat(e, fields)
        picks = [k * lanes + lane for lane in range(lanes) for k in range(count)]
        ordered = shuffle(e, whole, picks)
        return [
            shuffle(e, ordered, range(k * lanes, (k + 1) * lanes)) if count > 1 else ordered
            for k in range(count)
        ]
    half, rest = range(lanes // 2), range(lanes // 2, lanes)
    results = []
    for part in (half, rest):
        first, second = (
            two(e, fields[k], fields[k + 1], [*part, *(p + lanes for p in part)]) for k in (0, 2)
        )
        h = lanes // 2
        for start in (0, h // 2):
            lanes_here = range(start, start + h // 2)
            picks = [p for n in lanes_here for p in (n, n + h, n + lanes, n + h + lanes)]
            results.append(two(e, first, second, picks))
    return results
