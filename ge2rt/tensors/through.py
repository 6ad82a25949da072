"""Writing while a derivative is recorded, into a view or over a whole tensor by constants.

Of a view the base is what changes: it becomes ``where(mask, written, base)``, so that its
gradient is zero where it was written and goes on to what was written there; the view shows the new
base from then on. Other views show it too: one that is used later gets a history as its part.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.tensors import dispatch, inplace
from ge2rt.tensors.geometry import Geometry
from ge2rt.tensors.operators import Operator, table
from ge2rt.tensors.tape import Fill, Pull, Step
from ge2rt.tensors.tensor import Tensor


def write_through(view: Tensor, result: Tensor, what: str) -> Tensor:
    """Write ``result``, broadcast and cast, over a view; the base takes on the history of both."""
    base = view._base
    assert base is not None
    inplace.refuse_leaf(base, what)
    if view._quiet:
        raise InvalidArgumentError(
            f"{what}: a view is written that was made while nothing was recorded",
            next_step="make the view outside of no_grad(), or write inside of it",
        )
    source = inplace.fitted(view, result, what)
    if not view.size:
        write_nothing(base, source)
        show(view)
        return view
    inside, _ = _seen_from(base, view)
    before = inplace.shadow(base)
    changed = write_at(before, source, inside)
    inplace.copy_into(base, changed, what)
    base.history, base.requires_grad = changed.history, True
    show(view)
    return view


def show(view: Tensor) -> None:
    """Give a view the history of its base's elements that it shows; nothing is computed."""
    base = view._base
    assert base is not None
    _, places = _seen_from(base, view)
    Step(_SHOWN.name, [base, places], (0,), Pull(_SHOWN, _BASE_AND_PLACES, (0,))).produced(view)
    view._born = base.history


def write_at(before: Tensor, source: Tensor, inside: Tensor) -> Tensor:
    """``before`` with elements of ``source``: ``inside`` has their numbers, or -1."""
    written: Tensor = dispatch.call(_WRITTEN, (before, source, inside), {})
    return written


def write_nothing(x: Tensor, source: Tensor) -> None:
    """Give ``x`` a history after a write of no element: the gradient of ``source`` is zero."""
    if source.requires_grad:
        none = dispatch.call(table()["sum"], (source,), {})
        x.history, x.requires_grad = write_over(none, inplace.shadow(x)).history, True


def write_over(before: Tensor, source: Tensor) -> Tensor:
    """``source``, as what became of ``before``: whatever is computed from it, that does not count.

    As in PyTorch, its gradient is zero then, not none.
    """
    written: Tensor = dispatch.call(_OVER, (before, source), {})
    return written


def taken(base: Tensor, places: Tensor) -> Tensor:
    """Elements of ``base`` by number, in the shape of ``places``: a copy."""
    made: Tensor = dispatch.call(_SHOWN, (base, places), {})
    return made


def _seen_from(base: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
    """Of each element of the base its number in the view, or -1; and the other way round."""
    from ge2rt.tensors.making import tensor  # late: it needs this module's users

    count = base.storage().elements
    of_base, of_view = (_elements(each.geometry) for each in (base, view))
    numbers = np.full(count, -1)
    numbers[of_view] = np.arange(view.size).reshape(view.shape)
    inside = numbers[of_base]
    numbers[of_base] = np.arange(base.size).reshape(base.shape)
    return tensor(inside, "i64", base.device), tensor(numbers[of_view], "i64", base.device)


def _elements(g: Geometry) -> Any:
    """Numbers of the storage's elements that a geometry shows, in its shape."""
    axes = (np.arange(extent) * step for extent, step in zip(g.shape, g.strides, strict=True))
    found = np.full(g.shape, g.offset)
    for axis, steps in enumerate(axes):
        found += steps.reshape([-1 if k == axis else 1 for k in range(len(g.shape))])
    return found


def _written(base: Any, source: Any, inside: Any) -> Any:
    return np.where(inside >= 0, source.reshape(-1)[np.maximum(inside, 0)], base)


def _shown(base: Any, places: Any) -> Any:
    return base.reshape(-1)[places]


def _over(before: Any, source: Any) -> Any:
    return np.where(np.ones(before.shape, np.bool_), source, before)


_OVER = Operator("fill", "indexing", _over, inspect.signature(_over), (), "a write over a tensor")
_WRITTEN = Operator(
    "write", "indexing", _written, inspect.signature(_written), (), "a write into a view"
)
_SHOWN = Operator("shown", "view", _shown, inspect.signature(_shown), (), "the view of a base")
_BASE_AND_PLACES = Fill((("base", None, None), ("places", None, None)), ())
