"""A program as a CUDA graph: one launch for all steps.

A graph holds addresses, so it works on memory of its own: inputs are copied into it and outputs out
of it on the caller's stream, in order with the launch.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ge2rt.base.errors import UnsupportedError
from ge2rt.base.locks import ForkLock
from ge2rt.run.program_arrays import is_loose

if TYPE_CHECKING:
    from ge2rt.run.program import Executable


class CapturedProgram:
    """Made by :meth:`Executable.capture`. Calls from several threads take turns."""

    def __init__(self, executable: Executable) -> None:
        device: Any = executable.device
        if device.props.kind != "cuda":
            raise UnsupportedError(
                f"device {device.name} has no graphs to capture", expected="a cuda device",
                detail="device", next_step="run the program without capturing it",
            )  # fmt: skip
        from ge2rt.device.cuda_graph import CudaGraph, copy_async  # late: cuda only

        self._executable = executable
        self._copy = copy_async
        self._lock = ForkLock()
        self._stream = 0  # of the last launch
        self._bases = [0] * (len(executable.program.buffers) + 1)
        self._memory: list[int] = []
        weakref.finalize(self, _free, device, self._memory).atexit = False
        for slot in executable.inputs:
            low, high = slot.span()
            self._bases[slot.base] = self._allocate(high - low) - low
        for output in executable.outputs:
            self._bases[output.base] = self._allocate(output.nbytes)
        self._arena = executable.new_arena()
        if self._arena is not None:
            executable.place_temps(self._arena, self._bases)
        loose = any(is_loose(self._bases[slot.base]) for slot in executable.inputs)

        def enqueue(stream: int) -> None:
            executable.enqueue(self._bases, stream, loose=loose)

        enqueue(0)  # what libraries set up at their first call cannot be captured
        device.synchronize()
        self._reset_flags()
        self.graph = CudaGraph(device, enqueue)
        weakref.finalize(self, self.graph.close).atexit = False

    def run(self, arrays: Sequence[Any], stream: int = 0) -> list[Any]:
        """Like :meth:`Executable.run`, by one launch."""
        executable = self._executable
        device: Any = executable.device
        bases = [0] * len(self._bases)
        held, _ = executable.place_inputs(arrays, bases)
        outputs = executable.place_outputs(arrays[0] if len(arrays) else None, bases)
        into, out_of = self._copies(bases)
        with self._lock:
            if stream != self._stream:
                device.synchronize(self._stream)  # the memory is in use until then
                self._stream = stream
            self._copy(device, into, stream)
            self.graph.launch(stream)
            self._copy(device, out_of, stream)
            if self._arena is not None:
                executable.check_flags(self._arena, stream, arrays)
        device.keep_alive((*held, *outputs, self), stream)
        return outputs

    def _copies(
        self, bases: Sequence[int]
    ) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
        """(to, from, bytes) of the inputs and of the outputs."""
        into = []
        for slot in self._executable.inputs:
            low, high = slot.span()
            into.append((self._bases[slot.base] + low, bases[slot.base] + low, high - low))
        out_of = [
            (bases[slot.base], self._bases[slot.base], slot.nbytes)
            for slot in self._executable.outputs
        ]
        return into, out_of

    def _allocate(self, nbytes: int) -> int:
        memory = self._executable.device.memory
        address = memory.allocate(max(nbytes, 1))
        memory.fill(address, 0, nbytes)  # 0 is an index inside of any array
        self._memory.append(address)
        return address

    def _reset_flags(self) -> None:
        if self._arena is not None:
            self._executable.reset_flags(self._arena)


def _free(device: Any, memory: Sequence[int]) -> None:
    for address in memory:
        device.memory.free(address)
