"""Arrays of devices that bring no array library: memory of the device, with shape and strides."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ge2rt.base.dtypes import DType, dtype_of
from ge2rt.base.shapes import byte_span, contiguous_strides, is_contiguous, size_of

if TYPE_CHECKING:
    from ge2rt.device.api import Device


@dataclass(frozen=True)
class Flags:
    """How the elements lie, by NumPy's names."""

    c_contiguous: bool
    f_contiguous: bool
    aligned: bool = True
    writeable: bool = True


class DeviceArray:
    """An array in a device's memory, with NumPy's names for what it is.

    ``address`` is that of the first element, ``strides`` are in bytes and may be negative. ``base``
    is the array whose memory a view shows; an array without one gives its memory back when it is
    no longer used. Kernels of the device compute with it; :meth:`get` copies it to the host.
    """

    def __init__(
        self, device: Device, address: int, shape: Sequence[int], dtype: DType,
        strides: Sequence[int] | None = None, base: DeviceArray | None = None,
    ) -> None:  # fmt: skip
        self.device = device
        self.address = address
        self.shape = tuple(shape)
        self.dtype = dtype.numpy
        self.base = base
        item = dtype.itemsize
        steps = contiguous_strides(self.shape) if strides is None else strides
        self.strides = tuple(step * item for step in steps)
        self.flags = Flags(
            is_contiguous(self.shape, steps), is_contiguous(self.shape[::-1], tuple(steps)[::-1])
        )
        self.size = size_of(self.shape)
        self.nbytes = self.size * item
        self.ndim = len(self.shape)

    @staticmethod
    def fresh(device: Device, shape: Sequence[int], dtype: DType) -> DeviceArray:
        """An array in memory of its own, row-major; OutOfMemoryError where there is none."""
        address = device.memory.allocate(size_of(shape) * dtype.itemsize)
        made = DeviceArray(device, address, shape, dtype)
        weakref.finalize(made, device.memory.free, address).atexit = False
        return made

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self.address

    def view(
        self, dtype: DType, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> DeviceArray:
        """Another array over this one's memory; strides and offset in elements, from its start."""
        low, _ = self._span()
        start = self.address + low + offset * dtype.itemsize
        owner = self if self.base is None else self.base
        return DeviceArray(self.device, start, shape, dtype, strides, owner)

    def get(self) -> np.ndarray[Any, Any]:
        """The elements in a NumPy array, after all work enqueued before."""
        low, high = self._span()
        data = self.device.memory.read(self.address + low, high - low) if self.nbytes else b""
        shown = np.ndarray(self.shape, self.dtype, data, -low if self.nbytes else 0, self.strides)
        return np.array(shown, order="C")

    def copy(self) -> DeviceArray:
        """The same elements in memory of their own, row-major."""
        made = DeviceArray.fresh(self.device, self.shape, dtype_of(self.dtype))
        if self.nbytes:
            self.device.memory.write(made.address, self.get().tobytes())
        return made

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write at a NumPy index, by way of the host: all memory that the array spans is copied."""
        low, high = self._span()
        data = bytearray(self.device.memory.read(self.address + low, high - low))
        shown = np.ndarray(self.shape, self.dtype, data, -low if self.nbytes else 0, self.strides)
        parts = index if isinstance(index, tuple) else (index,)
        shown[tuple(map(_on_host, parts))] = _on_host(value)
        if data:
            self.device.memory.write(self.address + low, memoryview(data))

    def __dlpack__(self, **options: Any) -> Any:
        """BufferError: there is no library that knows the memory of such a device."""
        raise BufferError(f"memory of {self.device.name} has no DLPack form; copy it: x.to('cpu')")

    def __dlpack_device__(self) -> tuple[int, int]:
        """As :meth:`__dlpack__`."""
        self.__dlpack__()
        raise AssertionError

    def _span(self) -> tuple[int, int]:
        item = self.dtype.itemsize
        return byte_span(self.shape, [step // item for step in self.strides], item)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on {self.device.name}>"


def _on_host(value: Any) -> Any:
    return value.get() if isinstance(value, DeviceArray) else value
