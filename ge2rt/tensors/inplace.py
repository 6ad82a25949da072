"""Writing into tensors: in-place forms, ``out=``, copies into views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.shapes import broadcast_strides, may_self_overlap
from ge2rt.run.launch import plan_for
from ge2rt.tensors import dispatch
from ge2rt.tensors.operators import Operator
from ge2rt.tensors.tape import recording, renew
from ge2rt.tensors.tensor import Tensor, base_of


def in_place(op: Operator, x: Tensor, args: Sequence[Any], options: Mapping[str, Any]) -> Tensor:
    """What ``x.add_(y)`` does: the result is computed, then written over ``x``."""
    refuse_leaf(x, f"{op.name}_")
    if dispatch.mode.recording:
        renew([x])  # here, and not its shadow alone
    before = shadow(x)  # what is recorded must not be x itself, which goes on to be the result
    given = [before if each is x else each for each in (x, *args)]
    result = dispatch.call(op, given, options)
    if dispatch.mode.recording and result.history is not None:
        result.history[0].set_aside(x.storage(), result)
    return replace(x, result, f"{op.name}_")


def shadow(x: Tensor) -> Tensor:
    """Another tensor that is what ``x`` is now."""
    made = x.as_view(x.geometry)
    made._base = None
    made.take_place_of(x)
    made.history, made.requires_grad = x.history, x.requires_grad
    return made


def write(x: Tensor, source: Tensor, what: str) -> Tensor:
    """Write values over ``x`` that are not computed from it: what it was has a gradient of zero."""
    if dispatch.mode.recording:
        renew([x])
        if x.requires_grad and base_of(x) is None:
            from ge2rt.tensors.through import write_over  # late: it needs this module

            source = write_over(shadow(x), fitted(x, source, what))
    return replace(x, source, what)


def replace(x: Tensor, result: Tensor, what: str) -> Tensor:
    """Write a result over ``x``, which takes on its history; without one its gradient is zero."""
    if dispatch.mode.recording:
        renew([x, result])
    recorded = dispatch.mode.recording and (result.requires_grad or wants_gradient(x))
    if recorded and base_of(x) is not None:
        from ge2rt.tensors.through import write_through  # late: it needs this module

        return write_through(x, result, what)
    if recorded and not result.requires_grad:
        from ge2rt.tensors.through import write_over  # late: it needs this module

        result = write_over(shadow(x), fitted(x, result, what))
    copy_into(x, result, what)
    if recorded:
        x.history, x.requires_grad = _history(result, x), True
    return x


def _history(result: Tensor, x: Tensor) -> Any:
    """The history of ``result``, in the dtype and shape of ``x``."""
    if result.dtype == x.dtype and result.shape == x.shape and result.history is not None:
        return result.history
    from ge2rt.tensors.making import astype, clone
    from ge2rt.tensors.views import expand

    with recording(True):
        fitting = expand(astype(result, x.dtype), x.shape)
        return (fitting if fitting.history is not None else clone(fitting)).history


def wants_gradient(x: Tensor) -> bool:
    """Whether a derivative is recorded for a tensor or for what it is a view of."""
    base = base_of(x)
    return x.requires_grad or (base is not None and base.requires_grad)


def refuse_leaf(x: Tensor, what: str) -> None:
    """ValueError for a leaf whose gradient is wanted: its first value would be lost."""
    if dispatch.mode.recording and x.requires_grad and x.history is None:
        raise InvalidArgumentError(
            f"{what}: a tensor whose gradient is wanted is changed in place",
            next_step="wrap it in ge2rt.no_grad(), or write y = f(x)",
        )


def into(out: Tensor, result: Any, what: str) -> Tensor:
    """``out=``: the result written into a tensor that was given."""
    if not isinstance(out, Tensor):
        raise InvalidTypeError(f"{what}: out is no tensor", got=type(out).__name__, argument="out")
    if isinstance(result, (tuple, list)):
        raise InvalidTypeError(f"{what}: out cannot take several results", argument="out")
    if wants_gradient(out) or result.requires_grad:
        raise InvalidArgumentError(
            f"{what}: out= records no derivative", argument="out",
            next_step="use y = f(x), or ge2rt.no_grad()",
        )  # fmt: skip
    if out.shape != result.shape:
        raise InvalidArgumentError(
            f"{what}: out has another shape", argument="out", expected=str(result.shape),
            got=str(out.shape), next_step=f"make it by ge2rt.empty({result.shape})", detail="shape",
        )  # fmt: skip
    return copy_into(out, result, what)


def copy_into(x: Tensor, source: Tensor, what: str) -> Tensor:
    """Write ``source``, broadcast and cast as the rule "same_kind" allows, over ``x``."""
    refuse_read_only(x, what)
    refuse_elsewhere(x, source, what)
    refuse_cast(x, source, what)
    refuse_overlap(x, what)
    spread = _spread(source, x.shape, what)
    if x.size:
        _copy(x, spread if spread.dtype == x.dtype else _cast(spread, x))
        x.storage().version += 1
    return x


def fitted(x: Tensor, source: Tensor, what: str) -> Tensor:
    """``source`` in the shape and dtype of ``x``, recorded, if it may be written there."""
    refuse_overlap(x, what)
    return shaped(x, source, x.shape, what)


def shaped(x: Tensor, source: Tensor, shape: Sequence[int], what: str) -> Tensor:
    """``source`` in the dtype of ``x`` and in the shape of the part where it is written."""
    from ge2rt.tensors.making import astype
    from ge2rt.tensors.views import expand

    refuse_cast(x, source, what)
    _spread(source.detach(), tuple(shape), what)
    return expand(astype(source, x.dtype), tuple(shape))


def refuse_overlap(x: Tensor, what: str) -> None:
    """ValueError for a view that shows an element of memory more than once."""
    if may_self_overlap(x.shape, x.geometry.strides):
        raise InvalidArgumentError(
            f"{what}: several elements of the tensor are one in memory", got=f"strides {x.strides}",
            next_step="write to a copy: x = x.clone()", detail="shape",
        )  # fmt: skip


def refuse_read_only(x: Tensor, what: str) -> None:
    """ValueError for a tensor over memory that others gave to read only."""
    if not x.storage().writable:
        raise InvalidArgumentError(
            f"{what}: the memory of the tensor is read-only", got="a read-only array",
            next_step="work on a copy: x = x.clone()",
        )  # fmt: skip


def refuse_elsewhere(x: Tensor, source: Tensor, what: str) -> None:
    """TypeError for values that lie on another device."""
    if x._device is not source._device:
        raise InvalidTypeError(
            f"{what}: tensors on different devices", got=f"{x.device}, {source.device}",
            detail="device", next_step="move one: y.to(x.device)",
        )  # fmt: skip


def refuse_cast(x: Tensor, source: Tensor, what: str) -> None:
    """TypeError where a value of one kind is to be written to a tensor of a lesser one."""
    have, want = source.dtype, x.dtype
    order = {"bool": 0, "uint": 1, "int": 1, "float": 2}
    if order.get(have.kind, 9) > order.get(want.kind, 9):
        raise InvalidTypeError(
            f"{what}: a result of {have} cannot be written to a tensor of {want}", detail="dtype",
            next_step=f"convert it: y.astype({want.name!r}), or use y = f(x)",
        )  # fmt: skip


def _spread(source: Tensor, shape: tuple[int, ...], what: str) -> Tensor:
    if source.shape == shape:
        return source
    lead = len(shape) - source.ndim
    if lead < 0 or any(h not in (1, w) for h, w in zip(source.shape, shape[lead:], strict=True)):
        raise InvalidArgumentError(
            f"{what}: a result of shape {source.shape} does not fit into {shape}", detail="shape",
            next_step="use y = f(x) instead of the in-place form",
        )  # fmt: skip
    g = source.geometry
    strides = broadcast_strides(g.shape, g.strides, shape)
    return source.as_view(type(g)(shape, strides, g.offset))


def _cast(source: Tensor, x: Tensor) -> Tensor:
    from ge2rt.tensors.making import astype

    with recording(False):
        return astype(source, x.dtype)


def _copy(x: Tensor, source: Tensor) -> None:
    """Copy by a kernel; a source that shares memory is copied aside first.

    Raises what the launch raises: nothing is counted as written then.
    """
    if x.storage() is source.storage() and x.geometry == source.geometry:
        return
    if x.storage().address == source.storage().address and x.geometry != source.geometry:
        from ge2rt.tensors.making import clone

        with recording(False):
            source = clone(source)
    if isinstance(x.array, np.ndarray) and (_is_odd(x) or _is_odd(source)):
        x.array[...] = source.array  # no kernel takes elements at such addresses
        return
    plan = plan_for("copy", (source.desc, x.desc), {}, x._device, dynamic=True)
    plan.launch([source.data_ptr(), x.data_ptr()])


def _is_odd(x: Tensor) -> bool:
    """Whether the elements lie at addresses that are no multiples of their size."""
    return x.data_ptr() % x.itemsize != 0


def like(value: Any, x: Tensor) -> Tensor:
    """A value as a tensor on ``x``'s device; Python numbers in its dtype, if they fit."""
    from ge2rt.tensors.making import tensor

    return tensor(value, x.dtype if _fits(value, x) else None, x.device)


def _fits(value: Any, x: Tensor) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_fits(each, x) for each in value)
    if isinstance(value, float):
        return x.dtype.is_float
    return isinstance(value, bool) or (isinstance(value, int) and x.dtype.kind != "bool")
