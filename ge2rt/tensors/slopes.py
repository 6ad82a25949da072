"""What may be set as a tensor's gradient."""

from __future__ import annotations

from typing import Any

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.jit.scope import where
from ge2rt.jit.traced import Traced
from ge2rt.tensors.sparse import Coo
from ge2rt.tensors.tensor import Tensor


def refuse_gradient(x: Tensor, value: Any) -> None:
    """TypeError for what is no tensor, ValueError for one of another shape than ``x``."""
    if isinstance(value, Traced):
        raise InvalidTypeError(
            "a gradient inside a jitted function is set as .grad, which happens once, while the"
            " function is traced, and not at its calls", where=where(), got=repr(value),
            next_step="return the gradients, then set .grad and step outside of the function"
            " (docs/training.md)",
        )  # fmt: skip
    if not isinstance(value, (Tensor, Coo)):
        raise InvalidTypeError(
            "a gradient is a tensor", got=type(value).__name__, where=where(),
            next_step="x.grad = ge2rt.tensor(g), or None to forget it",
        )  # fmt: skip
    if tuple(value.shape) != x.shape:
        raise InvalidArgumentError(
            "a gradient has the shape of its tensor", expected=str(x.shape), where=where(),
            got=str(tuple(value.shape)), detail="shape", next_step="sum or reshape it first",
        )  # fmt: skip
