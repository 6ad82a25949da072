"""Views as operators: the geometry changes at once, the record has a function for the way back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidTypeError
from ge2rt.base.shapes import size_of
from ge2rt.tensors import geometry as geo
from ge2rt.tensors.dispatch import mode
from ge2rt.tensors.geometry import Geometry, refuse
from ge2rt.tensors.operators import Operator
from ge2rt.tensors.tape import Fill, Pull, Step, renew
from ge2rt.tensors.tensor import Tensor, base_of, is_stale


def view(x: Tensor, name: str, made: Geometry, **how: Any) -> Tensor:
    """The view of ``x`` with a geometry; ``how`` are options of the function ``name`` below."""
    result = shown(x, made)
    if mode.recording and x.requires_grad:
        op = _operator(name)
        pull = Pull(op, Fill((("x", None, None),), tuple(how.items())), (0,))
        Step(f"view {name}", [x], (0,), pull).produced(result)
    return result


def shown(x: Tensor, made: Geometry) -> Tensor:
    """The view of ``x`` with a geometry, as old as the history that ``x`` has now."""
    if mode.recording:
        renew([x])
        return x.as_view(made)
    result = x.as_view(made)
    base = base_of(result)
    if base is not None and base.requires_grad:
        result._quiet = True
    return result


def permute(x: Tensor, *axes: Any) -> Tensor:
    """Axes in another order, as a tuple or one by one."""
    order = geo.ints("permute", axes[0] if len(axes) == 1 else axes)
    made = geo.permuted(x.geometry, order)
    return view(x, "transpose", made, axes=tuple(a % max(x.ndim, 1) for a in order))


def transpose(x: Tensor, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Two axes exchanged: the last two without arguments."""
    order = list(range(x.ndim))
    a, b = (geo.axis_of("transpose", axis, x.ndim) for axis in (axis1, axis2))
    order[a], order[b] = order[b], order[a]
    return permute(x, tuple(order))


def reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements, row-major, in another shape: a view where that can be, else a copy."""
    wanted = geo.ints("reshape", shape[0] if len(shape) == 1 else shape)
    made = geo.reshaped(x.geometry, wanted)
    if made is None:
        from ge2rt.tensors.making import clone  # late: it needs views

        return reshape(clone(x), wanted)
    return view(x, "reshape", made, shape=made.shape)


def as_shape(x: Tensor, *shape: Any) -> Tensor:
    """As ``reshape``, but never a copy: ValueError where the strides do not allow it."""
    wanted = geo.ints("view", shape[0] if len(shape) == 1 else shape)
    made = geo.reshaped(x.geometry, wanted)
    if made is None:
        raise refuse("view", f"strides {x.strides} of shape {x.shape} do not allow shape {wanted}",
                     hint="use reshape, which copies")  # fmt: skip
    return view(x, "reshape", made, shape=made.shape)


def flatten(x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    """Axes from ``start`` to ``end`` joined to one."""
    if not x.ndim:
        return reshape(x, 1)
    first, last = (geo.axis_of("flatten", axis, x.ndim) for axis in (start, end))
    joined = size_of(x.shape[first : last + 1])
    return reshape(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))


def expand(x: Tensor, *shape: Any) -> Tensor:
    """Axes of extent 1 repeated without a copy; -1 keeps an extent."""
    wanted = geo.ints("expand", shape[0] if len(shape) == 1 else shape)
    made = geo.expanded(x.geometry, wanted)
    return view(x, "broadcast", made, shape=made.shape)


def squeeze(x: Tensor, axis: Any = None) -> Tensor:
    """Without axes of extent 1: all, or those that are named."""
    made = geo.squeezed(x.geometry, None if axis is None else geo.ints("squeeze", axis))
    return view(x, "reshape", made, shape=made.shape)


def unsqueeze(x: Tensor, axis: int) -> Tensor:
    """With a new axis of extent 1."""
    made = geo.unsqueezed(x.geometry, axis)
    return view(x, "reshape", made, shape=made.shape)


def flip(x: Tensor, axis: Any = None) -> Tensor:
    """Axes reversed (all without ``axis``), by negative strides."""
    axes = tuple(range(x.ndim)) if axis is None else geo.ints("flip", axis)
    made = geo.flipped(x.geometry, axes)
    return view(x, "flip", made, axis=tuple(a % x.ndim for a in axes))


def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Elements ``i, i + offset`` of two axes as a new last axis."""
    made = geo.diagonal(x.geometry, offset, axis1, axis2)
    return view(x, "diagonal", made, offset=offset, axis1=axis1, axis2=axis2)


def unfold(x: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` elements, ``step`` apart, as a new last axis; they overlap in memory."""
    made = geo.unfolded(x.geometry, axis, size, step)
    return view(x, "unfold", made, axis=axis % x.ndim, size=size, step=step)


def as_strided(x: Tensor, shape: Any, strides: Any, offset: int | None = None) -> Tensor:
    """Any sizes and strides (elements) over the same storage; ValueError beyond its bounds.

    TypeError where a derivative is recorded for ``x``.
    """
    if mode.recording and (x.requires_grad or is_stale(x)):
        raise InvalidTypeError(
            "as_strided has no derivative", next_step="use views, or x.detach().as_strided(...)"
        )
    start = x.offset if offset is None else offset
    extents, steps = geo.ints("as_strided", shape), geo.ints("as_strided", strides)
    return shown(x, geo.strided(extents, steps, start, x.storage().elements))


# -- what a view is, for derivatives: NumPy functions of the array --------------------------------
def _windows(x: Any, axis: int, size: int, step: int) -> Any:
    count = (x.shape[axis] - size) // step + 1
    places = step * np.arange(count)[:, None] + np.arange(size)
    return np.moveaxis(np.take(x, places, axis=axis), axis + 1, -1)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "transpose": lambda x, axes: np.transpose(x, axes),
    "reshape": lambda x, shape: np.reshape(x, shape),
    "broadcast": lambda x, shape: np.broadcast_to(x, shape),
    "flip": lambda x, axis: np.flip(x, axis),
    "diagonal": lambda x, offset, axis1, axis2: np.diagonal(x, offset, axis1, axis2),
    "unfold": _windows,
    "slice": lambda x, index: x[unhidden(index)],
}  # fmt: skip
_operators: dict[str, Operator] = {}


def _operator(name: str) -> Operator:
    if name not in _operators:
        function = _FUNCTIONS[name]
        signature = inspect.signature(function)
        static = tuple(list(signature.parameters)[1:])
        _operators[name] = Operator(name, "view", function, signature, static, f"view {name}")
    return _operators[name]


def hidden(index: Any) -> tuple[Any, ...]:
    """A basic index as something that can be hashed."""
    parts: Sequence[Any] = index if isinstance(index, tuple) else (index,)
    return tuple(
        ("slice", *(None if v is None else int(v) for v in (p.start, p.stop, p.step)))
        if isinstance(p, slice) else p if p is None or p is Ellipsis else int(p)
        for p in parts
    )  # fmt: skip


def unhidden(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index again."""
    return tuple(slice(*part[1:]) if isinstance(part, tuple) else part for part in index)
