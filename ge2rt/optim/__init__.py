"""Optimisers by fused kernels, gradient clipping, schedules."""

from __future__ import annotations

from ge2rt.optim.clipping import clip_grad_norm_
from ge2rt.optim.fused import (
    LAMB,
    SGD,
    Adagrad,
    Adam,
    AdamW,
    AMSGrad,
    Lion,
    Optimizer,
    RMSprop,
)
from ge2rt.optim.scaling import GradScaler
from ge2rt.optim.schedules import cosine, linear_warmup, step_decay

__all__ = [
    "LAMB",
    "SGD",
    "AMSGrad",
    "Adagrad",
    "Adam",
    "AdamW",
    "GradScaler",
    "Lion",
    "Optimizer",
    "RMSprop",
    "clip_grad_norm_",
    "cosine",
    "linear_warmup",
    "step_decay",
]  # fmt: skip
