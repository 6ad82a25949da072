"""Joining: concatenate, stack and their kin, tile, repeat, append, meshgrid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.graph import Node
from ge2rt.jit.promote import (
    broadcast,
    join,
    joint,
    kind_of,
    known,
    lift,
    materialise,
    shape_of,
)
from ge2rt.jit.rules.shapes import (
    axis_of,
    broadcast_to,
    expand_dims,
    integers,
    ravel,
    reshape,
    reshaped,
)
from ge2rt.jit.scope import emit, where
from ge2rt.jit.table import rule
from ge2rt.jit.traced import Traced


@rule(np.concatenate, getattr(np, "concat", None))
def concatenate(arrays: Any, /, axis: int | None = 0, *, dtype: Any = None) -> Traced:
    """``numpy.concatenate``; ValueError where shapes differ beyond the axis."""
    values = _sequence(arrays, "concatenate")
    if axis is None:
        values, axis = [ravel(value) for value in values], 0
    nodes = _cast_alike(values, dtype)
    if any(len(node.shape) == 0 for node in nodes):
        raise InvalidArgumentError(
            "0-d arrays cannot be concatenated", where=where(), next_step="use numpy.stack"
        )
    place = axis_of(axis, len(nodes[0].shape))
    rest = {(*n.shape[:place], *n.shape[place + 1 :]) for n in nodes}
    if len(rest) > 1 or len({len(n.shape) for n in nodes}) > 1:
        listed = ", ".join(str(n.shape) for n in nodes)
        raise InvalidArgumentError(
            f"shapes {listed} cannot be joined along axis {place}", where=where(), detail="shape",
            next_step="all axes but that one must be equal",
        )  # fmt: skip
    return Traced(joined(nodes, place))


def joined(nodes: Sequence[Node], axis: int) -> Node:
    """Nodes one after the other; empty ones add nothing."""
    kept = [node for node in nodes if node.shape[axis]] or list(nodes[:1])
    return kept[0] if len(kept) == 1 else emit("concat", *kept, axis=axis)


def _sequence(arrays: Any, name: str) -> list[Any]:
    values = list(arrays)
    if not values:
        raise InvalidArgumentError(
            f"{name} needs at least one array", where=where(), next_step="pass a list of arrays"
        )
    return values


def _cast_alike(values: Sequence[Any], dtype: Any = None) -> list[Node]:
    to = join([kind_of(value) for value in values]) if dtype is None else known(dtype)
    return [materialise(value, to, shape_of(value)) for value in values]


@rule(np.stack)
def stack(arrays: Any, axis: int = 0, *, dtype: Any = None) -> Traced:
    """``numpy.stack``; ValueError where shapes differ."""
    values = _sequence(arrays, "stack")
    shapes = {shape_of(value) for value in values}
    if len(shapes) > 1:
        raise InvalidArgumentError(
            f"arrays to stack differ in shape: {sorted(shapes)}", where=where(), detail="shape",
            next_step="broadcast them to one shape first",
        )  # fmt: skip
    nodes = _cast_alike(values, dtype)
    rank = len(nodes[0].shape)
    place = axis_of(axis, rank + 1)
    shape = (*nodes[0].shape[:place], 1, *nodes[0].shape[place:])
    return Traced(emit("concat", *(reshaped(n, shape) for n in nodes), axis=place))


def nested_stack(values: Any) -> Any:
    """What ``numpy.array`` would make of nested lists with traced values in them."""
    if isinstance(values, (list, tuple)):
        return stack([nested_stack(value) for value in values])
    return values


@rule(
    np.vstack,
    getattr(np, "row_stack", None) if np.lib.NumpyVersion(np.__version__) < "2.0.0" else None,
)
def vstack(tup: Any, *, dtype: Any = None) -> Traced:
    """``numpy.vstack``."""
    return concatenate([_rows(value) for value in tup], 0, dtype=dtype)


@rule(np.hstack)
def hstack(tup: Any, *, dtype: Any = None) -> Traced:
    """``numpy.hstack``."""
    values = [ravel(value) if not shape_of(value) else value for value in tup]
    return concatenate(values, 0 if len(shape_of(values[0])) == 1 else 1, dtype=dtype)


@rule(np.dstack)
def dstack(tup: Any) -> Traced:
    """``numpy.dstack``."""
    values = [_rows(value) for value in tup]
    wide = [expand_dims(v, 2) if len(shape_of(v)) == 2 else v for v in values]
    return concatenate(wide, 2)


@rule(np.column_stack)
def column_stack(tup: Any) -> Traced:
    """``numpy.column_stack``."""
    return concatenate([reshape(v, (-1, 1)) if len(shape_of(v)) < 2 else v for v in tup], 1)


def _rows(value: Any) -> Traced:
    return reshape(value, (1, -1)) if len(shape_of(value)) < 2 else lift(value)


@rule(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Traced:
    """``numpy.append``."""
    return concatenate((arr, values), axis)


@rule(np.tile)
def tile(A: Any, reps: Any) -> Traced:
    """``numpy.tile``: a broadcast and a reshape."""
    counts = integers(reps, "a count")
    value = lift(A)
    rank = max(len(counts), value.ndim)
    counts = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - value.ndim) + value.shape
    apart = [extent for pair in zip((1,) * rank, shape, strict=True) for extent in pair]
    spread = [extent for pair in zip(counts, shape, strict=True) for extent in pair]
    node = broadcast(reshaped(value.node, apart), spread)
    return Traced(reshaped(node, [c * e for c, e in zip(counts, shape, strict=True)]))


@rule(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Traced:
    """``numpy.repeat``; the counts must be known while tracing."""
    value = ravel(a) if axis is None else lift(a)
    place = axis_of(0 if axis is None else axis, value.ndim)
    counts = integers(repeats, "a count")
    if min(counts, default=0) < 0:
        raise InvalidArgumentError(
            "counts may not be negative", got=str(counts), where=where(), next_step="use 0 or more"
        )
    if len(counts) == 1:
        return _repeat_alike(value, counts[0], place)
    if len(counts) != value.shape[place]:
        raise InvalidArgumentError(
            f"{len(counts)} counts for an axis of {value.shape[place]}", where=where(),
            next_step="give one count, or one for each element along the axis",
        )  # fmt: skip
    from ge2rt.jit.rules.indexing import take  # late: it needs this package

    return take(value, np.repeat(np.arange(len(counts)), counts), place)


def _repeat_alike(value: Traced, count: int, axis: int) -> Traced:
    shape = value.shape
    node = reshaped(value.node, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    node = broadcast(node, (*shape[: axis + 1], count, *shape[axis + 1 :]))
    return Traced(reshaped(node, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :])))


@rule(np.meshgrid)
def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> Any:
    """``numpy.meshgrid``."""
    rank = len(xi)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = [1, 0]
    grids = [
        reshape(value, tuple(-1 if place == axis else 1 for axis in range(rank)))
        for value, place in zip(xi, order, strict=True)
    ]
    if sparse:
        return tuple(grids)
    shape = joint(*(grid.shape for grid in grids))
    return tuple(broadcast_to(grid, shape) for grid in grids)


@rule(np.insert, np.delete)
def edit(*args: Any, **kwargs: Any) -> Any:
    """Refused: written with concatenate."""
    from ge2rt.jit.faults import not_covered

    raise not_covered(
        "numpy.insert or numpy.delete", where(), next_step="use numpy.concatenate of slices"
    )
