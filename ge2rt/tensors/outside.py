"""Tensors beside the symbols of a trace: refused, as later values of theirs would not be seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ge2rt.jit.faults import tensor_outside
from ge2rt.jit.scope import active, where
from ge2rt.jit.traced import Traced
from ge2rt.jit.trees import flatten
from ge2rt.tensors.tensor import Tensor


def refuse_outside(values: Iterable[Any]) -> bool:
    """InvalidTypeError, with the user's line, where tensors stand beside symbols of a trace.

    Returns whether there are symbols at all.
    """
    if active() is None:
        return False
    leaves = flatten(tuple(values))[0]
    if not any(isinstance(leaf, Traced) for leaf in leaves):
        return False
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            raise tensor_outside(leaf, where())
    return True
