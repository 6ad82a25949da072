"""Sorting and what follows from it: argsort, partition, the largest few, median, quantiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.jit.faults import not_covered
from ge2rt.jit.promote import lift, shape_of
from ge2rt.jit.rules.indexing import along, take_along_axis
from ge2rt.jit.rules.joining import stack
from ge2rt.jit.rules.pointwise import choose
from ge2rt.jit.rules.shapes import (
    axes_of,
    axis_of,
    flip,
    integer,
    ravel,
    reshaped,
    transposed,
)
from ge2rt.jit.scope import emit, where
from ge2rt.jit.table import rule
from ge2rt.jit.traced import Traced


def _sorter(op: str) -> Any:
    def build(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *,
              stable: Any = None) -> Traced:  # fmt: skip
        if order is not None:
            raise not_covered(f"numpy.{op}(order=...)", where(), "arrays here have no fields")
        number = op == "argsort" and not shape_of(a)  # taken for one element, as NumPy does here
        value = ravel(a) if axis is None or number else lift(a)
        place = axis_of(-1 if axis is None else axis, value.ndim)
        return Traced(emit(op, value.node, axis=place))

    return build


sort = rule(np.sort)(_sorter("sort"))
argsort = rule(np.argsort)(_sorter("argsort"))


@rule(np.partition)
def partition(a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """``numpy.partition``: sorted altogether, which is one of its results."""
    return sort(a, axis)


@rule(np.argpartition)
def argpartition(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None
) -> Any:
    """``numpy.argpartition``: sorted altogether, which is one of its results."""
    return argsort(a, axis)


def topk(x: Any, k: int, axis: int = -1) -> tuple[Traced, Traced]:
    """The ``k`` largest along an axis, falling, and their indices; the first of equals first."""
    value = lift(x)
    place, count = axis_of(axis, value.ndim), integer(k, "k")
    extent = value.shape[place]
    if not 0 <= count <= extent:
        raise InvalidArgumentError(
            f"k is {count} for an axis of {extent}", where=where(), expected=f"0 to {extent}",
            next_step="choose a smaller k",
        )  # fmt: skip
    # sorting is stable and rising: reversed before and after, equal ones keep their order
    order = flip(argsort(flip(value, place), place), place)
    chosen = (extent - 1) - along(order, place, slice(0, count))
    return take_along_axis(value, chosen, place), chosen


@rule(np.median)
def median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``numpy.median`` along one axis, several or all."""
    return quantile(a, 0.5, axis, keepdims=keepdims)


@rule(np.percentile)
def percentile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``numpy.percentile`` (linear) of a known ``q``."""
    return quantile(a, np.asarray(q) / 100.0, axis, keepdims=keepdims)


@rule(np.quantile)
def quantile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``numpy.quantile`` (linear) of known ``q``, along one axis, several or all."""
    wanted = np.asarray(q, np.float64)
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise InvalidArgumentError(
            "a quantile is outside 0 to 1", where=where(), got=str(q),
            next_step="give percents to numpy.percentile, and fractions to numpy.quantile",
        )  # fmt: skip
    if wanted.ndim:
        wide = lift(a).astype(np.float64)  # as NumPy does with an array of fractions
        return stack([quantile(wide, float(each), axis, keepdims=keepdims) for each in wanted])
    given = lift(a)
    places = axes_of(axis, given.ndim)
    value, place = (given, places[0]) if len(places) == 1 else _as_one_axis(given, places)
    if not value.shape[place]:
        raise InvalidArgumentError(
            "a median or quantile of no elements", where=where(),
            got=f"an axis of 0 in {given.shape}",
            next_step="leave out what is empty, or give it elements first",
        )  # fmt: skip
    if not dtype_of(value.dtype).is_float:
        value = value.astype(np.float64)
    made = _between(sort(value, place), float(wanted), place)
    result = choose(np.isnan(value).any(axis=place), np.nan, made)
    if keepdims:
        kept = tuple(1 if i in places else extent for i, extent in enumerate(given.shape))
        return Traced(reshaped(result.node, kept))
    return result


def _as_one_axis(value: Any, places: tuple[int, ...]) -> tuple[Any, int]:
    """These axes taken together, and where they are: behind the others."""
    rest = tuple(i for i in range(value.ndim) if i not in places)
    extents = tuple(value.shape[i] for i in rest)
    count = math.prod(value.shape[i] for i in places)
    turned = transposed(value.node, (*rest, *places))
    return Traced(reshaped(turned, (*extents, count))), len(rest)


def _between(ordered: Any, q: float, axis: int) -> Any:
    """The value at a fraction of the way through a sorted axis."""
    spot = q * (ordered.shape[axis] - 1)
    low = int(spot)
    below = along(ordered, axis, low)
    if spot == low:
        return below
    above = along(ordered, axis, min(low + 1, ordered.shape[axis] - 1))
    if spot - low == 0.5:
        return (below + above) * 0.5
    return below + (above - below) * (spot - low)
