"""Gradients scaled by their joint norm (Pascanu et al., 2013)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.faces import launch
from ge2rt.optim.checks import refuse_traced
from ge2rt.optim.fused import batches
from ge2rt.tensors.sparse import Coo
from ge2rt.tensors.tensor import Tensor

_EPS = 1e-6  # as in the kernel


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> float:
    """Scale all gradients by ``min(1, max_norm / (norm + 1e-6))``; returns the norm before.

    The norm is that of all elements of all gradients together, of any number of parameters, dtypes
    and devices: the 2-norm, or the largest absolute value for ``norm_type=inf``. Gradients that are
    None are left out. ValueError for another ``norm_type`` or a negative ``max_norm``,
    InvalidTypeError inside a jitted function.
    """
    refuse_traced("clip_grad_norm_")
    if norm_type not in (2, math.inf) or not max_norm >= 0:
        raise InvalidArgumentError(
            "clip_grad_norm_: no such norm", got=f"max_norm={max_norm}, norm_type={norm_type}",
            expected="max_norm >= 0 and norm_type 2 or inf", next_step="use one of these",
        )  # fmt: skip
    rows = list(batches(list(_gradients(parameters))))
    if not rows:
        return 0.0
    if len(rows) == 1:
        return _launched(rows[0], max_norm, norm_type)
    norms = np.array([_launched(row, math.inf, norm_type) for row in rows])
    norm = float(norms.max() if norm_type == math.inf else np.sqrt((norms * norms).sum()))
    by = max_norm / (norm + _EPS)
    if not by >= 1:  # nor for a norm that is not finite, as in the kernel
        for gradient in (each for row in rows for each in row):
            gradient.detach().multiply_(by)  # type: ignore[attr-defined]
    return norm


def _gradients(parameters: Iterable[Tensor]) -> Iterable[Tensor]:
    """The dense parts of all gradients."""
    for each in [parameters] if isinstance(parameters, Tensor) else parameters:
        if isinstance(each.grad, Coo):
            each.grad = each.grad.coalesce()  # places that stand twice count once
        if each.grad is not None:
            yield each.grad.values if isinstance(each.grad, Coo) else each.grad


def _launched(gradients: Any, max_norm: float, norm_type: float) -> float:
    """Up to 32 gradients of a dtype and device, by one kernel."""
    norm = np.zeros((), np.float32)
    launch("CLIP_GRAD_NORM", out=(*(g.array for g in gradients), norm), max_norm=max_norm,
           norm_type=norm_type)  # fmt: skip
    for gradient in gradients:
        gradient.storage().version += 1
    return float(norm)
