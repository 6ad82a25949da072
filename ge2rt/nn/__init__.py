"""Networks, small: modules, layers, losses; their functions serve inside ``@jit`` as well."""

from __future__ import annotations

from ge2rt.nn import functional
from ge2rt.nn.dropout import Dropout
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
from ge2rt.nn.precision import autocast
from ge2rt.nn.recurrent import GRU, LSTM, RNN

__all__ = [
    "GRU", "LSTM", "RNN", "Activation", "BatchNorm", "Conv2d", "Dropout", "Embedding", "Flatten",
    "LayerNorm", "Linear", "Module", "MultiHeadAttention", "Parameter", "RMSNorm", "Sequential",
    "autocast", "functional", "functional_call", "manual_seed",
]  # fmt: skip
