"""NumPy meanings of embedding, gather, scatter, concat, slice, pad, permute, cast, fill.

Gradients of ops that pick elements are added to what the gradient holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.dtypes import dtype_of

Array: TypeAlias = "np.ndarray[Any, Any]"


def converted(x: Any, to: str) -> Array:
    """``x`` as dtype ``to``: floats are cut off and saturate in integers, where NaN is 0."""
    dtype = dtype_of(to)
    given: Array = np.asarray(x)
    if given.dtype.kind != "f" or dtype.is_float:
        return given.astype(dtype.numpy)
    if dtype.kind == "bool":
        return np.asarray(given != 0)
    limits = np.iinfo(dtype.numpy)
    whole = np.trunc(np.where(np.isnan(given), 0.0, given))
    low, high = whole <= float(limits.min), whole >= float(limits.max)
    inside = np.where(low | high, 0.0, whole).astype(dtype.numpy)
    least, most = np.array([limits.min, limits.max], dtype.numpy)
    ends = np.where(low, least, most)
    return np.where(low | high, ends, inside)


def filled(y: Any, value: float, to: str) -> Array:
    """``value`` in the shape of ``y``."""
    return np.full(np.shape(y), converted(np.float64(value), to))


def transposed(x: Any, axes: tuple[int, ...]) -> Array:
    """Axis i of the result is axis ``axes[i]`` of ``x``; no axes reverse them."""
    return np.transpose(x, axes or None)


def transposed_back(gy: Array, axes: tuple[int, ...]) -> Array:
    """The array whose :func:`transposed` is ``gy``."""
    order = axes or tuple(range(gy.ndim))[::-1]
    return np.moveaxis(gy, range(gy.ndim), order) if gy.ndim else gy


def _slices(
    starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[Any, ...]:
    steps = steps or (1,) * len(sizes)
    ranges = zip(starts, sizes, steps, strict=True)
    return np.ix_(*([a + i * by for i in range(n)] for a, n, by in ranges)) if sizes else ()


def sliced_out(
    x: Array, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> Array:
    """``sizes`` elements an axis, every ``steps``-th from ``starts`` on."""
    return x[_slices(starts, sizes, steps)] if all(sizes) else np.zeros(sizes, x.dtype)


def sliced_back(
    gx: Array, gy: Array, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> Array:
    """``gx`` with ``gy`` added where :func:`sliced_out` reads."""
    result: Array = gx.copy()
    if all(sizes):
        result[_slices(starts, sizes, steps)] += gy
    return result


def gathered(x: Array, index: Array, axis: int) -> Array:
    """What ``index`` says along ``axis``; the other coordinates are those of ``index``."""
    result: Array = np.zeros(index.shape, x.dtype)
    for at in np.ndindex(*index.shape):
        place = list(at)
        place[axis] = int(index[at])
        result[at] = x[tuple(place)]
    return result


def scattered(y: Array, index: Array, u: Array, axis: int) -> Array:
    """``y`` with each element of ``u`` added where :func:`gathered` would read."""
    result: Array = y.copy()
    for at in np.ndindex(*index.shape):
        place = list(at)
        place[axis] = int(index[at])
        result[tuple(place)] += u[at]
    return result


def scattered_rows(u: Array, index: Array, count: int) -> Array:
    """``count`` rows, each the sum of the rows of ``u`` that the index sends there."""
    return np.stack([u[index == n].sum(0) for n in range(count)])


def embedded(w: Array, idx: Array, out_scale: float) -> Array:
    """Rows of ``w``, scaled."""
    return out_scale * w[idx]


def embedded_back(
    gw: Array, idx: Array, gy: Array, padding_idx: int, scale_grad_by_freq: bool, out_scale: float
) -> Array:
    """``gw`` with the gradient of :func:`embedded` added, but for the row ``padding_idx``."""
    result: Array = gw.copy()
    for at in np.ndindex(*idx.shape):
        row = int(idx[at])
        if row != padding_idx:
            often = int((idx == row).sum()) if scale_grad_by_freq else 1
            result[row] += out_scale * gy[at] / often
    return result


def padded_out(
    x: Array, before: tuple[int, ...], after: tuple[int, ...], mode: str, value: float, to: str
) -> Array:
    """``numpy.pad``; ``value`` is converted as CAST does it."""
    width = list(zip(before, after, strict=True))
    if mode != "constant":
        return np.pad(x, width, mode=mode)  # type: ignore[call-overload,no-any-return]
    filler = converted(np.float64(value), to)
    return np.pad(x, width, constant_values=filler.astype(x.dtype))


def padded_back(
    gx: Array, gy: Array, before: tuple[int, ...], after: tuple[int, ...], mode: str
) -> Array:
    """``gx`` with each element of ``gy`` added to the element that it showed; -1 shows none."""
    numbers = np.arange(gx.size, dtype=np.float64).reshape(gx.shape)
    shown = padded_out(numbers, before, after, mode, -1.0, "f64").astype(int).ravel()
    result: Array = gx.copy().ravel()
    for place, g in zip(shown, gy.ravel(), strict=True):
        if place >= 0:
            result[place] += g
    return np.asarray(result.reshape(gx.shape))


def joined_out(parts: list[Array], axis: int) -> Array:
    """The parts one behind the other."""
    return np.concatenate(parts, axis)


def joined_back(gxs: list[Array], gy: Array, axis: int) -> list[Array]:
    """Each of ``gxs`` with its part of ``gy`` added."""
    ends = np.cumsum([g.shape[axis] for g in gxs])[:-1]
    return [g + part for g, part in zip(gxs, np.split(gy, ends, axis), strict=True)]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "converted": converted,
    "filled": filled,
    "transposed": transposed,
    "transposed_back": transposed_back,
    "sliced_out": sliced_out,
    "sliced_back": sliced_back,
    "gathered": gathered,
    "scattered": scattered,
    "scattered_rows": scattered_rows,
    "embedded": embedded,
    "embedded_back": embedded_back,
    "padded_out": padded_out,
    "padded_back": padded_back,
    "joined_out": joined_out,
    "joined_back": joined_back,
}
