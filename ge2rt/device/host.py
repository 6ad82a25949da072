"""Host memory, streams and events as a device has them: shared by the cpu and the null device."""

from __future__ import annotations

import bisect
import ctypes
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DType
from ge2rt.base.errors import InvalidArgumentError, OutOfMemoryError
from ge2rt.base.locks import ForkLock
from ge2rt.base.shapes import byte_span
from ge2rt.base.text import show
from ge2rt.device.api import Device, Memory
from ge2rt.device.pointers import torch_empty

_ALIGN = 256


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Address of an array's first element."""
    return int(array.__array_interface__["data"][0])


class HostMemory(Memory):
    """Aligned host buffers. Addresses that were not allocated here may be read and written too."""

    def __init__(self) -> None:
        self._live: dict[int, tuple[int, np.ndarray[Any, Any]]] = {}

    def allocate(self, nbytes: int) -> int:
        """Address of fresh memory, aligned to 256 bytes; 0 bytes gives 0."""
        if nbytes < 0:
            raise InvalidArgumentError("negative size", got=str(nbytes))
        if nbytes == 0:
            return 0
        try:
            raw = np.empty(nbytes + _ALIGN, np.uint8)
        except (MemoryError, ValueError) as fault:
            raise OutOfMemoryError(
                f"no host memory for {nbytes} bytes", next_step="free buffers or use smaller ones"
            ) from fault
        address = (address_of(raw) + _ALIGN - 1) & -_ALIGN
        self._live[address] = (nbytes, raw)
        return address

    def free(self, address: int) -> None:
        """Give memory back; 0 is allowed, an unknown address is an InvalidArgumentError."""
        if address and self._live.pop(address, None) is None:
            raise InvalidArgumentError(
                "address was not allocated on this device, or is free already", got=hex(address)
            )

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Copy host bytes to the device; done when it returns."""
        source = np.frombuffer(data, np.uint8)
        ctypes.memmove(address, address_of(source), source.size)

    def read(self, address: int, nbytes: int) -> bytes:
        """Copy device bytes to the host."""
        return ctypes.string_at(address, nbytes)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set bytes."""
        ctypes.memset(address, value, nbytes)

    def live(self) -> list[tuple[int, int]]:
        """(address, bytes) of all allocations, by address."""
        return sorted((address, nbytes) for address, (nbytes, _) in self._live.items())

    def find(self, address: int) -> tuple[int, int] | None:
        """The allocation (address, bytes) that holds ``address``, if one does."""
        live = self.live()
        at = bisect.bisect_right(live, (address, 2**63)) - 1
        if at >= 0 and address < live[at][0] + live[at][1]:
            return live[at]
        return None


@dataclass(frozen=True)
class HostEvent:
    """A moment, as ``time.perf_counter_ns`` tells it."""

    at: int


class HostStreams:
    """Handles of streams whose work is done at once, in the thread that asks for it."""

    def __init__(self) -> None:
        self.handles: set[int] = {0}
        self._next = itertools.count(1)
        self._lock = ForkLock()

    def create(self) -> int:
        """A new handle, never 0."""
        with self._lock:
            handle = next(self._next)
            self.handles.add(handle)
            return handle

    def destroy(self, stream: int) -> None:
        """Forget a handle."""
        self.check(stream)
        if stream:
            self.handles.discard(stream)

    def check(self, stream: int) -> None:
        """InvalidArgumentError for what is no handle from here."""
        if not isinstance(stream, (int, np.integer)) or stream not in self.handles:
            raise InvalidArgumentError(
                "not a stream of this device", expected="0 or a stream made by ge2rt on it",
                got=show(stream), argument="stream",
            )  # fmt: skip


class HostDevice(Device):
    """What devices share whose launches are done when they return, in host memory."""

    index = 0

    def __init__(self) -> None:
        self.memory: HostMemory = HostMemory()
        self._streams = HostStreams()

    def create_stream(self) -> int:
        """A new stream's handle (never 0)."""
        return self._streams.create()

    def destroy_stream(self, stream: int) -> None:
        """Forget a stream made here."""
        self._streams.destroy(stream)

    def check_stream(self, stream: int) -> None:
        """InvalidArgumentError for a handle that was not made here."""
        self._streams.check(stream)

    def synchronize(self, stream: int | None = None) -> None:
        """Nothing is ever pending."""
        if stream is not None:
            self._streams.check(stream)

    def accepts(self, home: str) -> bool:
        """Kernels here use host memory."""
        return home == "cpu" or super().accepts(home)

    def empty(self, shape: Sequence[int], dtype: DType, like: Any = None) -> Any:
        """A fresh NumPy array, or a Torch tensor where ``like`` is one."""
        fresh = torch_empty(shape, dtype, like)
        if fresh is not None:
            return fresh
        try:
            return np.empty(tuple(shape), dtype.numpy)
        except (MemoryError, ValueError) as fault:
            raise OutOfMemoryError(
                f"no host memory for {dtype}{list(shape)}", next_step="use smaller arrays"
            ) from fault

    def view(
        self, root: Any, dtype: DType, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> Any:
        """A NumPy array over the memory of another."""
        item = dtype.itemsize
        flat = root.reshape(-1, order="A").view(np.uint8) if _is_dense(root) else _bytes_of(root)
        return np.ndarray(
            tuple(shape), dtype.numpy, flat, offset * item, tuple(s * item for s in strides)
        )

    def record_event(self, stream: int) -> HostEvent:
        """The present moment: everything before it is done."""
        self._streams.check(stream)
        return HostEvent(time.perf_counter_ns())

    def wait_event(self, event: HostEvent) -> None:
        """Everything before the event is done already."""

    def elapsed_ms(self, first: HostEvent, second: HostEvent) -> float:
        """Milliseconds between two events."""
        return (second.at - first.at) / 1e6


def _is_dense(array: np.ndarray[Any, Any]) -> bool:
    return array.flags.c_contiguous or array.flags.f_contiguous


def _bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes from an array's lowest element to its highest, gaps included."""
    item = array.itemsize
    low, high = byte_span(array.shape, [step // item for step in array.strides], item)
    lowest = array[tuple(slice(None, None, -1 if s < 0 else None) for s in array.strides)]
    first = lowest[tuple(slice(0, 1) for _ in array.shape)].reshape(-1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (high - low,), (1,))
