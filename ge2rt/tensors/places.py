"""Indices that make no view: their arrays, and by the host the places that they name.

A mask names as many places as it holds, which no kernel can know beforehand; the values of a tensor
are known, so the host counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.text import show
from ge2rt.tensors import geometry as geo
from ge2rt.tensors import views
from ge2rt.tensors.tensor import Tensor

Parts = tuple[Any, ...]  # of an index, as views.hidden has them; ("array", n) for an array


def parted(x: Tensor, index: Any) -> tuple[list[Any], Parts]:
    """The arrays of an index, and the rest with their places as numbers.

    TypeError for what is no index, and for one that lies on a device that is not ``x``'s.
    """
    arrays: list[Any] = []
    rest: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if geo.is_basic_part(part):
            rest.append(views.hidden(part)[0])
        else:
            rest.append(("array", len(arrays)))
            arrays.append(_array(part))
    for each in arrays:
        far = isinstance(each, Tensor) and not each._device.accepts("cpu")
        if far and each._device is not x._device:
            raise InvalidTypeError(
                "index: tensors on different devices", got=f"{x.device}, {each.device}",
                detail="device", next_step="move it: index.to(x.device)",
            )  # fmt: skip
    return arrays, tuple(rest)


def joined(arrays: Sequence[Any], rest: Parts) -> Parts:
    """The index again whose parts :func:`parted` gave."""
    return tuple(
        arrays[part[1]] if isinstance(part, tuple) and part[0] == "array"
        else views.unhidden((part,))[0]
        for part in rest
    )  # fmt: skip


def is_mask(array: Any) -> bool:
    """Whether an array of an index says yes or no."""
    return str(array.dtype) == "bool"


def places_of(x: Tensor, arrays: Sequence[Any], rest: Parts, what: str) -> Any:
    """Numbers of ``x``'s elements that an index names, in the index's shape, as a NumPy array.

    ValueError for places outside, and for a mask of another shape.
    """
    hosts = [each.detach().numpy() if isinstance(each, Tensor) else each for each in arrays]
    with telling(what, x):
        return np.arange(x.size).reshape(x.shape)[joined(hosts, rest)]


@contextmanager
def telling(what: str, x: Tensor, given: Tensor | None = None) -> Iterator[None]:
    """NumPy's words for an index that does not fit, as our error."""
    try:
        yield
    except (IndexError, TypeError, ValueError) as fault:
        got = f"a tensor of {list(x.shape)}"
        raise InvalidArgumentError(
            f"{what}: {fault}", got=got if given is None else f"{got}, values {list(given.shape)}",
            next_step="indices must be in -n <= i < n, masks of the axes' extents, and values"
            " broadcast to their places",
        ) from None  # fmt: skip


def _array(part: Any) -> Any:
    if isinstance(part, Tensor):
        return part
    try:
        array = np.asarray(part)
    except ValueError:
        array = np.asarray(None)
    if not array.size and not hasattr(part, "dtype"):  # an empty list has floats, for NumPy
        array = array.astype(np.intp)
    if array.dtype.kind not in "biu":
        raise InvalidTypeError(
            "an index must be an integer", got=f"{show(part)} of {array.dtype}",
            next_step="cast it, e.g. i.astype(numpy.int64)",
        )  # fmt: skip
    return array
