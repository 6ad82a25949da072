"""Functions that serve traced arrays and plain ones alike.

On NumPy or CuPy arrays those that NumPy has are NumPy's own; the others run as a jitted function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.jit.function import JitFunction
from ge2rt.jit.promote import cast, lift
from ge2rt.jit.rules import ordering
from ge2rt.jit.rules.pointwise import choose
from ge2rt.jit.scope import active, emit
from ge2rt.jit.traced import Traced
from ge2rt.jit.trees import flatten

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def _is_traced(*values: Any) -> bool:
    return active() is not None and any(
        isinstance(leaf, Traced) for value in values for leaf in flatten(value)[0]
    )


def _of_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function, under the name of this library: it dispatches by itself."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"As ``numpy.{function.__name__}``, of NumPy, CuPy and traced arrays."
    return call


exp, expm1, log, log1p = (_of_numpy(f) for f in (np.exp, np.expm1, np.log, np.log1p))
sqrt, tanh, sin, cos = (_of_numpy(f) for f in (np.sqrt, np.tanh, np.sin, np.cos))
maximum, minimum, where = (_of_numpy(f) for f in (np.maximum, np.minimum, np.where))
einsum, matmul = _of_numpy(np.einsum), _of_numpy(np.matmul)


def einsum_of(arrays: Any, subscripts: str) -> Any:
    """``einsum(subscripts, *arrays)``, with the arrays in a list."""
    return einsum(subscripts, *arrays)


def _ours(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function that is written down when traced, and jitted when called on arrays."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def compiled() -> JitFunction:
            return JitFunction(function, static=static)

        def call(*args: Any, **kwargs: Any) -> Any:
            if _is_traced(args, kwargs):
                return function(*args, **kwargs)
            arrays = [a if _is_array(a) else np.asarray(a) for a in args[:1]]
            return compiled()(*arrays, *args[1:], **kwargs)

        call.__name__ = call.__qualname__ = function.__name__
        call.__doc__ = function.__doc__
        call.__wrapped__ = function  # type: ignore[attr-defined]
        return call

    return wrap


def _is_array(value: Any) -> bool:
    interfaces = ("__array_interface__", "__cuda_array_interface__", "__array_ufunc__")
    return any(hasattr(value, name) for name in interfaces)


def _floating(x: Any) -> Traced:
    """The operand as a float: integers become float64, as in NumPy."""
    value = lift(x)
    return value if dtype_of(value.dtype).is_float else Traced(cast(value.node, np.float64))


@_ours()
def erf(x: Any) -> Any:
    """The error function, elementwise."""
    return Traced(emit("erf", _floating(x).node))


@_ours()
def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``, without overflow."""
    return Traced(emit("sigmoid", _floating(x).node))


@_ours()
def detach(x: Any) -> Any:
    """``x`` as a constant to derivatives."""
    return Traced(emit("detach", lift(x).node))


@_ours()
def rsqrt(x: Any) -> Any:
    """One over the square root."""
    return Traced(emit("rsqrt", _floating(x).node))


@_ours()
def relu(x: Any) -> Any:
    """``maximum(x, 0)`` with the derivative 0 at 0; NaN passes."""
    value = lift(x)
    return choose(value <= 0, 0, value)  # a maximum would share its derivative at the tie


@_ours()
def silu(x: Any) -> Any:
    """``x * sigmoid(x)``."""
    value = _floating(x)
    return value * sigmoid(value)


@_ours("approximate")
def gelu(x: Any, approximate: str = "tanh") -> Any:
    """The Gaussian error linear unit (Hendrycks and Gimpel, 2016): ``"tanh"`` or ``"none"``."""
    value = _floating(x)
    if approximate == "none":
        return 0.5 * value * (1.0 + erf(value * _SQRT_HALF))
    inner = _SQRT_2_OVER_PI * (value + 0.044715 * value * value * value)
    return 0.5 * value * (1.0 + np.tanh(inner))


@_ours("axis")
def softmax(x: Any, axis: Any = -1) -> Any:
    """``exp(x) / sum(exp(x))`` along axes, after the maximum is taken away."""
    value = _floating(x)
    weights = np.exp(value - value.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


@_ours("axis")
def log_softmax(x: Any, axis: Any = -1) -> Any:
    """The logarithm of the softmax."""
    value = _floating(x)
    moved = value - value.max(axis=axis, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=axis, keepdims=True))


@_ours("axis", "keepdims")
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """``log(sum(exp(x)))`` along axes, without overflow."""
    value = _floating(x)
    most = value.max(axis=axis, keepdims=True)
    safe = choose(np.isfinite(most), most, 0)
    total = np.log(np.exp(value - safe).sum(axis=axis, keepdims=True)) + safe
    return total if keepdims else total.reshape(value.sum(axis=axis).shape)


@_ours("k", "axis")
def topk(x: Any, k: int, axis: int = -1) -> Any:
    """The ``k`` largest along an axis, falling, and their indices (i64); first of equals first."""
    return ordering.topk(x, k, axis)


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    """As ``numpy.take``. ValueError ("outside") for an index that is outside, when it runs."""
    return np.take(a, indices, axis=axis, mode=mode)  # type: ignore[call-overload]


def gather(x: Any, indices: Any, axis: int = 0) -> Any:
    """The elements at ``indices`` along one axis: ``numpy.take`` that raises ValueError outside."""
    if _is_traced(x, indices):
        return np.take(x, indices, axis=axis)
    index = indices if _is_array(indices) else np.asarray(indices)
    return _gather()(x if _is_array(x) else np.asarray(x), index, axis=axis)


@cache
def _gather() -> JitFunction:
    return JitFunction(lambda x, indices, axis: np.take(x, indices, axis=axis), static=("axis",))


def clear() -> None:
    """Forget the compiled forms of these functions."""
    _gather.cache_clear()
