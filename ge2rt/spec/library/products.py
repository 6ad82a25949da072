"""NumPy meanings of matrix products, of epilogues by themselves, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ge2rt.spec import numeric
from ge2rt.spec.library.norms import philox_stream
from ge2rt.spec.library.rows import unary_bwd

Array: TypeAlias = "np.ndarray[Any, Any]"


def _slope(act: str, z: Array, leaky_slope: float) -> Array:
    """The derivative of an activation at ``z``."""
    if act == "relu_where":
        return np.where(z > 0, 1.0, 0.0)
    op = "identity" if act == "none" else act
    return np.asarray(unary_bwd(op, np.ones_like(z), z, alpha=leaky_slope))


def _along(bias: Array, bias_kind: str) -> Array:
    """The bias in a shape that broadcasts to [M, N]."""
    return bias[..., None] if bias_kind == "per_m" else bias


def _bias_sum(g: Array, bias_kind: str) -> Array:
    if bias_kind == "scalar":
        return np.asarray(g.sum().reshape(1))
    return np.asarray(g.sum(axis=1 if bias_kind == "per_m" else 0))


def gemm(
    a: Array, b: Array, bias: Array | None, c: Array | None, act: str, bias_kind: str,
    leaky_slope: float, trans_a: bool, trans_b: bool, alpha: float, beta: float,
) -> tuple[Array, Array]:  # fmt: skip
    """``act(Z), Z`` with ``Z = alpha op(A) op(B) + beta C + bias``; beta 0 leaves C out."""
    z = alpha * ((a.T if trans_a else a) @ (b.T if trans_b else b))
    if c is not None and beta != 0:
        z = z + beta * c
    if bias is not None:
        z = z + _along(bias, bias_kind)
    return numeric.unary(act, z, leaky_slope), z


def gemm_bwd(
    a: Array, b: Array, g_y: Array, z: Array | None, act: str, bias_kind: str,
    leaky_slope: float, trans_a: bool, trans_b: bool, alpha: float, beta: float,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """``gA, gB, gC, gBias`` of :func:`gemm` for the cotangent ``gY`` of its first result."""
    g = g_y if z is None else g_y * _slope(act, z, leaky_slope)
    g_a = alpha * (g @ (b.T if trans_b else b).T)
    g_b = alpha * ((a.T if trans_a else a).T @ g)
    return g_a.T if trans_a else g_a, g_b.T if trans_b else g_b, beta * g, _bias_sum(g, bias_kind)


def _dropped(
    x: Array, mask: Array | None, dropout: str, p: float, seed: int, subsequence: int, offset: int
) -> Array:
    """``x`` times a mask of floats, or 0 where a mask of integers or the stream says so.

    The stream is cuRAND's: element i has word ``offset + i`` of Philox's sequence.
    """
    if dropout == "none":
        return x
    if dropout == "mask":
        assert mask is not None
        return x * mask if mask.dtype.kind == "f" else np.where(mask != 0, x, 0.0)
    skipped = offset % 4
    words = philox_stream(skipped + x.size, seed, offset // 4, subsequence)[skipped:]
    return np.where(words.astype(np.uint64).reshape(x.shape) >= round(p * 2**32), x, 0.0)


def epilogue(
    x: Array, bias: Array | None, c: Array | None, mask: Array | None, act: str, bias_kind: str,
    leaky_slope: float, alpha: float, beta: float, scale: float, *drawn: Any,
) -> tuple[Array, Array]:  # fmt: skip
    """``scale drop(act(Z)), Z`` with ``Z = alpha X + beta C + bias``; beta 0 leaves C out."""
    z = alpha * x
    if c is not None and beta != 0:
        z = z + beta * c
    if bias is not None:
        z = z + _along(bias, bias_kind)
    return scale * _dropped(np.asarray(numeric.unary(act, z, leaky_slope)), mask, *drawn), z


def epilogue_bwd(
    g_y: Array, z: Array | None, mask: Array | None, act: str, bias_kind: str,
    leaky_slope: float, alpha: float, beta: float, scale: float, *drawn: Any,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """``gX, gC, gBias`` of :func:`epilogue` for the cotangent ``gY`` of its first result."""
    g = scale * _dropped(g_y, mask, *drawn)
    if z is not None and act != "none":
        g = g * _slope(act, z, leaky_slope)
    return alpha * g, beta * g, _bias_sum(g, bias_kind)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "gemm": gemm,
    "gemm_bwd": gemm_bwd,
    "epilogue": epilogue,
    "epilogue_bwd": epilogue_bwd,
}
