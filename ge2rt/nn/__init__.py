"""Networks, small: modules, layers, losses; their functions serve inside ``@jit`` as well."""

from __future__ import annotations

from ge2rt.nn import functional
from ge2rt.nn.layers import (
    Activation,
    BatchNorm,
    Conv2d,
    Embedding,
    Flatten,
    LayerNorm,
    Linear,
    MultiHeadAttention,
    RMSNorm,
    Sequential,
    manual_seed,
)
from ge2rt.nn.module import Module, Parameter, functional_call

__all__ = [
    "Activation", "BatchNorm", "Conv2d", "Embedding", "Flatten", "LayerNorm", "Linear", "Module",
    "MultiHeadAttention", "Parameter", "RMSNorm", "Sequential", "functional", "functional_call",
    "manual_seed",
]  # fmt: skip
