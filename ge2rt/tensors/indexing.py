"""``x[index]``: views for basic indices, kernels for arrays of indices and masks."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from ge2rt.tensors import dispatch, inplace, views
from ge2rt.tensors import geometry as geo
from ge2rt.tensors.making import astype, on, tensor, to
from ge2rt.tensors.operators import Operator, table
from ge2rt.tensors.outside import refuse_outside
from ge2rt.tensors.places import Parts, is_mask, joined, parted, places_of, telling
from ge2rt.tensors.tape import renew
from ge2rt.tensors.tensor import Tensor
from ge2rt.tensors.through import taken, write_at, write_nothing


def get(x: Tensor, index: Any) -> Tensor:
    """The view of a basic index; else what is read at arrays of indices, as NumPy reads it.

    A mask is counted on the host.
    """
    refuse_outside((x, index))
    if geo.is_basic(index):
        made = geo.indexed(x.geometry, index)
        return views.view(x, "slice", made, index=views.hidden(index))
    arrays, rest = parted(x, index)
    if any(map(is_mask, arrays)):
        return taken(x, tensor(places_of(x, arrays, rest, "index"), "i64", x.device))
    if not x._device.accepts("cpu"):  # indices of the host go where they are used
        arrays = [_beside(x, each) for each in arrays]
    result: Tensor = dispatch.call(_READ, (x, arrays), {"rest": rest})
    return result


def put(x: Tensor, index: Any, value: Any) -> None:
    """Write into the view of a basic index, at indices, or where masks hold, as NumPy writes.

    ValueError for an index outside; where one stands several times, any of its values may stay.
    """
    refuse_outside((x, index, value))
    inplace.refuse_leaf(x, "assignment")
    given = value if isinstance(value, Tensor) else inplace.like(value, x)
    inplace.refuse_elsewhere(x, given, "assignment")
    if geo.is_basic(index):
        view = get(x, index)
        inplace.replace(view, _trimmed(given, view.ndim), "assignment")
        return
    arrays, rest = parted(x, index)
    masks = any(map(is_mask, arrays))
    if masks and len(rest) == 1 and arrays[0].shape == x.shape and given.size == 1:
        _put_one(x, arrays[0], given)
    elif _recorded(x, given) or (masks and not x._device.accepts("cpu")):
        _put_places(x, arrays, rest, given)
    else:
        _put_at(x, arrays, rest, given)


def _recorded(x: Tensor, given: Tensor) -> bool:
    if not dispatch.mode.recording:
        return False
    renew([given])
    return inplace.wants_gradient(x) or given.requires_grad


def _put_one(x: Tensor, mask: Any, given: Tensor) -> None:
    """Write one value where a mask of ``x``'s shape holds: by a kernel, nothing is counted."""
    inplace.refuse_cast(x, given, "assignment")
    one = astype(views.reshape(given, ()), x.dtype)  # of two dtypes, where() would take a third
    result = dispatch.call(table()["where"], (_beside(x, mask), one, inplace.shadow(x)), {})
    inplace.replace(x, result, "assignment")


def _put_at(x: Tensor, arrays: Sequence[Any], rest: Parts, given: Tensor) -> None:
    """Write at arrays of indices: by the library whose array the tensor is."""
    inplace.refuse_read_only(x, "assignment")
    inplace.refuse_cast(x, given, "assignment")
    with telling("assignment", x, given):
        x.array[joined([dispatch.bare(each) for each in arrays], rest)] = given.array
    x.storage().version += 1


def _put_places(x: Tensor, arrays: Sequence[Any], rest: Parts, given: Tensor) -> None:
    """As :func:`_put_at`, with a record: of equal indices the last one counts."""
    places = places_of(x, arrays, rest, "assignment")
    source = inplace.shaped(x, _trimmed(given, places.ndim), places.shape, "assignment")
    if not places.size and dispatch.mode.recording:
        write_nothing(x, source)
    if not places.size:
        return
    inside = np.full(x.size, -1)
    inside[places.reshape(-1)] = np.arange(places.size)
    changed = write_at(inplace.shadow(x), source, tensor(inside.reshape(x.shape), "i64", x.device))
    inplace.replace(x, changed, "assignment")


def _beside(x: Tensor, array: Any) -> Tensor:
    """An index or a mask as a tensor on ``x``'s device."""
    return to(array, x.device) if isinstance(array, Tensor) else on(array, x._device)


def _trimmed(given: Tensor, rank: int) -> Tensor:
    """Values without the leading axes of extent 1 that their places do not have."""
    more = max(given.ndim - rank, 0)
    if not more or any(extent != 1 for extent in given.shape[:more]):
        return given
    return views.squeeze(given, tuple(range(more)))


def _read(x: Any, arrays: Any, rest: Any) -> Any:
    return x[joined(arrays, rest)]


_READ = Operator("index", "indexing", _read, inspect.signature(_read), ("rest",), "x[index]")
