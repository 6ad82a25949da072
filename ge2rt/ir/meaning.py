"""What each op means, in NumPy: the reference for every kernel and every pass.

Functions take arrays of one dtype and the node's attributes. f16 and bf16 never come here: the
evaluator widens them to f32 and rounds the result, so that sums are kept in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec.numeric import erf

Array: TypeAlias = "np.ndarray[Any, Any]"


def _by_nonzero(function: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    """A division that gives 0 for integers divided by 0."""

    def divide(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return np.asarray(function(a, b))
        zero = b == 0
        return np.where(zero, 0, function(a, np.where(zero, 1, b))).astype(a.dtype)

    return divide


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind != "i":
        return np.asarray(np.power(a, b))
    # 1 / a**n towards zero: only 1 and -1 leave something
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0))).astype(a.dtype)


def _erf(x: Array) -> Array:
    return np.asarray(erf(x)).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _clamp(x: Array, lo: Array, hi: Array) -> Array:
    return np.asarray(np.minimum(np.maximum(x, lo), hi))


def _reduced(function: Callable[..., Any]) -> Callable[..., Array]:
    """A reduction over ``axes`` that stays in the dtype and may have an empty result."""

    def reduce(x: Array, axes: tuple[int, ...]) -> Array:
        rest = tuple(e for a, e in enumerate(x.shape) if a not in axes)
        if 0 in rest:
            return np.empty(rest, x.dtype)
        return np.asarray(function(x, axis=axes)).astype(x.dtype, copy=False)

    return reduce


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.sum(x, axis=axes, dtype=x.dtype))


def _prod(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.prod(x, axis=axes, dtype=x.dtype))


def _index_of(function: Callable[..., Any]) -> Callable[..., Array]:
    def reduce(x: Array, axis: int) -> Array:
        rest = x.shape[:axis] + x.shape[axis + 1 :]
        if 0 in rest:
            return np.empty(rest, np.int64)
        return np.asarray(function(x, axis=axis)).astype(np.int64, copy=False)

    return reduce


def _slice(x: Array, start: Sequence[int], step: Sequence[int], shape: Sequence[int]) -> Array:
    return x[tuple(map(_range, start, step, shape))]


def _range(start: int, step: int, count: int) -> slice:
    if count == 0:
        return slice(0, 0)
    stop = start + step * count
    return slice(start, stop if stop >= 0 else None, step)


def _gather(x: Array, *indices: Array) -> Array:
    for axis, index in enumerate(indices):
        wrong = (index < 0) | (index >= x.shape[axis])
        if wrong.any():
            raise InvalidArgumentError(
                f"gather: index {index[wrong].flat[0]} is outside axis {axis} of {x.shape[axis]}",
                detail="shape", next_step="indices must be at least 0 and less than the extent",
            )  # fmt: skip
    return x[indices]


def _scatter_rows(x: Array, index: Array, count: int) -> Array:
    wrong = (index < 0) | (index >= count)
    if wrong.any():
        raise InvalidArgumentError(
            f"scatter_rows: index {index[wrong].flat[0]} is outside {count} rows", detail="shape",
            next_step="indices must be at least 0 and less than the number of rows",
        )  # fmt: skip
    total = np.zeros((count, x.shape[1]), x.dtype)
    np.add.at(total, index, x)
    return total


def _concat(*x: Array, axis: int) -> Array:
    return np.concatenate(x, axis=axis)


def _pad(x: Array, low: Sequence[int], high: Sequence[int], value: Any) -> Array:
    widths = list(zip(low, high, strict=True))
    shape = tuple(a + e + b for (a, b), e in zip(widths, x.shape, strict=True))
    padded = np.full(shape, value, x.dtype)
    padded[tuple(slice(a, a + e) for a, e in zip(low, x.shape, strict=True))] = x
    return padded


def _sorted(x: Array, axis: int) -> Array:
    return np.sort(x, axis=axis, kind="stable")


def _argsort(x: Array, axis: int) -> Array:
    return np.argsort(x, axis=axis, kind="stable").astype(np.int64, copy=False)


def _cumsum(x: Array, axis: int) -> Array:
    return np.asarray(np.cumsum(x, axis=axis, dtype=x.dtype))


def _cumprod(x: Array, axis: int) -> Array:
    return np.asarray(np.cumprod(x, axis=axis, dtype=x.dtype))


def _full(shape: tuple[int, ...], dtype: str, value: Any) -> Array:
    # one element, seen everywhere: constants of any extent cost nothing
    return np.broadcast_to(np.asarray(value).astype(DTYPES[dtype].numpy), shape)


def _iota(shape: tuple[int, ...], dtype: str, axis: int) -> Array:
    line = np.arange(shape[axis]).astype(DTYPES[dtype].numpy)
    return np.broadcast_to(line.reshape((-1,) + (1,) * (len(shape) - axis - 1)), shape)


def _gelu(x: Array) -> Array:
    inner = np.sqrt(2 / np.pi).astype(x.dtype) * (x + x.dtype.type(0.044715) * x * x * x)
    return np.asarray(x.dtype.type(0.5) * x * (1 + np.tanh(inner)))


def _gelu_erf(x: Array) -> Array:
    return np.asarray(x.dtype.type(0.5) * x * (1 + _erf(x / np.sqrt(2).astype(x.dtype))))


ACTIVATIONS: Mapping[str, Callable[[Array, float], Array]] = {
    "none": lambda x, slope: x,
    "relu": lambda x, slope: np.where(x < 0, x.dtype.type(0), x),
    "relu_where": lambda x, slope: np.where(x > 0, x, x.dtype.type(0)),
    "leaky_relu": lambda x, slope: np.where(x < 0, x.dtype.type(slope) * x, x),
    "gelu": lambda x, slope: _gelu(x),
    "gelu_erf": lambda x, slope: _gelu_erf(x),
    "silu": lambda x, slope: x * _sigmoid(x),
    "sigmoid": lambda x, slope: _sigmoid(x),
    "tanh": lambda x, slope: np.asarray(np.tanh(x)),
}


def _gemm(a: Array, b: Array, *bias: Array, act: str, slope: float) -> Array:
    product = np.matmul(a, b)
    for one in bias:
        product = product + one
    return ACTIVATIONS[act](product, slope)


def _attention(
    q: Array, k: Array, v: Array, *mask: Array, scale: float, causal: bool, diagonal: int
) -> Array:
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(scale)
    for one in mask:
        scores = np.where(one, scores, -np.inf) if one.dtype == bool else scores + one
    if causal:
        scores = np.where(
            np.tri(scores.shape[-2], scores.shape[-1], diagonal) == 1, scores, -np.inf
        )
    if scores.shape[-1]:
        scores = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores)
    return np.asarray(np.matmul(weights / weights.sum(axis=-1, keepdims=True), v))


def same_elements(x: Array, shape: tuple[int, ...]) -> Array:
    """``x`` as another shape; of constants, still without their elements in memory."""
    if x.size and not any(x.strides):
        return np.broadcast_to(x[(0,) * x.ndim], shape)
    return x.reshape(shape)


MEANING: Mapping[str, Callable[..., Any]] = MappingProxyType({
    "full": _full, "iota": _iota,
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "reciprocal": lambda x: 1 / x,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "arcsinh": np.arcsinh, "arccosh": np.arccosh,
    "arctanh": np.arctanh, "erf": _erf, "sigmoid": _sigmoid, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.rint, "logical_not": np.logical_not, "invert": np.invert,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": _by_nonzero(np.floor_divide), "mod": _by_nonzero(np.mod), "pow": _pow,
    "atan2": np.arctan2, "hypot": np.hypot, "maximum": np.maximum, "minimum": np.minimum,
    "fmax": np.fmax, "fmin": np.fmin, "fmod": _by_nonzero(np.fmod), "copysign": np.copysign,
    "logaddexp": np.logaddexp, "bitand": np.bitwise_and, "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "select": np.where, "clamp": _clamp,
    "cast": lambda x, dtype: x.astype(DTYPES[dtype].numpy),
    "broadcast": lambda x, shape: np.broadcast_to(x, shape),
    "transpose": lambda x, perm: np.transpose(x, perm),
    "reshape": same_elements, "slice": _slice,
    "sum": _sum, "prod": _prod, "max": _reduced(np.max), "min": _reduced(np.min),
    "any": _reduced(np.any), "all": _reduced(np.all), "argmax": _index_of(np.argmax),
    "argmin": _index_of(np.argmin), "matmul": np.matmul, "gather": _gather, "concat": _concat,
    "pad": _pad, "scatter_rows": _scatter_rows, "cumsum": _cumsum, "cumprod": _cumprod,
    "sort": _sorted, "argsort": _argsort, "detach": lambda x: x,
    "gemm_bias_act": _gemm, "attention": _attention,
})  # fmt: skip

# ops that move elements and never compute: narrow floats pass as they are
MOVES = frozenset({
    "full", "iota", "cast", "broadcast", "transpose", "reshape", "slice", "gather", "concat", "pad",
})  # fmt: skip
