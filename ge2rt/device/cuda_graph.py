"""CUDA graphs: what is enqueued once on a stream, launched again as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ge2rt.device.cuda import CudaDevice

_RELAXED = 2  # cudaStreamCaptureModeRelaxed: cuBLAS may allocate meanwhile
_DEVICE_TO_DEVICE = 3


class CudaGraph:
    """The work that ``enqueue(stream)`` enqueues, captured on a stream of its own."""

    def __init__(self, device: CudaDevice, enqueue: Callable[[int], None]) -> None:
        self._device = device
        stream = device.create_stream()
        try:
            self._exec = self._capture(stream, enqueue)
        finally:
            device.destroy_stream(stream)

    def _capture(self, stream: int, enqueue: Callable[[int], None]) -> int:
        with self._device.current() as cupy:
            cupy.runtime.streamBeginCapture(stream, _RELAXED)
            try:
                enqueue(stream)
            except BaseException:
                self._abandon(stream)
                raise
            graph = int(cupy.runtime.streamEndCapture(stream))
            try:
                return int(cupy.runtime.graphInstantiate(graph))
            finally:
                cupy.runtime.graphDestroy(graph)

    def _abandon(self, stream: int) -> None:
        """End a capture that failed; what it held so far is of no use."""
        with self._device.current() as cupy:
            try:
                cupy.runtime.graphDestroy(cupy.runtime.streamEndCapture(stream))
            except cupy.faults:
                return  # CUDA has ended it already

    def launch(self, stream: int = 0) -> None:
        """Enqueue all of it."""
        with self._device.current() as cupy:
            cupy.runtime.graphLaunch(self._exec, stream)

    def close(self) -> None:
        """Destroy the graph."""
        with self._device.current() as cupy:
            cupy.runtime.graphExecDestroy(self._exec)


def copy_async(device: CudaDevice, copies: Sequence[tuple[int, int, int]], stream: int) -> None:
    """Enqueue copies within the device: (to, from, bytes) each."""
    with device.current() as cupy:
        for to, at, nbytes in copies:
            if nbytes:
                cupy.runtime.memcpyAsync(to, at, nbytes, _DEVICE_TO_DEVICE, stream)
