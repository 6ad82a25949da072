"""Views of views as one view, views that change nothing, views of constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ge2rt.base.shapes import Shape, size_of
from ge2rt.ir.attrs import integer, ints, number
from ge2rt.ir.constants import full
from ge2rt.ir.graph import Node
from ge2rt.ir.rewrite import Builder, Rule


def unchanged(b: Builder, n: Node) -> Node | None:
    """A view that shows its operand as it is."""
    x = n.inputs[0]
    if n.shape != x.shape:
        return None
    if n.op == "transpose" and ints(n, "perm") != tuple(range(x.type.rank)):
        return None
    if n.op == "slice" and not _whole(n):
        return None
    return x


def _whole(n: Node) -> bool:
    start, step = ints(n, "start"), ints(n, "step")
    rows = zip(n.shape, n.inputs[0].shape, start, step, strict=True)
    return all(e == whole and (e <= 1 or (s == 0 and k == 1)) for e, whole, s, k in rows)


def of_constant(b: Builder, n: Node) -> Node | None:
    """A view of one value everywhere."""
    x = n.inputs[0]
    if x.op != "full":
        return None
    value = number(x, "value")
    return full(b, n.type, value)


def composed(b: Builder, n: Node) -> Node | None:
    """A view of the same kind of view."""
    inner = n.inputs[0]
    if inner.op != n.op:
        return None
    x = inner.inputs[0]
    if n.op in ("reshape", "broadcast"):
        return b.make(n.op, x, shape=n.shape, where=n.where)
    if n.op == "transpose":
        perm = tuple(ints(inner, "perm")[a] for a in ints(n, "perm"))
        return b.make("transpose", x, perm=perm, where=n.where)
    first, by = ints(inner, "start"), ints(inner, "step")
    start = tuple(f + k * s for f, k, s in zip(first, by, ints(n, "start"), strict=True))
    step = tuple(k * s for k, s in zip(by, ints(n, "step"), strict=True))
    return b.make("slice", x, start=start, step=step, shape=n.shape, where=n.where)


def of_join(b: Builder, n: Node) -> Node | None:
    """A slice that reads one operand of a concat, or only what lies inside a pad."""
    x = n.inputs[0]
    if x.op not in ("concat", "pad") or not size_of(n.shape):
        return None
    start, step = ints(n, "start"), ints(n, "step")
    ends = [sorted((s, s + k * (e - 1))) for s, k, e in zip(start, step, n.shape, strict=True)]
    for part, origin in parts_of(x):
        rows = zip(ends, origin, part.shape, strict=True)
        if all(low >= at and high < at + extent for (low, high), at, extent in rows):
            moved = tuple(s - at for s, at in zip(start, origin, strict=True))
            return b.make("slice", part, start=moved, step=step, shape=n.shape, where=n.where)
    return None


def parts_of(x: Node) -> list[tuple[Node, tuple[int, ...]]]:
    """What a join is made of, and where each part begins."""
    if x.op == "pad":
        low = ints(x, "low")
        return [(x.inputs[0], low)]
    axis = integer(x, "axis")
    parts, at = [], 0
    for part in x.inputs:
        parts.append((part, tuple(at if a == axis else 0 for a in range(x.type.rank))))
        at += part.shape[axis]
    return parts


def transpose_as_reshape(b: Builder, n: Node) -> Node | None:
    """A transpose that moves only axes of extent 1."""
    x = n.inputs[0]
    long = [a for a in ints(n, "perm") if x.shape[a] != 1]
    if long != sorted(long):
        return None
    return b.make("reshape", x, shape=n.shape, where=n.where)


def broadcast_as_reshape(b: Builder, n: Node) -> Node | None:
    """A broadcast that only adds axes of extent 1."""
    if n.type.size == n.inputs[0].type.size != 0:
        return b.make("reshape", n.inputs[0], shape=n.shape, where=n.where)
    return None


def broadcast_of_leading(b: Builder, n: Node) -> Node | None:
    """A broadcast of a reshape that only adds or drops leading axes of extent 1."""
    inner = n.inputs[0]
    if inner.op != "reshape":
        return None
    x = inner.inputs[0]
    if x.type.rank > n.type.rank or stripped(x.shape) != stripped(inner.shape):
        return None
    return b.make("broadcast", x, shape=n.shape, where=n.where)


def stripped(shape: Sequence[int]) -> Shape:
    """The shape without leading extents of 1."""
    first = next((i for i, e in enumerate(shape) if e != 1), len(shape))
    return tuple(shape[first:])


def reshape_of_broadcast(b: Builder, n: Node) -> Node | None:
    """A reshape of rows repeated along leading axes: rows reshaped, then repeated."""
    inner = n.inputs[0]
    if inner.op != "broadcast":
        return None
    row = stripped(inner.inputs[0].shape)
    if tuple(inner.shape[len(inner.shape) - len(row) :]) != row:
        return None
    cut = suffix(n.shape, size_of(row))
    if cut is None:
        return None
    new = b.make("reshape", inner.inputs[0], shape=n.shape[cut:], where=n.where)
    return b.make("broadcast", new, shape=n.shape, where=n.where)


def suffix(shape: Sequence[int], size: int) -> int | None:
    """Where the shortest end of ``shape`` with ``size`` elements begins; None if there is none."""
    product = 1
    for at in range(len(shape), -1, -1):
        if product == size:
            return at
        product *= shape[at - 1]
    return None


def view_of_iota(b: Builder, n: Node) -> Node | None:
    """An iota seen with other axes."""
    x = n.inputs[0]
    if x.op != "iota":
        return None
    axis = integer(x, "axis")
    moved = _IOTA_AXIS[n.op](n, axis)
    if moved is None:
        return None
    return b.make("iota", shape=n.shape, dtype=n.dtype, axis=moved, where=n.where)


def _broadcast_axis(n: Node, axis: int) -> int | None:
    moved = axis + n.type.rank - n.inputs[0].type.rank
    return moved if n.shape[moved] == n.inputs[0].shape[axis] else None


def _transpose_axis(n: Node, axis: int) -> int | None:
    return ints(n, "perm").index(axis)


def _slice_axis(n: Node, axis: int) -> int | None:
    return axis if ints(n, "start")[axis] == 0 and ints(n, "step")[axis] == 1 else None


def _reshape_axis(n: Node, axis: int) -> int | None:
    """The axis with as many elements, with as many elements behind it."""
    shape, behind = n.inputs[0].shape, size_of(n.inputs[0].shape[axis + 1 :])
    found = [
        a
        for a, extent in enumerate(n.shape)
        if extent == shape[axis] and size_of(n.shape[a + 1 :]) == behind
    ]
    return found[0] if found and n.type.size else None


_IOTA_AXIS = {
    "broadcast": _broadcast_axis, "transpose": _transpose_axis, "slice": _slice_axis,
    "reshape": _reshape_axis,
}  # fmt: skip


def iota_of_one(b: Builder, n: Node) -> Node | None:
    """An iota along an axis of extent 1: zeros."""
    axis = integer(n, "axis")
    return full(b, n.type, 0) if n.shape[axis] == 1 else None


def cast_of_iota(b: Builder, n: Node) -> Node | None:
    """A cast iota of integers."""
    x = n.inputs[0]
    if x.op != "iota" or not x.type.element.is_integer or n.dtype == "bool":
        return None
    axis = integer(x, "axis")
    bits = x.type.element.itemsize * 8 - (x.type.element.kind == "int")
    if x.shape[axis] > 1 << bits:
        return None  # it wraps
    return b.make("iota", shape=n.shape, dtype=n.dtype, axis=axis, where=n.where)


_VIEWS: Mapping[str, tuple[Rule, ...]] = dict.fromkeys(
    ("broadcast", "transpose", "reshape", "slice"), (unchanged, of_constant, composed, view_of_iota)
)
TABLES: tuple[Mapping[str, tuple[Rule, ...]], ...] = (
    _VIEWS,
    {
        "slice": (of_join,), "transpose": (transpose_as_reshape,),
        "broadcast": (broadcast_as_reshape, broadcast_of_leading),
        "reshape": (reshape_of_broadcast,), "iota": (iota_of_one,), "cast": (cast_of_iota,),
    },
)  # fmt: skip
