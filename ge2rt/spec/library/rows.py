"""NumPy meanings of softmax, cross entropy and elementwise gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ge2rt.base.shapes import normalize_axes
from ge2rt.spec import numeric

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def _sigmoid(x: Any) -> Any:
    return np.exp(-np.logaddexp(0.0, -x))


def _gelu_slope(x: Any) -> Any:
    t = np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x)


def _gelu_erf_slope(x: Any) -> Any:
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + numeric.erf(x / math.sqrt(2))) + x * density


# op -> derivative at x, of (x, alpha, low, high, eps)
_SLOPE: Mapping[str, Callable[..., Any]] = {
    "identity": lambda x, *_: np.ones_like(x),
    "neg": lambda x, *_: -np.ones_like(x),
    **dict.fromkeys(("sign", "floor", "ceil", "trunc", "round"), lambda x, *_: np.zeros_like(x)),
    "relu": lambda x, *_: np.where(x <= 0, 0.0, 1.0),
    "leaky_relu": lambda x, a, *_: np.where(x > 0, 1.0, a),
    "elu": lambda x, a, *_: np.where(x > 0, 1.0, a * np.exp(x)),
    "sigmoid": lambda x, *_: _sigmoid(x) * (1 - _sigmoid(x)),
    "tanh": lambda x, *_: 1 / np.cosh(x) ** 2,
    "gelu": lambda x, *_: _gelu_slope(x),
    "gelu_erf": lambda x, *_: _gelu_erf_slope(x),
    "silu": lambda x, *_: _sigmoid(x) + x * _sigmoid(x) * (1 - _sigmoid(x)),
    "softplus": lambda x, *_: _sigmoid(x),
    "exp": lambda x, *_: np.exp(x),
    "exp2": lambda x, *_: math.log(2) * np.exp2(x),
    "expm1": lambda x, *_: np.exp(x),
    "log": lambda x, _a, _l, _h, eps: 1 / (x + eps),
    "log2": lambda x, *_: 1 / (x * math.log(2)),
    "log1p": lambda x, *_: 1 / (1 + x),
    "sqrt": lambda x, _a, _l, _h, eps: 1 / (2 * np.sqrt(x + eps)),
    "rsqrt": lambda x, _a, _l, _h, eps: -0.5 * np.power(x + eps, -1.5),
    "reciprocal": lambda x, *_: -1 / x**2,
    "abs": lambda x, *_: np.sign(x),
    "square": lambda x, *_: 2 * x,
    "sin": lambda x, *_: np.cos(x),
    "cos": lambda x, *_: -np.sin(x),
    "tan": lambda x, *_: 1 / np.cos(x) ** 2,
    "erf": lambda x, *_: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "clip": lambda x, _a, low, high, _e: np.where((x >= low) & (x <= high), 1.0, 0.0),
}

# op -> derivative where the function's value is y, of (y, alpha)
_SLOPE_AT_VALUE: Mapping[str, Callable[..., Any]] = {
    "relu": lambda y, _: np.where(y <= 0, 0.0, 1.0),
    "leaky_relu": lambda y, a: np.where(y > 0, 1.0, a),
    "elu": lambda y, a: np.where(y > 0, 1.0, y + a),
    "sigmoid": lambda y, _: y - y * y,
    "softplus": lambda y, _: 1 - np.exp(-y),
    "tanh": lambda y, _: 1 - y * y,
    "exp": lambda y, _: y,
    "exp2": lambda y, _: math.log(2) * y,
    "expm1": lambda y, _: y + 1,
    "sqrt": lambda y, _: 1 / (2 * y),
    "rsqrt": lambda y, _: -(y**3) / 2,
    "reciprocal": lambda y, _: -(y**2),
    "tan": lambda y, _: 1 + y**2,
}


def unary_bwd(
    op: str, gY: Any, X: Any = None, Y: Any = None, alpha: Any = 0.01,
    low: Any = -math.inf, high: Any = math.inf, eps: Any = 0.0,
) -> Any:  # fmt: skip
    """``gY`` times the derivative of a unary function, at ``X`` or where its value is ``Y``."""
    if X is None and Y is not None and op in _SLOPE_AT_VALUE:
        return gY * _SLOPE_AT_VALUE[op](Y, alpha)
    return gY * _SLOPE[op](gY if X is None else X, alpha, low, high, eps)


# op -> (by a, by b), each of (a, b)
_PARTIALS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda a, b: 1.0, lambda a, b: 1.0),
    "sub": (lambda a, b: 1.0, lambda a, b: -1.0),
    "mul": (lambda a, b: b, lambda a, b: a),
    "div": (lambda a, b: 1 / b, lambda a, b: -a / b**2),
    "max": (lambda a, b: _share(a > b, a == b), lambda a, b: _share(b > a, a == b)),
    "min": (lambda a, b: _share(a < b, a == b), lambda a, b: _share(b < a, a == b)),
    "pow": (
        lambda a, b: np.where(b == 0, 0.0, b * np.power(a, b - 1)),
        lambda a, b: np.where((a == 0) & (b >= 0), 0.0, np.power(a, b) * np.log(a)),
    ),
}


def _share(wins: Any, ties: Any) -> Any:
    return np.where(ties, 0.5, np.where(wins, 1.0, 0.0))


def unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """``g`` added up over the axes along which ``shape`` was broadcast to its shape."""
    g = np.sum(g, axis=tuple(range(g.ndim - len(shape))))
    widened = tuple(a for a, e in enumerate(shape) if e == 1)
    return np.sum(g, axis=widened, keepdims=True)


def binary_bwd(op: str, gY: Any, A: Any, B: Any, alpha: Any = 1.0, beta: Any = 1.0) -> Any:
    """Gradients of ``op(alpha * A, beta * B)``; two equal values share that of max and min."""
    by_a, by_b = _PARTIALS[op]
    a, b = alpha * A, beta * B
    return (
        unbroadcast(gY * alpha * by_a(a, b), A.shape),
        unbroadcast(gY * beta * by_b(a, b), B.shape),
    )


def softmax_bwd(
    gY: Any, Y: Any, X: Any, mask: Any, mask_shape: Any,
    axis: Any = -1, scale: Any = 1.0, log: Any = False,
) -> Any:  # fmt: skip
    """Gradients by X and mask of softmax (or its logarithm), by the Jacobian of each row.

    With ``z = scale X + mask``: ``dY_i / dz_j = Y_i (delta_ij - Y_j)``, and of the logarithm
    ``delta_ij - Y_j``.
    """
    if Y is None:
        Y = numeric.softmax(X * scale if mask is None else X * scale + mask, axis, 1.0, log)
    p = np.moveaxis(np.exp(Y) if log else Y, axis, -1)
    g = np.moveaxis(gY, axis, -1)
    gz = np.zeros(p.shape)
    for row in np.ndindex(p.shape[:-1]):
        jacobian = np.eye(p.shape[-1]) - p[row]
        gz[row] = g[row] @ (jacobian if log else p[row][:, None] * jacobian)
    gz = np.moveaxis(gz, -1, axis)
    return scale * gz, unbroadcast(gz, mask_shape)


def _classes(X: Any, target: Any, ignore_index: Any, label_smoothing: Any) -> Any:
    """The wanted distribution of each row, zero for rows that do not count; which rows count."""
    count = X.shape[-1]
    q = (1 - label_smoothing) * np.eye(count)[np.clip(target, 0, count - 1)]
    q = q + label_smoothing / count
    counts = np.asarray(target) != ignore_index
    return np.where(counts[..., None], q, 0.0), counts


def cross_entropy(
    X: Any, target: Any, from_logits: Any = True, reduction: Any = "mean",
    ignore_index: Any = -100, label_smoothing: Any = 0.0, eps: Any = 1e-9,
) -> Any:  # fmt: skip
    """The loss ``-sum(q log p)`` of each row, their sum or their mean; and its gradient by X."""
    q, counts = _classes(X, target, ignore_index, label_smoothing)
    log_p = numeric.softmax(X, -1, 1.0, True) if from_logits else np.log(X + eps)
    losses = -np.sum(np.where(counts[..., None], q * log_p, 0.0), axis=-1)
    total = np.sum(losses)
    mean = np.divide(total, np.sum(counts))
    loss = {"none": losses, "sum": total, "mean": mean}[reduction]
    options = (from_logits, reduction, ignore_index, label_smoothing, eps)
    return loss, cross_entropy_bwd(np.ones(np.shape(loss)), X, target, *options)


def cross_entropy_bwd(
    gloss: Any, X: Any, target: Any, from_logits: Any = True, reduction: Any = "mean",
    ignore_index: Any = -100, label_smoothing: Any = 0.0, eps: Any = 1e-9,
) -> Any:  # fmt: skip
    """The gradient by X: ``softmax(X) - q`` of logits, ``-q / (X + eps)`` of probabilities."""
    q, counts = _classes(X, target, ignore_index, label_smoothing)
    slope = numeric.softmax(X) - q if from_logits else -q / (X + eps)
    rows = np.sum(counts) if reduction == "mean" else 1
    weight = np.broadcast_to(np.divide(gloss, rows), counts.shape)[..., None]
    return np.where(counts[..., None], weight * slope, 0.0)


def _others(x: Any) -> Any:
    """For each element of a vector the product of the others."""
    return np.array([np.prod(np.delete(x, i)) for i in range(x.size)])


def _ties(x: Any, extreme: Any) -> Any:
    """Equal parts for all that are the extreme; NaN is one where it is in the vector."""
    is_it = np.isnan(x) if np.isnan(extreme) else x == extreme
    return is_it / np.sum(is_it)


# op -> gradient of one reduced vector
_SHARES: Mapping[str, Callable[[Any], Any]] = {
    "max": lambda x: _ties(x, np.max(x)),
    "min": lambda x: _ties(x, np.min(x)),
    "prod": _others,
}


def reduce_bwd(op: str, gY: Any, X: Any, shape: Any, axes: Any = (), keepdim: Any = False) -> Any:
    """The gradient by X, of a shape, of a reduction; equal extremes share it."""
    gone = normalize_axes(axes or None, len(shape))
    g = gY if keepdim else np.reshape(gY, [1 if a in gone else e for a, e in enumerate(shape)])
    if op in ("sum", "mean"):
        return np.broadcast_to(
            g / (g.size and np.prod(shape) / g.size if op == "mean" else 1), shape
        )
    last = range(-len(gone), 0)
    moved = np.moveaxis(X, gone, last)
    kept = moved.shape[: moved.ndim - len(gone)]
    flat = moved.reshape(*kept, -1)
    share = np.apply_along_axis(_SHARES[op], -1, flat) if flat.size else flat
    return g * np.moveaxis(share.reshape(moved.shape), last, gone)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "reduce_bwd": reduce_bwd,
    "cross_entropy": cross_entropy,
    "cross_entropy_bwd": cross_entropy_bwd,
    "softmax_bwd": softmax_bwd,
    "binary_bwd": binary_bwd,
    "unary_bwd": unary_bwd,
}
