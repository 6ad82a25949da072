"""NumPy functions of reference expressions, with the rules that values must obey.

NaN propagates through max and min, the first extreme wins, integers wrap in their dtype, ``//`` and
``%`` floor, and ``x // 0`` and ``x % 0`` are 0 for integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.shapes import normalize_axes
from ge2rt.spec.suggest import hinted

Array: TypeAlias = "np.ndarray[Any, Any]"

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def cast(x: Any, dtype: Any) -> Array:
    """``x`` rounded or wrapped to a contract dtype."""
    return np.asarray(x).astype(dtype_of(dtype).numpy)


def erf(x: Any) -> Any:
    """The error function, elementwise."""
    given = np.asarray(x, dtype=np.float64)
    flat = [math.erf(v) for v in given.ravel().tolist()]
    return np.array(flat, dtype=np.float64).reshape(given.shape)


def _is_int(*values: Any) -> bool:
    return all(np.asarray(v).dtype.kind in "iub" for v in values)


def _sigmoid(x: Any) -> Any:
    return np.where(
        x >= 0, 1.0 / (1.0 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1.0 + np.exp(-np.abs(x)))
    )


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))


def _relu(x: Any) -> Any:
    return np.maximum(x, np.zeros((), dtype=np.asarray(x).dtype))


def _clip(x: Any, low: Any, high: Any) -> Any:
    dtype = np.asarray(x).dtype
    if low is not None:
        x = np.maximum(x, np.asarray(_saturated(low, dtype)).astype(dtype))
    if high is not None:
        x = np.minimum(x, np.asarray(_saturated(high, dtype)).astype(dtype))
    return x


def _saturated(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind not in "iu":
        return value
    limits = np.iinfo(dtype)
    if value >= limits.max:
        return limits.max
    return limits.min if value <= limits.min else int(value)


# name -> function(x, alpha, low, high, eps)
UNARY: Mapping[str, Callable[..., Any]] = {
    "none": lambda x, *_: x,
    "identity": lambda x, *_: x,
    "relu": lambda x, *_: _relu(x),
    "relu_where": lambda x, *_: np.where(x > 0, x, np.zeros((), dtype=np.asarray(x).dtype)),
    "leaky_relu": lambda x, a, *_: np.where(x > 0, x, a * x),
    "elu": lambda x, a, *_: np.where(x >= 0, x, a * np.expm1(x)),
    "sigmoid": lambda x, *_: _sigmoid(x),
    "tanh": lambda x, *_: np.tanh(x),
    "gelu": lambda x, *_: _gelu(x),
    "gelu_erf": lambda x, *_: 0.5 * x * (1.0 + erf(x / math.sqrt(2.0))),
    "silu": lambda x, *_: x * _sigmoid(x),
    "softplus": lambda x, *_: np.logaddexp(0.0, x),
    "exp": lambda x, *_: np.exp(x),
    "exp2": lambda x, *_: np.exp2(x),
    "expm1": lambda x, *_: np.expm1(x),
    "log": lambda x, _a, _l, _h, eps: np.log(x + eps),
    "log2": lambda x, *_: np.log2(x),
    "log1p": lambda x, *_: np.log1p(x),
    "sqrt": lambda x, _a, _l, _h, eps: np.sqrt(x + eps),
    "rsqrt": lambda x, _a, _l, _h, eps: 1.0 / np.sqrt(x + eps),
    "reciprocal": lambda x, *_: 1.0 / x,
    "neg": lambda x, *_: -x,
    "abs": lambda x, *_: np.abs(x),
    "sign": lambda x, *_: np.sign(x),
    "square": lambda x, *_: x * x,
    "sin": lambda x, *_: np.sin(x),
    "cos": lambda x, *_: np.cos(x),
    "tan": lambda x, *_: np.tan(x),
    "erf": lambda x, *_: erf(x),
    "floor": lambda x, *_: np.floor(x),
    "ceil": lambda x, *_: np.ceil(x),
    "trunc": lambda x, *_: np.trunc(x),
    "round": lambda x, *_: np.rint(x),
    "not": lambda x, *_: np.logical_not(x),
    "isnan": lambda x, *_: np.isnan(x),
    "clip": lambda x, _a, low, high, _e: _clip(x, low, high),
}


def unary(
    op: str, x: Any, alpha: Any = 0.01, low: Any = None, high: Any = None, eps: Any = 0.0
) -> Any:
    """One elementwise function by name; ``alpha`` is the slope of leaky_relu."""
    return _row(UNARY, op, "unary function")(np.asarray(x), alpha, low, high, eps)


def _zero_guard(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(a: Any, b: Any) -> Any:
        if not _is_int(a, b):
            return function(a, b)
        a, b = np.broadcast_arrays(*_same(a, b))
        quotient = function(a, np.where(b == 0, np.ones((), b.dtype), b))
        return np.where(b == 0, np.zeros((), quotient.dtype), quotient)

    return apply


def _same(a: Any, b: Any) -> tuple[Array, Array]:
    """Both as arrays of the common dtype; Python numbers are weak."""
    dtype = np.result_type(a, b)
    return np.asarray(a, dtype=dtype), np.asarray(b, dtype=dtype)


def _pow(a: Any, b: Any) -> Any:
    if not _is_int(a, b):
        return np.power(a, b)
    a, b = np.broadcast_arrays(*_same(a, b))
    if b.dtype.kind == "u":
        return np.power(a, b)
    # 1 / a**n, truncated: only 1 and -1 leave something
    odd = (b & 1) == 1
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(odd, -1, 1), 0))
    return np.where(b < 0, inverse, np.power(a, np.where(b < 0, 0, b))).astype(a.dtype)


BINARY: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "max": np.maximum,
    "min": np.minimum,
    "pow": _pow,
    "floordiv": _zero_guard(np.floor_divide),
    "mod": _zero_guard(np.remainder),
    "atan2": np.arctan2,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def binary(op: str, a: Any, b: Any, alpha: Any = 1, beta: Any = 1) -> Any:
    """``op(alpha * a, beta * b)``; integers are scaled in their own dtype."""
    return _row(BINARY, op, "binary function")(_scaled(a, alpha), _scaled(b, beta))


def _scaled(x: Any, factor: Any) -> Any:
    if isinstance(factor, (int, float)) and factor == 1:
        return x
    dtype = np.asarray(x).dtype
    if dtype.kind in "iub":
        return x * np.asarray(int(factor)).astype(dtype)
    return x * factor


def _arg(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(x: Array, axes: tuple[int, ...], keepdim: bool) -> Any:
        kept = [a for a in range(x.ndim) if a not in axes]
        flat = np.transpose(x, (*kept, *axes)).reshape(*(x.shape[a] for a in kept), -1)
        result = function(flat, axis=-1)
        shape = [1 if a in axes else e for a, e in enumerate(x.shape)]
        return np.reshape(result, shape) if keepdim else result

    return apply


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axes, keepdim: function(x, axis=axes, keepdims=keepdim)


REDUCE: Mapping[str, Callable[..., Any]] = {
    "sum": _along(np.sum),
    "mean": lambda x, axes, keepdim: (
        np.sum(x, axis=axes, keepdims=keepdim) / math.prod(x.shape[a] for a in axes)
    ),
    "prod": _along(np.prod),
    "max": _along(np.max),
    "min": _along(np.min),
    "any": _along(np.any),
    "all": _along(np.all),
    "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin),
}


def reduce(op: str, x: Any, axes: Any = None, keepdim: Any = False) -> Any:
    """A reduction over ``axes`` (None or (): all), with NumPy's result dtypes."""
    array = np.asarray(x)
    given = None if axes is None or axes == () else axes
    return _row(REDUCE, op, "reduction")(array, normalize_axes(given, array.ndim), bool(keepdim))


def _reduction(op: str) -> Callable[..., Any]:
    return lambda x, axes=None, keepdim=False: reduce(op, x, axes, keepdim)


def softmax(x: Any, axis: Any = -1, scale: Any = 1.0, log: Any = False) -> Any:
    """Softmax of ``scale * x`` along ``axis``, or its logarithm."""
    z = np.asarray(x) * scale
    z = z - np.max(z, axis=axis, keepdims=True, initial=-np.inf)
    total = np.sum(np.exp(z), axis=axis, keepdims=True)
    return z - np.log(total) if log else np.exp(z) / total


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, scale: Any = 1.0, causal: Any = False,
    diagonal: Any = 0,
) -> Any:  # fmt: skip
    """``softmax(scale * q kᵀ + mask) v``; a bool mask, and ``causal``, say which keys are seen."""
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * scale
    if causal:
        rows, keys = scores.shape[-2:]
        scores = np.where(np.tri(rows, keys, diagonal, dtype=np.bool_), scores, -np.inf)
    if mask is not None:
        seen = np.asarray(mask).dtype == np.bool_
        scores = np.where(mask, scores, -np.inf) if seen else scores + mask
    return np.matmul(softmax(scores), v)


def layernorm(x: Any, gamma: Any = None, beta: Any = None, eps: Any = 1e-5) -> Any:
    """Normalisation over the last axis (two passes), times gamma plus beta."""
    x = np.asarray(x)
    centred = x - np.mean(x, axis=-1, keepdims=True)
    y = centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


def rmsnorm(x: Any, gamma: Any = None, eps: Any = 1e-6) -> Any:
    """``x / sqrt(mean(x^2) + eps)`` over the last axis, times gamma."""
    x = np.asarray(x)
    y = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    return y if gamma is None else y * gamma


SCAN: Mapping[str, Callable[..., Any]] = {"cumsum": np.cumsum, "cumprod": np.cumprod}


def scan(op: str, x: Any, axis: Any = -1) -> Any:
    """A running sum or product along ``axis`` in the dtype of ``x``."""
    array = np.asarray(x)
    return _row(SCAN, op, "scan")(array, axis=axis, dtype=array.dtype)


def transpose(x: Any, axes: Any = None) -> Any:
    """Axes permuted; without ``axes`` the last two change places."""
    return np.transpose(x, axes) if axes is not None else np.swapaxes(x, -1, -2)


def _row(table: Mapping[str, Any], name: Any, what: str) -> Any:
    if name not in table:
        raise ValueError(hinted(f"unknown {what} {name!r}", str(name), table))
    return table[name]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "act": unary,
    "unary": unary,
    "binary": binary,
    "reduce": reduce,
    "softmax": softmax,
    "attention": attention,
    "scan": scan,
    "sort": lambda x, axis=-1: np.sort(x, axis=axis, kind="stable"),
    "argsort": lambda x, axis=-1: np.argsort(x, axis=axis, kind="stable"),
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "cast": cast,
    "transpose": transpose,
    "reshape": lambda x, shape: np.reshape(x, shape),
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "concat": lambda items, axis=0: np.concatenate(items, axis=axis),
    "where": lambda c, x, y: np.where(c, x, y),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "clip": lambda x, low, high: _clip(x, low, high),
    "take": lambda x, indices, axis=0: np.take(x, indices, axis=axis),
    "zeros": lambda shape: np.zeros(shape),
    "arange": lambda n: np.arange(n),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "erf": erf,
    "abs": np.abs,
    "matmul": np.matmul,
    **{op: _reduction(op) for op in REDUCE},
}
