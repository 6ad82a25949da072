"""Layers with parameters. Weights are drawn as PyTorch's layers draw theirs, from ``seed``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ge2rt.nn import functional as F
from ge2rt.nn.composite import pair
from ge2rt.nn.module import Module, Parameter
from ge2rt.tensors import ops, views
from ge2rt.tensors.making import ones, zeros
from ge2rt.tensors.tensor import Tensor

_seeds: Iterator[int] = itertools.count()


def manual_seed(seed: int) -> None:
    """Start the sequence of seeds from which layers without one draw their weights."""
    global _seeds
    _seeds = itertools.count(seed << 20)


def next_seed() -> int:
    """The next of the sequence."""
    return next(_seeds)


def uniform_parameter(shape: tuple[int, ...], fan_in: int, seed: int | None) -> Parameter:
    """Uniform in ``+-1 / sqrt(fan_in)``."""
    rng = np.random.default_rng(next_seed() if seed is None else seed)
    bound = 1 / math.sqrt(max(fan_in, 1))
    return Parameter(rng.uniform(-bound, bound, shape).astype(np.float32))


class Linear(Module):
    """``x @ weight.T + bias``: weight ``[O, I]``, bias ``[O]``."""

    def __init__(
        self, inputs: int, outputs: int, bias: bool = True, seed: int | None = None
    ) -> None:
        self.weight = uniform_parameter((outputs, inputs), inputs, seed)
        self.bias = uniform_parameter((outputs,), inputs, seed) if bias else None

    def forward(self, x: Any) -> Any:
        """``[..., I]`` to ``[..., O]``."""
        return F.linear(x, self.weight, self.bias)

    def describe(self) -> str:
        """Its extents."""
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}"


class Conv2d(Module):
    """Cross-correlation of images ``[N, C, H, W]``."""

    def __init__(
        self, inputs: int, outputs: int, size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, seed: int | None = None,
    ) -> None:  # fmt: skip
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
    """Rows of a table ``[V, D]``, drawn from a normal distribution.

    With ``sparse`` its gradient on tensors names the rows that were used, and optimisers move these
    alone.
    """

    def __init__(
        self, count: int, width: int, seed: int | None = None, sparse: bool = False
    ) -> None:
        self.sparse = sparse
        rng = np.random.default_rng(next_seed() if seed is None else seed)
        self.weight = Parameter(F.normal(rng, (count, width), 1.0))

    def forward(self, indices: Any) -> Any:
        """Indices of any shape to ``[..., D]``."""
        if self.sparse and isinstance(indices, Tensor) and isinstance(self.weight, Tensor):
            return F.sparse_embedding(indices, self.weight)
        return F.embedding(indices, self.weight)


class LayerNorm(Module):
    """Normalisation over the last axes."""

    def __init__(self, shape: Any, eps: float = 1e-5, bias: bool = True) -> None:
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        self.weight = Parameter(ones(*extents))
        self.bias = Parameter(zeros(*extents)) if bias else None
        self.axes, self.eps = len(extents), eps

    def forward(self, x: Any) -> Any:
        """The same shape."""
        return F.layer_norm(x, self.weight, self.bias, self.axes, self.eps)


class RMSNorm(Module):
    """Division by the root mean square of the last axis."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        self.weight = Parameter(ones(width))
        self.eps = eps

    def forward(self, x: Any) -> Any:
        """The same shape."""
        return F.rms_norm(x, self.weight, self.eps)


class BatchNorm(Module):
    """Normalisation by channel (axis 1): by the batch in training, by running averages else."""

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        self.weight, self.bias = Parameter(ones(channels)), Parameter(zeros(channels))
        self.running_mean, self.running_var = zeros(channels), ones(channels)
        self.eps, self.momentum = eps, momentum

    def forward(self, x: Any) -> Any:
        """The same shape. In training the running averages move by ``momentum``."""
        if not self.training:
            return F.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, self.eps
            )
        axes = (0, *range(2, x.ndim))
        mean, var = x.mean(axis=axes), x.var(axis=axes)
        if isinstance(mean, Tensor):
            self._follow(mean.detach(), var.detach(), x.size // mean.size)
        return F.batch_norm(x, mean, var, self.weight, self.bias, self.eps)

    def _follow(self, mean: Tensor, var: Tensor, count: int) -> None:
        kept = 1 - self.momentum
        unbiased = self.momentum * count / max(count - 1, 1)
        self.running_mean.copy_(self.running_mean * kept + mean * self.momentum)  # type: ignore[attr-defined,operator]
        self.running_var.copy_(self.running_var * kept + var * unbiased)  # type: ignore[attr-defined,operator]


class MultiHeadAttention(Module):
    """Attention of several heads over ``[N, L, D]``; one product makes queries, keys and values."""

    def __init__(self, width: int, heads: int, causal: bool = False, bias: bool = True,
                 seed: int | None = None) -> None:  # fmt: skip
        self.qkv = Linear(width, 3 * width, bias, seed)
        self.out = Linear(width, width, bias, None if seed is None else seed + 1)
        self.heads, self.causal = heads, causal

    def forward(self, x: Any, mask: Any = None) -> Any:
        """``[N, L, D]`` to the same shape."""
        count, length, width = x.shape
        parts = self.qkv(x).reshape(count, length, 3, self.heads, width // self.heads)
        parts = _moved(parts, (2, 0, 3, 1, 4))
        y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], mask, self.causal)
        return self.out(_moved(y, (0, 2, 1, 3)).reshape(count, length, width))


def _moved(x: Any, axes: tuple[int, ...]) -> Any:
    return views.permute(x, axes) if isinstance(x, Tensor) else x.transpose(axes)


class Sequential(Module):
    """Modules and functions one after the other."""

    def __init__(self, *parts: Callable[..., Any]) -> None:
        self.parts = list(parts)

    def forward(self, x: Any) -> Any:
        """The last part's result."""
        for part in self.parts:
            x = part(x)
        return x


class Activation(Module):
    """A pointwise operator as a module: ``Activation("gelu")``."""

    def __init__(self, name: str) -> None:
        self.name = name
        getattr(ops, name)  # AttributeError for an unknown one

    def forward(self, x: Any) -> Any:
        """The same shape."""
        return getattr(ops, self.name)(x)

    def describe(self) -> str:
        """Its name."""
        return self.name


class Flatten(Module):
    """All axes but the first joined."""

    def forward(self, x: Any) -> Any:
        """``[N, ...]`` to ``[N, size]``."""
        return x.reshape(x.shape[0], -1)
