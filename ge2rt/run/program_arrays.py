"""Arrays into a program and out of it: addresses of the inputs, fresh outputs, arenas."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DType
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError, OutOfMemoryError
from ge2rt.base.shapes import byte_span, canonical_strides, size_of
from ge2rt.base.text import show
from ge2rt.device.api import Device
from ge2rt.device.pointers import describe
from ge2rt.fuse.program import Buffer
from ge2rt.run.program_memory import ALIGN
from ge2rt.run.program_native import address_of

_VECTOR_MASK = 15


@dataclass(frozen=True)
class InputSlot:
    """One input: what it must look like. Strides of size-1 axes never matter."""

    number: int
    base: int
    shape: tuple[int, ...]
    dtype: DType
    numpy: np.dtype[Any]
    strides: tuple[int, ...]  # bytes, canonical
    empty: bool

    @classmethod
    def of(cls, buffer: Buffer, base: int) -> InputSlot:
        """The slot of an input buffer."""
        shape, dtype = buffer.type.shape, buffer.type.element
        steps = canonical_strides(shape, buffer.strides)
        strides = tuple(step * dtype.itemsize for step in steps)
        return cls(buffer.index, base, shape, dtype, dtype.numpy, strides, 0 in shape)

    def fits(self, array: np.ndarray[Any, Any]) -> bool:
        """Whether a NumPy array is what the program was compiled for."""
        return (
            array.shape == self.shape
            and array.dtype == self.numpy
            and (
                array.strides == self.strides
                or self.empty
                or canonical_strides(array.shape, array.strides) == self.strides
            )
        )

    def place(self, array: Any, device: Device) -> tuple[int, Any]:
        """(address, object that holds the memory); InvalidTypeError for another array."""
        if type(array) is np.ndarray and self.fits(array) and device.accepts("cpu"):
            address = address_of(array)
            if address & (self.dtype.itemsize - 1):
                array = array.copy()  # rare: a view of packed records
                if not self.fits(array):
                    raise self._unaligned(address)
                address = address_of(array)
            return address, array
        return self._place_other(array, device)

    def _place_other(self, array: Any, device: Device) -> tuple[int, Any]:
        operand = describe(array, f"arrays[{self.number}]")
        if not device.accepts(operand.device):
            raise self._refused("lies on another device", device.name, operand.device)
        steps = tuple(s * operand.dtype.itemsize for s in operand.strides)
        if operand.dtype != self.dtype:
            raise self._refused("has another dtype", str(self.dtype), str(operand.dtype))
        if operand.shape != self.shape:
            raise self._refused("has another shape", show(self.shape), show(operand.shape))
        if not self.empty and canonical_strides(operand.shape, steps) != self.strides:
            raise self._refused("has other byte strides", show(self.strides), show(steps))
        if operand.address & (self.dtype.itemsize - 1):
            raise self._unaligned(operand.address)
        return operand.address, operand.keepalive

    def _refused(self, what: str, expected: str, got: str) -> InvalidTypeError:
        return InvalidTypeError(
            f"{what} than this specialization was compiled for", expected=expected, got=got,
            argument=f"arrays[{self.number}]", next_step="compile for these arrays",
        )  # fmt: skip

    def _unaligned(self, address: int) -> InvalidArgumentError:
        return InvalidArgumentError(
            "misaligned array", argument=f"arrays[{self.number}]", got=hex(address),
            expected=f"a multiple of {self.dtype.itemsize} bytes", next_step="copy it first",
        )  # fmt: skip

    def span(self) -> tuple[int, int]:
        """Half-open range of bytes around the first element that the input covers."""
        item = self.dtype.itemsize
        return byte_span(self.shape, tuple(s // item for s in self.strides), item)


@dataclass(frozen=True)
class OutputSlot:
    """One output: what is allocated for it."""

    base: int
    shape: tuple[int, ...]
    dtype: DType
    numpy: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the output."""
        return size_of(self.shape) * self.dtype.itemsize

    def fresh(self, device: Device, like: Any) -> tuple[int, Any]:
        """(address, a new array), of the same library as ``like``."""
        if type(like) is not np.ndarray:
            made = device.empty(self.shape, self.dtype, like)
            return (address_of(made) if type(made) is np.ndarray else describe(made).address), made
        try:
            array = np.empty(self.shape, self.numpy)
        except MemoryError as fault:
            raise OutOfMemoryError(
                f"no host memory for {self.dtype}{list(self.shape)}",
                next_step="use smaller arrays",
            ) from fault
        return address_of(array), array


class Arena:
    """Memory of one run: fault flags first (they are 0 between runs), then the temporaries."""

    def __init__(self, device: Device, nbytes: int, flag_bytes: int) -> None:
        memory = device.memory
        raw = memory.allocate(nbytes + ALIGN)
        self._finalize = weakref.finalize(self, memory.free, raw)
        self._finalize.atexit = False  # the process takes its memory along
        self.address = (raw + ALIGN - 1) & -ALIGN
        if flag_bytes:
            memory.fill(self.address, 0, flag_bytes)

    def close(self) -> None:
        """Give the memory back."""
        self._finalize()


def is_loose(address: int) -> bool:
    """Whether an address is no multiple of 16."""
    return bool(address & _VECTOR_MASK)


def host_words(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    """Addresses as a C array."""
    return (ctypes.c_int64 * len(values))(*values)
