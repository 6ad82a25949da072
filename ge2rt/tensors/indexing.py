"""``x[index]``: views for basic indices, kernels for arrays of indices and masks."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.tensors import dispatch, inplace, views
from ge2rt.tensors import geometry as geo
from ge2rt.tensors.making import on, tensor, to
from ge2rt.tensors.operators import Operator
from ge2rt.tensors.outside import refuse_outside
from ge2rt.tensors.tensor import Tensor
from ge2rt.tensors.through import write_at


def get(x: Tensor, index: Any) -> Tensor:
    """The view of a basic index; else what is read at arrays of indices, as NumPy reads it."""
    refuse_outside((x, index))
    if geo.is_basic(index):
        made = geo.indexed(x.geometry, index)
        return views.view(x, "slice", made, index=views.hidden(index))
    arrays, rest = _parted(index)
    if not x._device.accepts("cpu"):  # indices of the host go where they are used
        arrays = [
            to(each, x.device) if isinstance(each, Tensor) else on(each, x._device)
            for each in arrays
        ]
    result: Tensor = dispatch.call(_READ, (x, arrays), {"rest": rest})
    return result


def put(x: Tensor, index: Any, value: Any) -> None:
    """Write into the view of a basic index, where a mask of ``x``'s shape holds, or at indices.

    ValueError for an index outside; where one stands several times, any of its values may stay.
    """
    refuse_outside((x, index, value))
    inplace.refuse_leaf(x, "assignment")
    if geo.is_basic(index):
        inplace.put(get(x, index), value)
        return
    mask: Any = index if isinstance(index, Tensor) else None
    if isinstance(index, (np.ndarray, list)):
        mask = np.asarray(index)
    if str(getattr(mask, "dtype", "")) == "bool" and tuple(mask.shape) == x.shape:
        from ge2rt.tensors.operators import table

        given = value if isinstance(value, Tensor) else inplace.like(value, x)
        result = dispatch.call(table()["where"], (mask, given, inplace.shadow(x)), {})
        inplace.replace(x, result, "assignment")
        return
    given = value if isinstance(value, Tensor) else inplace.like(value, x)
    if dispatch.mode.recording and (inplace.wants_gradient(x) or given.requires_grad):
        _put_recorded(x, index, given)
    else:
        _put_at(x, index, given)


def _put_at(x: Tensor, index: Any, given: Tensor) -> None:
    """Write at arrays of indices: by the library whose array the tensor is."""
    arrays, rest = _parted(index)
    inplace.refuse_cast(x, given, "assignment")
    with _telling(x, given):
        x.array[_joined([dispatch.bare(each) for each in arrays], rest)] = given.array
    x.storage().version += 1


def _put_recorded(x: Tensor, index: Any, given: Tensor) -> None:
    """As :func:`_put_at`, with a record: of equal indices the last one counts."""
    arrays, rest = _parted(index)
    hosts = [each.detach().numpy() if isinstance(each, Tensor) else each for each in arrays]
    with _telling(x, given):
        places = np.arange(x.size).reshape(x.shape)[_joined(hosts, rest)]
    source = inplace.shaped(x, given, places.shape, "assignment")
    if not places.size:
        return
    inside = np.full(x.size, -1)
    inside[places.reshape(-1)] = np.arange(places.size)
    changed = write_at(inplace.shadow(x), source, tensor(inside.reshape(x.shape), "i64", x.device))
    inplace.replace(x, changed, "assignment")


def _joined(arrays: Sequence[Any], rest: Sequence[Any]) -> tuple[Any, ...]:
    """The index again whose parts :func:`_parted` gave."""
    return tuple(
        arrays[part[1]] if isinstance(part, tuple) and part[0] == "array"
        else views.unhidden((part,))[0]
        for part in rest
    )  # fmt: skip


@contextmanager
def _telling(x: Tensor, given: Tensor) -> Iterator[None]:
    try:
        yield
    except (IndexError, ValueError) as fault:
        raise InvalidArgumentError(
            f"assignment: {fault}", got=f"values {list(given.shape)} into {list(x.shape)}",
            next_step="indices must be in -n <= i < n, and the values broadcast to their places",
        ) from None  # fmt: skip


def _parted(index: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """The arrays of an index, and the rest with their places as numbers."""
    parts = index if isinstance(index, tuple) else (index,)
    arrays: list[Any] = []
    rest: list[Any] = []
    for part in parts:
        if isinstance(part, (Tensor, np.ndarray, list)):
            rest.append(("array", len(arrays)))
            array = part if isinstance(part, Tensor) else np.asarray(part)
            _refuse_mask(array)
            arrays.append(array)
        else:
            rest.append(views.hidden(part)[0])
    return arrays, tuple(rest)


def _refuse_mask(array: Any) -> None:
    if str(array.dtype) == "bool":
        raise InvalidTypeError(
            "a mask as an index gives as many elements as it holds, which a kernel cannot know",
            next_step="use ge2rt.where(mask, x, 0), or indices: numpy.nonzero(mask.numpy())",
        )


def _read(x: Any, arrays: Any, rest: Any) -> Any:
    return x[_joined(arrays, rest)]


_READ = Operator("index", "indexing", _read, inspect.signature(_read), ("rest",), "x[index]")
