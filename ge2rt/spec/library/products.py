"""NumPy meanings of matrix products with epilogues, their gradients, and quantised storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ge2rt.spec import numeric
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


FUNCTIONS: Mapping[str, Callable[..., Any]] = {"gemm": gemm, "gemm_bwd": gemm_bwd}
