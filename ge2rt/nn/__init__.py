"""Networks, small: modules, layers, losses; their functions serve inside ``@jit`` as well."""

from __future__ import annotations

from typing import Any

from ge2rt.nn import functional
from ge2rt.nn.activations import (
    GELU,
    Activation,
    Flatten,
    Identity,
    LeakyReLU,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from ge2rt.nn.calls import functional_call, stateful_call
from ge2rt.nn.containers import ModuleList, Sequential
from ge2rt.nn.dropout import Dropout
from ge2rt.nn.layers import (
    BatchNorm,
    Conv2d,
    Embedding,
    LayerNorm,
    Linear,
    MultiHeadAttention,
    RMSNorm,
)
from ge2rt.nn.losses import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss
from ge2rt.nn.module import Module, Parameter
from ge2rt.nn.precision import autocast
from ge2rt.nn.recurrent import GRU, LSTM, RNN
from ge2rt.nn.seeds import manual_seed

__all__ = [
    "GELU", "GRU", "LSTM", "RNN", "Activation", "BCEWithLogitsLoss", "BatchNorm", "Conv2d",
    "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "Identity", "L1Loss", "LayerNorm",
    "LeakyReLU", "Linear", "MSELoss", "Module", "ModuleList", "MultiHeadAttention", "Parameter",
    "RMSNorm", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh", "autocast",
    "functional", "functional_call", "manual_seed", "stateful_call",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from ge2rt.spec.habits import NETWORKS, hint  # late: it is for a message

    raise AttributeError(f"ge2rt.nn has no {name!r}.{hint(name, NETWORKS, __all__)}")
