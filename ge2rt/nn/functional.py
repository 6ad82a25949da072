"""Functions of networks, on tensors and inside ``@jit``: layers without parameters, losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.jit import functions
from ge2rt.jit.scope import active, where
from ge2rt.nn import checks
from ge2rt.nn.composite import composite, pair
from ge2rt.nn.dropout import stream_dropout
from ge2rt.tensors import ops
from ge2rt.tensors.autograd import Function
from ge2rt.tensors.random import reserved
from ge2rt.tensors.sparse import Coo
from ge2rt.tensors.tensor import Tensor

__all__ = [
    "avg_pool2d", "batch_norm", "binary_cross_entropy_with_logits", "conv2d", "cross_entropy",
    "dropout", "embedding", "gelu", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax",
    "max_pool2d", "mse_loss", "relu", "rms_norm", "scaled_dot_product_attention", "sigmoid", "silu",
    "softmax", "softplus", "sparse_embedding", "tanh",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    from ge2rt.spec.habits import hint  # late: it is for a message
    from ge2rt.tensors.operators import table

    also = f" Use ge2rt.ops.{name}." if name in table() else hint(name, {}, __all__)
    raise AttributeError(f"ge2rt.nn.functional has no {name!r}.{also}")


@composite(precision="half")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight.T + bias``: x ``[..., I]``, weight ``[O, I]``, bias ``[O]``."""
    y = np.matmul(x, np.swapaxes(weight, -1, -2))
    return y if bias is None else y + bias


@composite("stride", "padding", "dilation", "groups", precision="half")
def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """Cross-correlation: x ``[N, C, H, W]``, weight ``[O, C / groups, KH, KW]``, bias ``[O]``.

    ``stride``, ``padding`` (zeros at each edge) and ``dilation`` are one number, or one for each of
    height and width. Gives ``[N, O, OH, OW]`` with ``OH = (H + 2 padding - dilation (KH - 1) - 1)
    // stride + 1``. ValueError for other channels, axes, or a window larger than the image.
    """
    (sy, sx), (py, px), (dy, dx) = pair(stride), pair(padding), pair(dilation)
    outputs, inner, rows, columns = weight.shape
    checks.images("conv2d", x, inner * groups)
    checks.divides("conv2d", ("groups", groups), ("outputs", outputs))
    reach = dy * (rows - 1) + 1, dx * (columns - 1) + 1
    checks.windows("conv2d", x, reach, (py, px))
    count, _, height, width = x.shape
    if py or px:
        x = np.pad(x, ((0, 0), (0, 0), (py, py), (px, px)))
    high = (height + 2 * py - reach[0]) // sy + 1
    wide = (width + 2 * px - reach[1]) // sx + 1
    down, across = (high - 1) * sy + 1, (wide - 1) * sx + 1
    taps = [
        x[:, :, i : i + down : sy, j : j + across : sx]
        for i in range(0, rows * dy, dy) for j in range(0, columns * dx, dx)
    ]  # fmt: skip
    patches = np.stack(taps, 2)  # N, C, KH * KW, OH, OW
    flat = patches.reshape(count, groups, inner * rows * columns, high * wide)
    kernel = weight.reshape(groups, outputs // groups, inner * rows * columns)
    y = np.matmul(kernel, flat).reshape(count, outputs, high, wide)
    return y if bias is None else y + bias[:, None, None]


@composite("size", "stride", "padding")
def max_pool2d(x: Any, size: Any, stride: Any = None, padding: Any = 0) -> Any:
    """The largest of each window; padding is -infinity. x ``[N, C, H, W]``."""
    return _windows(x, size, stride, padding, -math.inf).max(2)


@composite("size", "stride", "padding")
def avg_pool2d(x: Any, size: Any, stride: Any = None, padding: Any = 0) -> Any:
    """The mean of each window, zeros of the padding included. x ``[N, C, H, W]``."""
    return _windows(x, size, stride, padding, 0.0).mean(2)


def _windows(x: Any, size: Any, stride: Any, padding: Any, fill: float) -> Any:
    """Windows side by side: ``[N, C, KH * KW, OH, OW]``."""
    (rows, columns), (py, px) = pair(size), pair(padding)
    checks.images("pooling", x)
    checks.windows("pooling", x, (rows, columns), (py, px))
    sy, sx = pair(size if stride is None else stride)
    if py or px:
        x = np.pad(x, ((0, 0), (0, 0), (py, py), (px, px)), constant_values=fill)
    high, wide = (x.shape[2] - rows) // sy + 1, (x.shape[3] - columns) // sx + 1
    taps = [
        x[:, :, i : i + (high - 1) * sy + 1 : sy, j : j + (wide - 1) * sx + 1 : sx]
        for i in range(rows) for j in range(columns)
    ]  # fmt: skip
    return np.stack(taps, 2)


@composite("axes", "eps", precision="full")
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, axes: int = 1, eps: float = 1e-5
) -> Any:
    """Mean 0 and variance 1 over the last ``axes`` axes, scaled and shifted (Ba et al., 2016)."""
    over = tuple(range(-axes, 0))
    centred = x - x.mean(over, keepdims=True)
    y = centred / np.sqrt((centred * centred).mean(over, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@composite("eps", precision="full")
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6) -> Any:
    """Divided by the root mean square of the last axis, and scaled (Zhang and Sennrich, 2019)."""
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return y if weight is None else y * weight


@composite("eps", precision="full")
def batch_norm(x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None,
               eps: float = 1e-5) -> Any:  # fmt: skip
    """``(x - mean) / sqrt(var + eps) * weight + bias`` by channel, which is axis 1."""
    shape = (-1,) + (1,) * (x.ndim - 2)
    y = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + eps)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


@composite("causal", "scale", precision="half")
def scaled_dot_product_attention(
    q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    """``softmax(q k^T * scale + mask) v`` over the last two axes; scale is ``1 / sqrt(D)``.

    A bool mask keeps where it holds, a float one is added; ``causal`` keeps column <= row.
    """
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (scale or 1 / math.sqrt(q.shape[-1]))
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], np.bool_)), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    return np.matmul(functions.softmax(scores), v)


@composite()
def embedding(indices: Any, weight: Any) -> Any:
    """Rows of ``weight`` ``[V, D]`` at ``indices``; ValueError for one outside."""
    return weight[indices]


class _SparseEmbedding(Function):
    @staticmethod
    def forward(ctx: Any, indices: Any, weight: Any) -> Any:
        ctx.save_for_backward(ops.where(indices < 0, indices + weight.shape[0], indices))
        ctx.shape = weight.shape
        return weight.detach()[indices]

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        (rows,) = ctx.saved_tensors
        values = cotangents[0].reshape(rows.size, *ctx.shape[1:])
        return None, Coo(rows.reshape(1, rows.size), values, ctx.shape)


def sparse_embedding(indices: Tensor, weight: Tensor) -> Any:
    """As :func:`embedding`, with a gradient (:class:`ge2rt.sparse.Coo`) of the rows used alone."""
    return _SparseEmbedding.apply(indices, weight)


# -- activations ----------------------------------------------------------------------------------
def relu(x: Any) -> Any:
    """``max(x, 0)``."""
    return ops.relu(x)


def silu(x: Any) -> Any:
    """``x * sigmoid(x)``."""
    return ops.silu(x)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return ops.sigmoid(x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return ops.tanh(x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """``x`` times the normal distribution's integral up to ``x`` (Hendrycks and Gimpel, 2016).

    ``approximate="none"`` is exact, as PyTorch's default; ``"tanh"`` is what ``ge2rt.gelu`` and
    ``ops.gelu`` compute without being told, within 5e-4 of it.
    """
    return ops.gelu(x, approximate=approximate)


def softmax(x: Any, axis: int = -1) -> Any:
    """``exp(x) / sum(exp(x))`` along ``axis``, without overflow."""
    return ops.softmax(x, axis=axis)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithm of the softmax along ``axis``, without overflow."""
    return ops.log_softmax(x, axis=axis)


def dropout(x: Any, p: float = 0.5, training: bool = True, *, seed: Any = None,
            base: Any = 0) -> Any:  # fmt: skip
    """``x / (1 - p)``, or 0 for a share ``p`` of the elements; ``x`` where it is not training.

    Without a ``seed`` the mask comes from the generator of ``ge2rt.manual_seed``, another at each
    call. With one it is that of the stated stream (Philox4x32-10) from counter ``base`` on; a call
    uses ``ceil(x.size / 4)`` of them. InvalidArgumentError for p outside of [0, 1), and inside a
    trace without a seed, where each call would drop the same elements.
    """
    checks.share("dropout", p)
    if not training or p == 0:
        return x
    if seed is None:
        if active() is not None:
            raise InvalidArgumentError(
                "dropout without a seed in a jitted function would drop the same elements at each"
                " call", argument="seed", where=where(),
                next_step="pass seed= and base=, arguments of the jitted function that change",
            )  # fmt: skip
        seed, base = reserved(x.size)
    return stream_dropout(x, seed, base, p=p)


@composite("slope")
def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """``x`` where it is positive, else ``slope * x``."""
    return np.where(x > 0, x, x * slope)


@composite()
def softplus(x: Any) -> Any:
    """``log(1 + exp(x))``, without overflow."""
    return np.logaddexp(x, 0.0 * x)


# -- losses ---------------------------------------------------------------------------------------
def refuse_reduction(reduction: str) -> None:
    """ValueError for what is none of ``mean``, ``sum`` and ``none``."""
    if reduction not in ("mean", "sum", "none"):
        raise InvalidArgumentError(
            f"unknown reduction {reduction!r}", expected="mean, sum or none", argument="reduction",
            where=where(), next_step="use one of these",
        )  # fmt: skip


def _reduced(values: Any, reduction: str) -> Any:
    refuse_reduction(reduction)
    return values if reduction == "none" else getattr(values, reduction)()


@composite("reduction", precision="full")
def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    """``(x - target) ** 2``, joined by ``reduction``: ``mean``, ``sum`` or ``none``.

    Warns where the shapes differ, as all losses of two arrays do: they are broadcast.
    """
    checks.warn_of_broadcast("mse_loss", x, target)
    return _reduced((x - target) ** 2, reduction)


@composite("reduction", precision="full")
def l1_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    """``|x - target|``, as :func:`mse_loss`."""
    checks.warn_of_broadcast("l1_loss", x, target)
    return _reduced(np.abs(x - target), reduction)


@composite("reduction", precision="full")
def binary_cross_entropy_with_logits(x: Any, target: Any, reduction: str = "mean") -> Any:
    """``-t log s(x) - (1 - t) log(1 - s(x))`` with s the logistic function, without overflow."""
    checks.warn_of_broadcast("binary_cross_entropy_with_logits", x, target)
    return _reduced(np.maximum(x, 0) - x * target + np.log1p(np.exp(-np.abs(x))), reduction)


@composite("label_smoothing", "reduction", "ignore_index", precision="full")
def cross_entropy(
    logits: Any, target: Any, label_smoothing: float = 0.0, reduction: str = "mean",
    ignore_index: int = -100,
) -> Any:  # fmt: skip
    """``-log softmax(logits)[target]``: logits ``[N, C]``, target ``[N]`` integers from 0 to C - 1.

    ``label_smoothing`` is the share of each target that is spread over all classes. Targets that
    are ``ignore_index`` have the loss 0, and the mean is over the others. Another target that is no
    class raises ValueError, one that is no integer TypeError.
    """
    checks.classes("cross_entropy", logits, target)
    scores = functions.log_softmax(logits)
    rows = np.arange(logits.shape[0])
    label = target.astype(np.int64)
    counts = label != ignore_index
    # an index below 0 would count from the end: here it is an index outside, which is refused
    place = np.where(label < 0, logits.shape[1], label)
    loss = -scores[rows, np.where(counts, place, 0)]
    if label_smoothing:
        loss = (1 - label_smoothing) * loss - label_smoothing * scores.mean(-1)
    loss = np.where(counts, loss, 0)
    if reduction == "mean":
        return loss.sum() / counts.sum().astype(loss.dtype)
    return _reduced(loss, reduction)
