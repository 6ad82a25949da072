"""Tensors for ``copy.deepcopy`` and ``pickle``: their elements, where they lie, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ge2rt.base.errors import InvalidTypeError
from ge2rt.device.registry import get_device
from ge2rt.tensors.making import on
from ge2rt.tensors.tensor import Tensor

# class, host array, device, requires_grad, gradient
_Parts = tuple[type[Tensor], Any, str, bool, Any]


# what a tensor has of its own; other attributes are its user's and come along
_OWN = {
    "_array", "_device", "_storage", "_geometry", "_base", "_born", "_quiet", "_grad", "history",
    "hooks", "requires_grad",
}  # fmt: skip


def reduced(x: Tensor) -> tuple[Callable[..., Tensor], _Parts, dict[str, Any] | None]:
    """How ``x`` is made again. Views come back with memory of their own, hooks do not come back.

    TypeError for a tensor that was computed with a record: the record cannot be copied.
    """
    if x.history is not None:
        raise InvalidTypeError(
            "a tensor that was computed from others with requires_grad is neither copied deeply"
            " nor pickled", got=f"history={x.history[0].name!r}", next_step="use x.detach()",
        )  # fmt: skip
    more = {name: value for name, value in vars(x).items() if name not in _OWN}
    return _made_again, (type(x), x._host(), x.device, x.requires_grad, x.grad), more or None


def _made_again(
    kind: type[Tensor], array: Any, device: str, requires_grad: bool, grad: Any
) -> Tensor:
    made = kind.__new__(kind)
    made._device = get_device(device)
    made._array = on(array, made._device).array
    made.requires_grad = requires_grad
    made.grad = grad
    return made
