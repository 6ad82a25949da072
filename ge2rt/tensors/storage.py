"""Storage: device bytes, apart from the tensors that show them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ge2rt.base.dtypes import DType, dtype_of
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.shapes import byte_span
from ge2rt.device.api import Device
from ge2rt.device.array import DeviceArray
from ge2rt.tensors.geometry import Geometry


class Storage:
    """Bytes on one device, all of one dtype, and how often they were written.

    ``root`` is the array that holds the memory; ``version`` goes up with each write through any of
    the tensors over it. Memory of others may be to read only: not ``writable``.
    """

    __slots__ = (
        "__weakref__", "address", "device", "dtype", "nbytes", "root", "version", "writable",
    )  # fmt: skip

    def __init__(
        self, root: Any, address: int, nbytes: int, dtype: DType, device: Device, *,
        writable: bool = True,
    ) -> None:  # fmt: skip
        self.root = root
        self.address = address
        self.nbytes = nbytes
        self.dtype = dtype
        self.device = device
        self.version = 0
        self.writable = writable

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.nbytes // self.dtype.itemsize

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return self.address

    def array(self, geometry: Geometry) -> Any:
        """The array of a view, sharing this memory."""
        return self.device.view(self.root, self.dtype, geometry.shape, geometry.strides,
                                geometry.offset)  # fmt: skip

    def __repr__(self) -> str:
        return f"<Storage {self.nbytes} bytes of {self.dtype} on {self.device.name}>"


def of_array(array: Any, device: Device) -> tuple[Storage, Geometry]:
    """The storage behind an array, all of what its memory's owner holds, and where the array lies.

    An array whose owner is of another dtype, or does not lie densely, has a storage that reaches
    from its own first element to its last.
    """
    dtype = dtype_of(array.dtype)
    item = dtype.itemsize
    if any(step % item for step, e in zip(array.strides, array.shape, strict=True) if e > 1):
        raise InvalidArgumentError(
            "strides are no multiples of the element's size", got=str(array.strides),
            next_step="pass a copy",
        )  # fmt: skip
    strides = tuple(
        0 if e == 1 else s // item for s, e in zip(array.strides, array.shape, strict=True)
    )
    owner = _owner(array)
    low, high = byte_span(owner.shape, [s // item for s in owner.strides], item)
    start = _address(owner) + low
    offset = _address(array) - start
    geometry = Geometry(tuple(array.shape), strides, offset // item if array.size else 0)
    # the array itself says it: its owner may be open to those who have it
    writable = not isinstance(array, np.ndarray) or bool(array.flags.writeable)
    return Storage(owner, start, high - low, dtype, device, writable=writable), geometry


def _owner(array: Any) -> Any:
    """The array that holds the memory, if it is dense and of the same dtype; else ``array``."""
    owner = array
    while type(getattr(owner, "base", None)) is type(array):
        owner = owner.base
    flags = owner.flags
    dense = flags.c_contiguous or flags.f_contiguous
    return owner if dense and owner.dtype == array.dtype and owner.size else array


def _address(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.address if isinstance(array, DeviceArray) else array.data.ptr)
