"""Gradients scaled by their joint norm (Pascanu et al., 2013)."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.faces import launch
from ge2rt.optim.checks import refuse_traced
from ge2rt.optim.fused import batches
from ge2rt.optim.gradients import scale_, writable
from ge2rt.tensors.making import empty
from ge2rt.tensors.tensor import Tensor

_EPS = 1e-6  # as in the kernel


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> float:
    """Scale all gradients by ``min(1, max_norm / (norm + 1e-6))``; returns the norm before.

    The norm is that of all elements of all gradients together, of any number of parameters, dtypes
    and devices: the 2-norm, or the largest absolute value for ``norm_type=inf``. Gradients that are
    None are left out, and a parameter that is listed twice counts once. ValueError for another
    ``norm_type``, a negative ``max_norm`` and a gradient whose elements share memory,
    InvalidTypeError inside a jitted function.
    """
    refuse_traced("clip_grad_norm_")
    if norm_type not in (2, math.inf) or not max_norm >= 0:
        raise InvalidArgumentError(
            "clip_grad_norm_: no such norm", got=f"max_norm={max_norm}, norm_type={norm_type}",
            expected="max_norm >= 0 and norm_type 2 or inf", next_step="use one of these",
        )  # fmt: skip
    given = [parameters] if isinstance(parameters, Tensor) else parameters
    rows = list(batches(list(writable("clip_grad_norm_", given))))
    if not rows:
        return 0.0
    if len(rows) == 1:
        return _launched(rows[0], max_norm, norm_type)
    norms = np.array([_launched(row, sys.float_info.max, norm_type) for row in rows])
    norm = float(norms.max() if norm_type == math.inf else np.sqrt((norms * norms).sum()))
    by = max_norm / (norm + _EPS)
    if not by >= 1:  # nor for a norm that is not finite, as in the kernel
        for gradient in (each for row in rows for each in row):
            scale_(gradient, by)
    return norm


def _launched(gradients: Any, max_norm: float, norm_type: float) -> float:
    """Up to 32 gradients of a dtype and device, by one kernel.

    The largest finite ``max_norm`` asks for the norm alone: it changes no gradients but those with
    a norm that is not finite, and these to what the joint norm makes of them.
    """
    # the norm of f32 gradients can be larger than f32 holds
    norm = empty((), dtype="f64", device=gradients[0].device)
    launch("CLIP_GRAD_NORM", out=(*(g.array for g in gradients), norm.array), max_norm=max_norm,
           norm_type=norm_type)  # fmt: skip
    for gradient in gradients:
        gradient.storage().version += 1
    return float(norm.numpy())
