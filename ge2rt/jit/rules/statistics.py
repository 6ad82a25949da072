"""mean, var, std, average, norms, NaN-aware reductions: written out as NumPy computes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.jit.faults import not_covered
from ge2rt.jit.promote import cast, join, kind_of, known, lift
from ge2rt.jit.rules.indexing import along
from ge2rt.jit.rules.pointwise import choose, unary
from ge2rt.jit.rules.reductions import MAX, MIN, PROD, SUM
from ge2rt.jit.rules.shapes import axes_of, axis_of, broadcast_to
from ge2rt.jit.scope import where
from ge2rt.jit.table import rule
from ge2rt.jit.traced import Traced

_ABSENT: Any = np._NoValue
_F32 = np.dtype(np.float32)


def _dtypes(have: np.dtype[Any], asked: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """(dtype of the arithmetic, dtype of the result) of a mean: halves are summed in f32."""
    if asked is not None:
        return known(asked), known(asked)
    element = dtype_of(have)
    if not element.is_float:
        return np.dtype(np.float64), np.dtype(np.float64)
    return (_F32 if element.itemsize == 2 else have), have


def _mask(mask: Any, shape: tuple[int, ...]) -> Any:
    """``where=`` of a reduction: True, or traced and of the array's shape."""
    return True if mask is _ABSENT or mask is True else broadcast_to(lift(mask), shape)


def _count(shape: tuple[int, ...], axis: Any, mask: Any, dtype: Any, keepdims: bool) -> Any:
    """How many elements are reduced: a float, or an array of ``dtype`` with a mask."""
    if mask is True:
        return float(math.prod(shape[place] for place in axes_of(axis, len(shape))))
    return SUM(Traced(cast(mask.node, dtype)), axis, dtype, keepdims)


def _flag(keepdims: Any) -> bool:
    return keepdims is not _ABSENT and bool(keepdims)


@rule(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False,
    *, where: Any = True,
) -> Traced:  # fmt: skip
    """``numpy.mean``: the sum over the count."""
    value = lift(a)
    inner, result = _dtypes(value.dtype, dtype)
    mask, keep = _mask(where, value.shape), _flag(keepdims)
    total = SUM(value, axis, inner, keep, where=mask)
    return Traced(cast((total / _count(value.shape, axis, mask, inner, keep)).node, result))


@rule(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
    keepdims: Any = False, *, where: Any = True, mean: Any = _ABSENT, correction: Any = _ABSENT,
) -> Traced:  # fmt: skip
    """``numpy.var``: the mean square of the deviations from the mean, in two passes."""
    value = lift(a)
    inner, result = _dtypes(value.dtype, dtype)
    freedom = ddof if correction is _ABSENT else correction
    mask, keep = _mask(where, value.shape), _flag(keepdims)
    wide = Traced(cast(value.node, inner))
    center = mean
    if mean is _ABSENT:
        count = _count(value.shape, axis, mask, inner, True)
        center = SUM(wide, axis, inner, True, where=mask) / count
    square = np.square(wide - center)
    total = SUM(square, axis, inner, keep, where=mask)
    count = _count(value.shape, axis, mask, inner, keep)
    left = max(count - freedom, 0.0) if mask is True else np.maximum(count - freedom, 0)
    return Traced(cast((total / left).node, result))


@rule(np.std)
def std(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
        keepdims: Any = False, *, where: Any = True, mean: Any = np._NoValue,
        correction: Any = np._NoValue) -> Traced:  # fmt: skip
    """``numpy.std``: the root of the variance, taken before rounding to a half."""
    value = lift(a)
    inner, result = _dtypes(value.dtype, dtype)
    spread = var(value, axis, inner, None, ddof, keepdims, where=where, mean=mean,
                 correction=correction)  # fmt: skip
    return Traced(cast(unary(np.sqrt, spread).node, result))


@rule(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """``numpy.average``; weights have the array's shape or that of its one axis."""
    if returned:
        raise not_covered("numpy.average(returned=True)", where())
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    value, scale = lift(a), lift(weights)
    if scale.shape != value.shape:
        place = axis_of(axis, value.ndim)
        scale = scale.reshape(tuple(-1 if i == place else 1 for i in range(value.ndim)))
        scale = broadcast_to(scale, value.shape)
    dtype = join([kind_of(value), kind_of(scale)])
    if not dtype_of(dtype).is_float:
        dtype = np.dtype(np.float64)
    flag = _flag(keepdims)
    return SUM(value * scale, axis, dtype, flag) / SUM(scale, axis, dtype, flag)


@rule(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """``numpy.linalg.norm`` of vectors (and the Frobenius norm)."""
    value = lift(x)
    if not dtype_of(value.dtype).is_float:
        value = value.astype(np.float64)
    matrix = ord is not None and axis is None and value.ndim != 1
    matrix = matrix or (ord is not None and isinstance(axis, tuple) and len(axis) == 2)
    if matrix and ord != "fro":
        raise not_covered(f"numpy.linalg.norm(ord={ord!r}) of matrices", where())
    rows: dict[Any, Callable[[], Any]] = {
        1: lambda: SUM(abs(value), axis, None, keepdims),
        0: lambda: SUM((value != 0).astype(value.dtype), axis, None, keepdims),
        np.inf: lambda: MAX(abs(value), axis, None, keepdims),
        -np.inf: lambda: MIN(abs(value), axis, None, keepdims),
    }
    if ord in (None, 2, "fro"):
        return np.sqrt(SUM(np.square(value), axis, None, keepdims))
    if ord in rows:
        return rows[ord]()
    return SUM(abs(value) ** ord, axis, None, keepdims) ** (1.0 / ord)


def _ignoring(neutral: Any, reduce: Any) -> Callable[..., Any]:
    """A reduction that takes NaN for its neutral element."""

    def build(a: Any, axis: Any = None, dtype: Any = None, out: None = None,
              keepdims: Any = False) -> Any:  # fmt: skip
        value = lift(a)
        clean = choose(np.isnan(value), neutral, value)
        return reduce(clean, axis, dtype, _flag(keepdims))

    return build


rule(np.nansum)(_ignoring(0, SUM))
rule(np.nanprod)(_ignoring(1, PROD))


def _extreme_ignoring(neutral: float, reduce: Any) -> Callable[..., Any]:
    def build(a: Any, axis: Any = None, out: None = None, keepdims: Any = False) -> Any:
        value = lift(a)
        if not dtype_of(value.dtype).is_float:
            return reduce(value, axis, None, _flag(keepdims))
        missing = np.isnan(value)
        best = reduce(choose(missing, neutral, value), axis, None, _flag(keepdims))
        none = missing.all(axis=axis, keepdims=_flag(keepdims))
        return choose(none, np.nan, best)

    return build


rule(np.nanmax)(_extreme_ignoring(-np.inf, MAX))
rule(np.nanmin)(_extreme_ignoring(np.inf, MIN))


@rule(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False
) -> Any:
    """``numpy.nanmean``."""
    value = lift(a)
    inner, result = _dtypes(value.dtype, dtype)
    there = ~np.isnan(value)
    total = SUM(choose(there, value, 0), axis, inner, _flag(keepdims))
    count = SUM(there, axis, inner, _flag(keepdims))
    return Traced(cast((total / count).node, result))


@rule(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """``numpy.diff``."""
    value = lift(a)
    place = axis_of(axis, value.ndim)
    for _ in range(n):
        later, sooner = along(value, place, slice(1, None)), along(value, place, slice(None, -1))
        value = later != sooner if value.dtype == np.bool_ else later - sooner
    return value
