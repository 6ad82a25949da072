"""NumPy meanings of quantised storage: 8-bit integers that stand for ``scale (q - zero_point)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.spec import numeric

Array: TypeAlias = "np.ndarray[Any, Any]"


def _along(x: Any, axis: int, rank: int) -> Any:
    """A vector in a shape that broadcasts along ``axis``; one value as it is."""
    if x is None or np.ndim(x) == 0:
        return 0 if x is None else x
    extents = [1] * rank
    extents[axis] = -1
    return np.reshape(x, extents)


def _calc(name: str) -> np.dtype[Any]:
    """The dtype in which values of a dtype are divided and multiplied."""
    return np.dtype(np.float64 if name == "f64" else np.float32)


def quantised(x: Array, scale: Array, zero_point: Array | None, axis: int, t: str, q: str) -> Array:
    """``x / scale`` rounded half to even, plus the zero point, within dtype ``q``; NaN is 0."""
    calc, limits = _calc(t), np.iinfo(dtype_of(q).numpy)
    quotient = x.astype(calc) / _along(scale, axis, x.ndim).astype(calc)
    whole = np.rint(np.where(np.isnan(quotient), 0, quotient)).astype(np.float64)
    moved = whole + _along(zero_point, axis, x.ndim)
    return np.asarray(np.clip(moved, limits.min, limits.max).astype(limits.dtype))


def dequantised(x: Array, scale: Array, zero_point: Array | None, axis: int, t: str) -> Array:
    """``(x - zero_point) scale``, rounded once in f32 (f64 in f64)."""
    calc = _calc(t)
    difference = x.astype(np.int64) - _along(zero_point, axis, x.ndim)
    return np.asarray(difference.astype(calc) * _along(scale, axis, x.ndim).astype(calc))


def gemm_q8(
    a: Array, b: Array, scale: Array, bias: Array | None, a_zero: Array | None,
    b_zero: Array | None, act: str, bias_kind: str, leaky_slope: float,
) -> Array:  # fmt: skip
    """``act(scale total + bias)``, ``total`` the product without zero points, wrapped in i32."""
    left = a.astype(np.int64) - (0 if a_zero is None else a_zero)
    right = b.astype(np.int64) - (0 if b_zero is None else b_zero)
    z = (left @ right).astype(np.int32) * scale
    if bias is not None:
        z = z + (bias[..., None] if bias_kind == "per_m" else bias)
    return np.asarray(numeric.unary(act, z, leaky_slope))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "quantised": quantised,
    "dequantised": dequantised,
    "gemm_q8": gemm_q8,
}
