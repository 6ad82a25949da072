"""Gradients that are forgotten, or begun anew in the memory that they have."""

from __future__ import annotations

from ge2rt.tensors.making import fill_
from ge2rt.tensors.sparse import Coo
from ge2rt.tensors.tensor import Tensor


def forget(parameter: Tensor, set_to_none: bool) -> None:
    """No gradient, or one of zeros in the same memory, without a history.

    A sparse one keeps its places.
    """
    if set_to_none or parameter.grad is None:
        parameter.grad = None
        return
    parameter.grad = gradient = parameter.grad.detach()
    fill_(gradient.values if isinstance(gradient, Coo) else gradient, 0)
