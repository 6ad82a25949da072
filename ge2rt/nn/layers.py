"""Layers with parameters. Weights are drawn as PyTorch's layers draw theirs, from ``seed``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.jit.functions import detach
from ge2rt.jit.scope import where
from ge2rt.nn import checks
from ge2rt.nn import functional as F
from ge2rt.nn.composite import pair
from ge2rt.nn.module import Module, Parameter, refuse_lost
from ge2rt.nn.seeds import next_seed
from ge2rt.tensors import views
from ge2rt.tensors.making import ones, zeros
from ge2rt.tensors.tensor import Tensor


def uniform_parameter(shape: tuple[int, ...], fan_in: int, seed: int | None) -> Parameter:
    """Uniform in ``+-1 / sqrt(fan_in)``."""
    rng = np.random.default_rng(next_seed() if seed is None else seed)
    bound = 1 / math.sqrt(max(fan_in, 1))
    return Parameter(rng.uniform(-bound, bound, shape).astype(np.float32))


class Linear(Module):
    """``x @ weight.T + bias``: weight ``[O, I]``, bias ``[O]``, f32.

    Weights and bias are uniform in ``+-1 / sqrt(inputs)``, drawn from ``seed``, without one from
    the next of ``nn.manual_seed``'s. ``bias=False`` leaves the bias out. ValueError for extents
    below 1.
    """

    def __init__(
        self, inputs: int, outputs: int, bias: bool = True, seed: int | None = None
    ) -> None:
        checks.extent("Linear", "inputs", inputs)
        checks.extent("Linear", "outputs", outputs)
        self.weight = uniform_parameter((outputs, inputs), inputs, seed)
        self.bias = uniform_parameter((outputs,), inputs, seed) if bias else None

    def forward(self, x: Any) -> Any:
        """``[..., I]`` to ``[..., O]``."""
        return F.linear(x, self.weight, self.bias)

    def describe(self) -> str:
        """Its extents."""
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}"


class Conv2d(Module):
    """Cross-correlation of images ``[N, C, H, W]`` with ``inputs`` channels, f32.

    ``size`` is that of the window, ``stride``, ``padding`` (zeros) and ``dilation`` its steps; each
    is one number, or one for height and one for width. ``groups`` parts of the channels are
    convolved apart; it divides ``inputs`` and ``outputs``. Weights are drawn as those of
    :class:`Linear`. ValueError for what does not fit, here or at the call.
    """

    def __init__(
        self, inputs: int, outputs: int, size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, seed: int | None = None,
    ) -> None:  # fmt: skip
        for name, value in (("inputs", inputs), ("outputs", outputs), ("groups", groups)):
            checks.extent("Conv2d", name, value)
        checks.divides("Conv2d", ("groups", groups), ("inputs", inputs), ("outputs", outputs))
        for name, value, least in (("size", size, 1), ("stride", stride, 1),
                                   ("padding", padding, 0), ("dilation", dilation, 1)):  # fmt: skip
            for each in pair(value):
                checks.extent("Conv2d", name, each, least)
        rows, columns = pair(size)
        fan = inputs // groups * rows * columns
        self.weight = uniform_parameter((outputs, inputs // groups, rows, columns), fan, seed)
        self.bias = uniform_parameter((outputs,), fan, seed) if bias else None
        self.options = {
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "groups": groups,
        }

    def forward(self, x: Any) -> Any:
        """``[N, C, H, W]`` to ``[N, O, OH, OW]``."""
        return F.conv2d(x, self.weight, self.bias, **self.options)

    def describe(self) -> str:
        """Extents of the weights."""
        return ", ".join(map(str, self.weight.shape))


class Embedding(Module):
    """Rows of a table ``[count, width]``, f32, drawn from a normal distribution by ``seed``.

    With ``sparse`` its gradient on tensors names the rows that were used, and optimisers move these
    alone.
    """

    def __init__(
        self, count: int, width: int, seed: int | None = None, sparse: bool = False
    ) -> None:
        checks.extent("Embedding", "count", count)
        checks.extent("Embedding", "width", width)
        self.sparse = sparse
        rng = np.random.default_rng(next_seed() if seed is None else seed)
        self.weight = Parameter(rng.standard_normal((count, width)).astype(np.float32))

    def forward(self, indices: Any) -> Any:
        """Indices of any shape to ``[..., D]``."""
        if self.sparse and isinstance(indices, Tensor) and isinstance(self.weight, Tensor):
            return F.sparse_embedding(indices, self.weight)
        return F.embedding(indices, self.weight)


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, whose extents ``shape`` gives, then a weight.

    ``shape`` is one number or several; ``eps`` is added to the variance.
    """

    def __init__(self, shape: Any, eps: float = 1e-5, bias: bool = True) -> None:
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        self.weight = Parameter(ones(*extents))
        self.bias = Parameter(zeros(*extents)) if bias else None
        self.axes, self.eps = len(extents), eps

    def forward(self, x: Any) -> Any:
        """The same shape."""
        return F.layer_norm(x, self.weight, self.bias, self.axes, self.eps)


class RMSNorm(Module):
    """Division by the root mean square of the last axis, of extent ``width``, and a weight.

    ``eps`` is added to the mean square.
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        self.weight = Parameter(ones(width))
        self.eps = eps

    def forward(self, x: Any) -> Any:
        """The same shape."""
        return F.rms_norm(x, self.weight, self.eps)


class BatchNorm(Module):
    """Normalisation by channel (axis 1): by the batch in training, by running averages else.

    Buffers ``running_mean`` and ``running_var`` (unbiased) move by ``momentum`` with each batch.
    A jitted function in training is to be given them: ``nn.stateful_call``.
    """

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        self.weight, self.bias = Parameter(ones(channels)), Parameter(zeros(channels))
        self.running_mean, self.running_var = zeros(channels), ones(channels)
        self.eps, self.momentum = eps, momentum

    def forward(self, x: Any) -> Any:
        """The same shape. In training the running averages move by ``momentum``.

        In a trace InvalidTypeError where they are not among its arguments. ValueError for one value
        a channel in training.
        """
        if not self.training:
            return F.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, self.eps
            )
        if isinstance(self.running_mean, Tensor):
            refuse_lost(self, "running_mean", x)
        axes = (0, *range(2, x.ndim))
        mean, var = x.mean(axis=axes), x.var(axis=axes)
        count = x.size // mean.size
        _refuse_one(count, x)
        self._follow(mean, var, count)
        return F.batch_norm(x, mean, var, self.weight, self.bias, self.eps)

    def _follow(self, mean: Any, var: Any, count: int) -> None:
        unbiased = self.momentum * count / max(count - 1, 1)
        for name, now, part in (
            ("running_mean", mean, self.momentum), ("running_var", var, unbiased)
        ):  # fmt: skip
            before = getattr(self, name)
            alone: Any = now.detach() if isinstance(now, Tensor) else detach(now)
            after = before * (1 - self.momentum) + alone * part
            if isinstance(before, Tensor):
                before.copy_(after)  # type: ignore[attr-defined]
            else:
                setattr(self, name, after)


def _refuse_one(count: int, x: Any) -> None:
    """ValueError for a batch whose variance is 0 whatever its values are."""
    if count == 1:
        raise InvalidArgumentError(
            "BatchNorm in training needs more than one value a channel", argument="x",
            got=f"shape {list(x.shape)}", where=where(), detail="shape",
            next_step="give a larger batch, or call module.eval() first",
        )  # fmt: skip


class MultiHeadAttention(Module):
    """Attention of several heads over ``[N, L, D]``; one product makes queries, keys and values.

    ``width`` is D, which ``heads`` divides; ``causal`` lets a place see itself and those before it.
    Weights are drawn as those of :class:`Linear`. ValueError for heads that do not divide D.
    """

    def __init__(self, width: int, heads: int, causal: bool = False, bias: bool = True,
                 seed: int | None = None) -> None:  # fmt: skip
        checks.extent("MultiHeadAttention", "heads", heads)
        checks.extent("MultiHeadAttention", "width", width)
        checks.divides("MultiHeadAttention", ("heads", heads), ("width", width))
        self.qkv = Linear(width, 3 * width, bias, seed)
        self.out = Linear(width, width, bias, None if seed is None else seed + 1)
        self.heads, self.causal = heads, causal

    def forward(self, x: Any, mask: Any = None) -> Any:
        """``[N, L, D]`` to the same shape; a mask as ``scaled_dot_product_attention`` has it."""
        count, length, width = x.shape
        parts = self.qkv(x).reshape(count, length, 3, self.heads, width // self.heads)
        parts = _moved(parts, (2, 0, 3, 1, 4))
        y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], mask, self.causal)
        return self.out(_moved(y, (0, 2, 1, 3)).reshape(count, length, width))


def _moved(x: Any, axes: tuple[int, ...]) -> Any:
    return views.permute(x, axes) if isinstance(x, Tensor) else x.transpose(axes)
