"""A recording stand-in for the parts of CuPy that ge2rt.device.cuda uses.

Device memory is host memory; ``log`` holds what was asked of the driver, in order.
"""

from __future__ import annotations

import ctypes
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ATTRIBUTES = {
    1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535, 8: 49152, 12: 65536,
    16: 132, 75: 9, 76: 0, 97: 232448,
}  # fmt: skip


class CUDADriverError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"CUDA_ERROR {status}")


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"cudaError {status}")


@dataclass
class Launch:
    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    args: bytes
    device: int


@dataclass
class FakeCupy:
    devices: int = 2
    static_shared: int = 1024
    max_threads: int = 1024
    memory_limit: int = 1 << 30
    log: list[Any] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    fail: dict[str, int] = field(default_factory=dict)  # call -> status to fail with
    device: int = 0
    buffers: dict[int, Any] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)  # events that are not reached
    handles: int = 1000
    captured: int = 0  # launches that were made before the capture began

    def check(self, name: str, kind: type[Exception]) -> None:
        if name in self.fail:
            raise kind(self.fail[name])

    def fresh(self) -> int:
        self.handles += 1
        return self.handles

    def modules(self) -> dict[str, types.ModuleType]:
        """What ``sys.modules`` has to hold."""
        root, cuda = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
        root.cuda = cuda
        root.empty = lambda shape, dtype: np.empty(shape, dtype)
        cuda.driver = self.driver()
        cuda.runtime = self.runtime()
        cuda.function = types.SimpleNamespace(Module=self.module_class())
        self.arrays(root, cuda)
        return {"cupy": root, "cupy.cuda": cuda}

    def arrays(self, root: Any, cuda: Any) -> None:
        """Arrays over device memory, and products of them: written down, not computed."""
        streams: list[int] = []

        class ExternalStream:
            def __init__(self, handle: int) -> None:
                self.handle = handle

            def __enter__(self) -> None:
                streams.append(self.handle)

            def __exit__(self, *_: object) -> None:
                streams.pop()

        def ndarray(shape: Any, dtype: Any, memory: Any, strides: Any) -> Any:
            return (memory[0] + memory[1], shape, np.dtype(dtype).name, strides)

        def matmul(a: Any, b: Any, out: Any) -> None:
            self.log.append(("matmul", a, b, out, streams[-1]))

        cuda.ExternalStream = ExternalStream
        cuda.UnownedMemory = lambda address, nbytes, owner: address
        cuda.MemoryPointer = lambda memory, offset: (memory, offset)
        root.ndarray, root.matmul = ndarray, matmul

    def module_class(self) -> type:
        fake = self

        class Module:
            def load(self, binary: bytes) -> None:
                fake.check("load", CUDADriverError)
                fake.log.append(("load", binary))

            def get_function(self, name: str) -> Any:
                if name == "missing":
                    raise CUDADriverError(500)
                return types.SimpleNamespace(ptr=77, module=self)

            def get_global_var(self, name: str) -> Any:
                if name == "missing":
                    raise CUDADriverError(500)
                return types.SimpleNamespace(ptr=4096)

        return Module

    def driver(self) -> Any:
        def launch_kernel(f: int, *rest: int) -> None:
            self.check("launch", CUDADriverError)
            *numbers, shared, stream, params, extra = rest
            words = (ctypes.c_size_t * 5).from_address(extra)
            assert (params, words[0], words[2], words[4]) == (0, 1, 2, 0)
            size = ctypes.c_size_t.from_address(words[3]).value
            args = ctypes.string_at(words[1], size)
            grid, block = tuple(numbers[:3]), tuple(numbers[3:])
            self.launches.append(Launch(f, grid, block, shared, stream, args, self.device))

        def func_get_attribute(attribute: int, function: int) -> int:
            assert function == 77
            return {0: self.max_threads, 1: self.static_shared}[attribute]

        def func_set_attribute(function: int, attribute: int, value: int) -> None:
            self.log.append(("funcSetAttribute", function, attribute, value))

        return types.SimpleNamespace(
            CUDADriverError=CUDADriverError, launchKernel=launch_kernel,
            funcGetAttribute=func_get_attribute, funcSetAttribute=func_set_attribute,
        )  # fmt: skip

    def runtime(self) -> Any:
        def malloc(nbytes: int) -> int:
            if nbytes > self.memory_limit:
                raise CUDARuntimeError(2)
            buffer = ctypes.create_string_buffer(nbytes)
            self.buffers[ctypes.addressof(buffer)] = buffer
            return ctypes.addressof(buffer)

        def free(address: int) -> None:
            self.log.append(("free", address))
            if address:
                del self.buffers[address]

        def set_device(index: int) -> None:
            self.log.append(("setDevice", index))
            self.device = index

        def synchronize(*stream: int) -> None:
            self.check("synchronize", CUDARuntimeError)
            self.log.append(("synchronize", *stream))

        def event_query(event: int) -> None:
            if event in self.pending:
                raise CUDARuntimeError(600)

        def note(name: str) -> Any:
            return lambda *args: self.log.append((name, *args))

        def copy_async(to: int, at: int, nbytes: int, kind: int, stream: int) -> None:
            self.log.append(("memcpyAsync", to, at, nbytes, kind, stream))
            ctypes.memmove(to, at, nbytes)

        def begin_capture(stream: int, mode: int) -> None:
            self.log.append(("streamBeginCapture", stream, mode))
            self.captured = len(self.launches)

        def end_capture(stream: int) -> int:
            self.log.append(("streamEndCapture", stream))
            del self.launches[self.captured :]  # they were not run
            return self.fresh()

        def instantiate(graph: int) -> int:
            self.check("graphInstantiate", CUDARuntimeError)
            self.log.append(("graphInstantiate", graph))
            return self.fresh()

        return types.SimpleNamespace(
            memcpyAsync=copy_async, streamBeginCapture=begin_capture,
            streamEndCapture=end_capture, graphInstantiate=instantiate,
            graphDestroy=note("graphDestroy"), graphLaunch=note("graphLaunch"),
            graphExecDestroy=note("graphExecDestroy"),
            CUDARuntimeError=CUDARuntimeError, memcpyHostToDevice=1, memcpyDeviceToHost=2,
            getDevice=lambda: self.device, setDevice=set_device,
            deviceGetAttribute=lambda attribute, index: ATTRIBUTES[attribute],
            getDeviceProperties=lambda index: {"name": b"Fake H100"},
            malloc=malloc, free=free,
            memcpy=lambda to, at, n, kind: ctypes.memmove(to, at, n),
            memset=lambda at, value, n: ctypes.memset(at, value, n),
            streamCreateWithFlags=lambda flags: self.fresh(), streamDestroy=note("streamDestroy"),
            streamSynchronize=synchronize, deviceSynchronize=synchronize,
            eventCreate=self.fresh, eventCreateWithFlags=lambda flags: self.fresh(),
            eventRecord=note("eventRecord"), eventDestroy=note("eventDestroy"),
            eventQuery=event_query, eventSynchronize=note("eventSynchronize"),
            eventElapsedTime=lambda first, second: float(second - first),
        )  # fmt: skip
