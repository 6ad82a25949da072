"""``derivative_functions`` of ``ops.yaml``: moves of gradients, written with the graph's own ops.

Each takes the builder, the site in question and what the text hands over: nodes and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ge2rt.base.shapes import size_of
from ge2rt.ir.graph import Node
from ge2rt.ir.rewrite import Builder


def sum_to(builder: Builder, site: Any, g: Node, x: Node) -> Node:
    """``g`` summed over the axes along which ``x`` was broadcast."""
    extra = g.type.rank - x.type.rank
    spread = (e == 1 != g.shape[a + extra] for a, e in enumerate(x.shape))
    axes = (*range(extra), *(a + extra for a, wide in enumerate(spread) if wide))
    total = builder.make("sum", g, axes=axes) if axes else g
    return reshaped(builder, total, x.shape)


def reshaped(builder: Builder, x: Node, shape: Sequence[int]) -> Node:
    """The same elements in another shape."""
    return x if x.shape == tuple(shape) else builder.make("reshape", x, shape=tuple(shape))


def _cast_to(builder: Builder, site: Any, v: Node, x: Node) -> Node:
    return v if v.dtype == x.dtype else builder.make("cast", v, dtype=x.dtype)


def _untranspose(builder: Builder, site: Any, g: Node, perm: Sequence[int]) -> Node:
    inverse = tuple(sorted(range(len(perm)), key=perm.__getitem__))
    return builder.make("transpose", g, perm=inverse)


def _unslice(
    builder: Builder, site: Any, g: Node, x: Node, start: Sequence[int], step: Sequence[int]
) -> Node:
    """Zeros of ``x``'s shape with ``g`` at the sliced places: turned round, spread, padded."""
    if not g.type.size:
        return builder.make("full", shape=x.shape, dtype=g.dtype, value=0)
    for axis, by in enumerate(step):
        if by < 0:
            g = flipped(builder, g, axis)
    for axis, by in enumerate(step):
        g = _spread(builder, g, axis, abs(by))
    low = [
        first if by > 0 else first + by * (count - 1)
        for first, by, count in zip(start, step, site.node.shape, strict=True)
    ]
    high = [e - a - n for e, a, n in zip(x.shape, low, g.shape, strict=True)]
    return _padded(builder, g, low, high)


def _spread(builder: Builder, g: Node, axis: int, by: int) -> Node:
    """``g`` with ``by - 1`` zeros between neighbours along an axis."""
    count = g.shape[axis]
    if by == 1 or count == 1:
        return g
    before, after = g.shape[:axis], g.shape[axis + 1 :]
    apart = builder.make("reshape", g, shape=(*before, count, 1, *after))
    high = tuple(by - 1 if a == axis + 1 else 0 for a in range(apart.type.rank))
    wide = _padded(builder, apart, (0,) * len(high), high)
    line = builder.make("reshape", wide, shape=(*before, count * by, *after))
    kept = (*before, (count - 1) * by + 1, *after)
    return sliced(builder, line, (0,) * len(kept), kept)


def _padded(builder: Builder, g: Node, low: Sequence[int], high: Sequence[int]) -> Node:
    if not any(low) and not any(high):
        return g
    return builder.make("pad", g, low=tuple(low), high=tuple(high), value=0)


def sliced(builder: Builder, x: Node, start: Sequence[int], shape: Sequence[int]) -> Node:
    """The part of ``x`` of a shape from ``start`` on."""
    if x.shape == tuple(shape):
        return x
    steps = (1,) * len(shape)
    return builder.make("slice", x, start=tuple(start), step=steps, shape=tuple(shape))


def flipped(builder: Builder, x: Node, axis: int) -> Node:
    """``x`` reversed along an axis."""
    if not x.shape[axis]:
        return x
    start = tuple(e - 1 if a == axis else 0 for a, e in enumerate(x.shape))
    step = tuple(-1 if a == axis else 1 for a in range(x.type.rank))
    return builder.make("slice", x, start=start, step=step, shape=x.shape)


def expand(builder: Builder, site: Any, v: Node, x: Node, axes: Sequence[int]) -> Node:
    """``v`` with the reduced axes put back and broadcast to ``x``."""
    kept = tuple(1 if a in axes else e for a, e in enumerate(x.shape))
    line = reshaped(builder, v, kept)
    return line if line.shape == x.shape else builder.make("broadcast", line, shape=x.shape)


def _swap(builder: Builder, site: Any, x: Node) -> Node:
    rank = x.type.rank
    return builder.make("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def _flip(builder: Builder, site: Any, v: Node, axis: int) -> Node:
    return flipped(builder, v, axis)


def _part(builder: Builder, site: Any, g: Node, x: Node, axis: int) -> Node:
    """The slice of ``g`` that came from operand number ``site.at`` of a concat."""
    first = sum(before.shape[axis] for before in site.node.inputs[: site.at])
    start = tuple(first if a == axis else 0 for a in range(g.type.rank))
    return sliced(builder, g, start, x.shape)


def _unpad(builder: Builder, site: Any, g: Node, x: Node, low: Sequence[int]) -> Node:
    return sliced(builder, g, low, x.shape)


def _scatter_add(builder: Builder, site: Any, g: Node, x: Node, i: Sequence[Node]) -> Node:
    """Zeros of ``x``'s shape with ``g`` added at ``i``: rows added at the numbers of rows."""
    taken, rest = x.shape[: len(i)], x.shape[len(i) :]
    numbers: Node | None = None
    for index, extent in zip(i, taken, strict=True):
        place = index if index.dtype == "i64" else builder.make("cast", index, dtype="i64")
        if numbers is not None:
            wide = builder.make("full", shape=place.shape, dtype="i64", value=extent)
            numbers = builder.make("add", builder.make("mul", numbers, wide), place)
        else:
            numbers = place
    assert numbers is not None
    rows, width = numbers.type.size, size_of(rest)
    total = builder.make(
        "scatter_rows", reshaped(builder, g, (rows, width)), reshaped(builder, numbers, (rows,)),
        count=size_of(taken),
    )  # fmt: skip
    return reshaped(builder, total, x.shape)


def _take_along(builder: Builder, site: Any, v: Node, i: Node, axis: int) -> Node:
    """``np.take_along_axis``."""
    places = [
        i if a == axis else builder.make("iota", shape=i.shape, dtype=i.dtype, axis=a)
        for a in range(v.type.rank)
    ]
    return builder.make("gather", v, *places)


FUNCTIONS: Mapping[str, Callable[..., Node]] = {
    "sum_to": sum_to, "cast_to": _cast_to,
    "reshape_to": lambda builder, site, g, x: reshaped(builder, g, x.shape),
    "untranspose": _untranspose, "unslice": _unslice, "expand": expand, "swap": _swap,
    "flip": _flip, "part": _part, "unpad": _unpad, "scatter_add": _scatter_add,
    "take_along": _take_along,
}  # fmt: skip
