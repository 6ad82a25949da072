"""The CUDA device: an NVIDIA GPU through CuPy's bindings of the driver and the runtime.

CuPy is imported with the first device of this kind, never before. Launches are asynchronous on
their stream; a fault surfaces at the next call or at ``synchronize`` and names the launches since
the last good point.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base import paths
from ge2rt.base.dtypes import DType
from ge2rt.base.errors import DeviceError, Ge2rtError, InvalidArgumentError, OutOfMemoryError
from ge2rt.base.shapes import byte_span
from ge2rt.device.api import Device, DeviceProps, Function, Launcher, LaunchShape, Memory, Module
from ge2rt.device.limits import KernelNeeds, check_shape
from ge2rt.device.pointers import torch_empty

_REMEMBERED = 32  # launches that a fault names at most
_OUT_OF_MEMORY, _NOT_FOUND, _NOT_READY = 2, 500, 600  # the same in both APIs
# Errors after which the context is lost: illegal address or instruction, assert, launch failure...
_STICKY = frozenset((700, 702, 709, 710, 714, 715, 716, 717, 718, 719))
_MAX_THREADS, _STATIC_SHARED, _MAX_DYNAMIC_SHARED = 0, 1, 8  # CU_FUNC_ATTRIBUTE_*
_PARAM_BUFFER, _PARAM_SIZE = 1, 2  # CU_LAUNCH_PARAM_*

# CuPy's name of a kernel's attribute -> CU_FUNC_ATTRIBUTE_*
_FUNCTION_ATTRIBUTES = {
    "max_threads_per_block": _MAX_THREADS, "shared_size_bytes": _STATIC_SHARED,
    "const_size_bytes": 2, "local_size_bytes": 3, "num_regs": 4, "ptx_version": 5,
    "binary_version": 6,
}  # fmt: skip

# field of DeviceProps -> cudaDevAttr
_ATTRIBUTES = {
    "max_threads": 1, "shared_static": 8, "registers": 12, "multiprocessors": 16,
    "shared_optin": 97,
}  # fmt: skip
_BLOCK_ATTRIBUTES = (2, 3, 4)
_GRID_ATTRIBUTES = (5, 6, 7)
_CC_ATTRIBUTES = (75, 76)


class _LaunchExtra(ctypes.Structure):
    """The ``extra`` array of cuLaunchKernel: parameters as one packed buffer."""

    _fields_ = (
        ("buffer_key", ctypes.c_void_p),
        ("buffer", ctypes.c_char_p),
        ("size_key", ctypes.c_void_p),
        ("size", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class _Cupy:
    """The parts of CuPy in use, and the process that set CUDA up."""

    root: Any
    driver: Any
    runtime: Any
    module: Any
    faults: tuple[type[Exception], ...]
    pid: int


class _Thread(threading.local):
    ready = False  # whether this thread has the GPU's context


_loaded: list[_Cupy] = []


def _cupy() -> _Cupy:
    if not _loaded:
        _loaded.append(_import_cupy())
    if _loaded[0].pid != os.getpid():
        raise DeviceError(
            "CUDA cannot be used in a forked process", detail="cuda",
            next_step='start processes with multiprocessing.get_context("spawn")',
        )  # fmt: skip
    return _loaded[0]


def _import_cupy() -> _Cupy:
    """Import CuPy; it writes to its cache folder, so give it one where HOME cannot be written."""
    home = os.path.expanduser("~")
    if "CUPY_CACHE_DIR" not in os.environ and not os.access(home, os.W_OK):
        os.environ["CUPY_CACHE_DIR"] = str(_writable_cache() / "cupy")
    try:
        import cupy
        import cupy.cuda
    except (ImportError, OSError, RuntimeError) as fault:
        raise DeviceError(
            f"CuPy does not import: {fault}", detail="cuda",
            next_step='pip install "ge2rt[cuda12]" (or cuda13), or use device "cpu"',
        ) from fault  # fmt: skip
    cuda = cupy.cuda
    return _Cupy(
        root=cupy, driver=cuda.driver, runtime=cuda.runtime, module=cuda.function.Module,
        faults=(cuda.driver.CUDADriverError, cuda.runtime.CUDARuntimeError), pid=os.getpid(),
    )  # fmt: skip


def _writable_cache() -> Any:
    folder = paths.cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return type(folder)(tempfile.mkdtemp(prefix="ge2rt-"))
    return folder


def clear() -> None:
    """Forget CuPy: the next device imports it again."""
    _loaded.clear()


class CudaMemory(Memory):
    """Plain device memory of one GPU."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._live: dict[int, int] = {}

    def allocate(self, nbytes: int) -> int:
        """Address of fresh memory, aligned to 256 bytes; 0 bytes gives 0."""
        if nbytes == 0:
            return 0
        with self._device.current() as cupy:
            address = int(cupy.runtime.malloc(nbytes))
        self._live[address] = nbytes
        return address

    def free(self, address: int) -> None:
        """Give memory back; 0 is allowed, an unknown address is an InvalidArgumentError."""
        if address == 0:
            return
        if self._live.pop(address, None) is None:
            raise InvalidArgumentError(
                "address was not allocated on this device, or is free already", got=hex(address)
            )
        with self._device.current() as cupy:
            cupy.runtime.free(address)

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Copy host bytes to the device; done when it returns."""
        source = np.frombuffer(data, np.uint8)
        with self._device.current() as cupy:
            here = source.__array_interface__["data"][0]
            cupy.runtime.memcpy(address, here, source.size, cupy.runtime.memcpyHostToDevice)

    def read(self, address: int, nbytes: int) -> bytes:
        """Copy device bytes to the host, after all work that was enqueued before."""
        target = ctypes.create_string_buffer(max(nbytes, 1))
        self._device.synchronize()
        with self._device.current() as cupy:
            here = ctypes.addressof(target)
            cupy.runtime.memcpy(here, address, nbytes, cupy.runtime.memcpyDeviceToHost)
        return target.raw[:nbytes]

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set bytes."""
        with self._device.current() as cupy:
            cupy.runtime.memset(address, value, nbytes)


class CudaFunction(Function):
    """A kernel on the GPU."""

    def __init__(self, module: CudaModule, name: str, handle: Any) -> None:
        self.name = name
        self.param_layout: tuple[tuple[str, int, int], ...] = ()  # a cubin does not tell
        self._module = module
        self._handle = handle

    def launcher(self, shape: LaunchShape) -> Launcher:
        """Check ``shape`` against the limits; opt in to large shared memory if needed."""
        device = self._module.device
        with device.current() as cupy:
            driver, pointer = cupy.driver, int(self._handle.ptr)
            needs = KernelNeeds(
                self.name,
                shared=int(driver.funcGetAttribute(_STATIC_SHARED, pointer)),
                max_threads=int(driver.funcGetAttribute(_MAX_THREADS, pointer)),
            )
            check_shape(device.props, needs, shape)
            if needs.shared + shape.shared > device.props.shared_static:
                driver.funcSetAttribute(pointer, _MAX_DYNAMIC_SHARED, shape.shared)
        return device.make_launcher(self.name, pointer, shape, self)

    def attributes(self) -> dict[str, int]:
        """What the driver tells of the kernel."""
        with self._module.device.current() as cupy:
            ask, pointer = cupy.driver.funcGetAttribute, int(self._handle.ptr)
            return {name: int(ask(n, pointer)) for name, n in _FUNCTION_ATTRIBUTES.items()}


class CudaModule(Module):
    """A cubin or PTX, loaded by the driver."""

    def __init__(self, device: CudaDevice, binary: bytes, key: str) -> None:
        self.device = device
        self.key = key
        with device.current() as cupy:
            self._module = cupy.module()
            self._module.load(binary)

    def function(self, name: str) -> Function:
        """The kernel ``name``; InvalidArgumentError where there is none."""
        handle = self._find(lambda: self._module.get_function(name))
        if handle is None:
            raise InvalidArgumentError("no such kernel in the module", kernel=name)
        return CudaFunction(self, name, handle)

    def global_address(self, name: str) -> tuple[int, int]:
        """(address, 0) of a variable: the binding does not tell its size."""
        found = self._find(lambda: self._module.get_global_var(name))
        if found is None:
            raise InvalidArgumentError(f"no variable {name!r} in the module")
        return int(getattr(found, "ptr", found)), 0

    def _find(self, ask: Callable[[], Any]) -> Any:
        with self.device.current() as cupy:
            try:
                return ask()
            except cupy.faults as fault:
                if _status(fault) != _NOT_FOUND:
                    raise
                return None


def _status(fault: Exception) -> int:
    return int(getattr(fault, "status", 0))


class CudaDevice(Device):
    """GPU ``index`` of this machine."""

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self._recent: deque[str] = deque(maxlen=_REMEMBERED)
        self._held: dict[int, list[tuple[int, Sequence[Any]]]] = {}
        self._streams: set[int] = set()
        self._lost = ""
        self._thread = _Thread()
        with self.current() as cupy:
            self.props = _props(cupy, index)
        self.memory = CudaMemory(self)

    @contextmanager
    def current(self) -> Iterator[_Cupy]:
        """CuPy's parts with this GPU as the current one; CUDA's errors become DeviceError."""
        cupy = _cupy()
        if self._lost:
            raise DeviceError(
                f"device {self.name} was lost by an earlier fault: {self._lost}", detail="cuda",
                next_step="restart the process",
            )  # fmt: skip
        try:
            before = cupy.runtime.getDevice()
            if before != self.index or not self._thread.ready:
                cupy.runtime.setDevice(self.index)
                cupy.runtime.free(0)  # makes the primary context current in this thread
                self._thread.ready = True
            try:
                yield cupy
            finally:
                if before != self.index:
                    cupy.runtime.setDevice(before)
        except cupy.faults as fault:
            raise self._error(fault) from fault

    def _error(self, fault: Exception) -> Ge2rtError:
        status = _status(fault)
        if status == _OUT_OF_MEMORY:
            return OutOfMemoryError(
                f"out of memory on {self.name}", next_step="free buffers or use smaller ones"
            )
        if status not in _STICKY:
            return DeviceError(str(fault), detail="cuda", where=self.name)
        self._lost = str(fault)
        since = ", ".join(self._recent) or "none by ge2rt"
        return DeviceError(
            f"{fault}; launches since the last good point: {since}", detail="cuda",
            where=self.name, next_step="restart the process; run the kernel on the cpu device with"
            " GE2RT_CHECK=memory to find the fault",
        )  # fmt: skip

    def make_launcher(self, name: str, function: int, shape: LaunchShape, keep: object) -> Launcher:
        """The callable of one prepared launch."""
        sizes: dict[int, ctypes.c_size_t] = {}
        numbers = (function, *shape.grid, *shape.block, shape.shared)
        recent, thread, index, parts = self._recent, self._thread, self.index, _cupy()
        enqueue, get_device = parts.driver.launchKernel, parts.runtime.getDevice

        def launch(args: bytes, stream: int = 0) -> None:
            size = sizes.get(len(args))
            if size is None:
                size = sizes[len(args)] = ctypes.c_size_t(len(args))
            extra = _LaunchExtra(_PARAM_BUFFER, args, _PARAM_SIZE, ctypes.addressof(size), None)
            usual = thread.ready and not self._lost and parts.pid == os.getpid()
            if not usual or get_device() != index:
                with self.current():
                    recent.append(name)
                    enqueue(*numbers, stream, 0, ctypes.addressof(extra))
                return
            recent.append(name)
            try:
                enqueue(*numbers, stream, 0, ctypes.addressof(extra))
            except parts.faults as fault:
                raise self._error(fault) from fault

        launch.__dict__["keep"] = keep
        return launch

    def load(self, binary: bytes, kind: str, key: str, line_map: object = None) -> Module:
        """Load a cubin, or PTX text that the driver compiles."""
        if kind not in ("cubin", "ptx"):
            raise InvalidArgumentError(
                "a CUDA device loads a cubin or PTX", expected="cubin or ptx", got=kind
            )
        if kind == "ptx" and not binary.endswith(b"\0"):
            binary += b"\0"
        return CudaModule(self, binary, key)

    def create_stream(self) -> int:
        """A new non-blocking stream."""
        with self.current() as cupy:
            stream = int(cupy.runtime.streamCreateWithFlags(1))
        self._streams.add(stream)
        return stream

    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream made here."""
        if stream not in self._streams:
            raise InvalidArgumentError("not a stream of this device", got=repr(stream))
        self._streams.discard(stream)
        self._held.pop(stream, None)
        with self.current() as cupy:
            cupy.runtime.streamDestroy(stream)

    def check_stream(self, stream: int) -> None:
        """Refuse what cannot be a stream; any other int may be a ``cudaStream_t`` of the caller."""
        if isinstance(stream, bool) or not isinstance(stream, int) or stream < 0:
            raise InvalidArgumentError(
                "not a stream", expected="0 or a cudaStream_t as int", got=repr(stream),
                argument="stream",
            )  # fmt: skip

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for one stream or all; raises the DeviceError of a faulted launch."""
        with self.current() as cupy:
            if stream is None:
                cupy.runtime.deviceSynchronize()
            else:
                cupy.runtime.streamSynchronize(stream)
        if stream is None:
            self._recent.clear()
            self._release()
        else:
            self._release(stream)

    def warmup(self) -> None:
        """Make the context."""
        self.synchronize()

    def empty(self, shape: Sequence[int], dtype: DType, like: Any = None) -> Any:
        """A fresh array: Torch where ``like`` is a Torch tensor, else CuPy."""
        with self.current() as cupy:
            fresh = torch_empty(shape, dtype, like)
            if fresh is not None:
                return fresh
            return cupy.root.empty(tuple(shape), dtype.numpy)

    def view(
        self, root: Any, dtype: DType, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> Any:
        """A CuPy array over the memory of another."""
        item = dtype.itemsize
        low, _ = byte_span(root.shape, [s // item for s in root.strides], item)
        with self.current() as cupy:
            return cupy.root.ndarray(
                tuple(shape), dtype.numpy, root.data + (low + offset * item),
                tuple(s * item for s in strides),
            )  # fmt: skip

    def keep_alive(self, objects: Sequence[Any], stream: int) -> None:
        """Hold ``objects`` until what is enqueued on ``stream`` now is done."""
        held = self._held.setdefault(stream, [])
        with self.current() as cupy:
            while held and self._reached(cupy, held[0][0]):
                cupy.runtime.eventDestroy(held.pop(0)[0])
            event = int(cupy.runtime.eventCreateWithFlags(2))  # without timing
            cupy.runtime.eventRecord(event, stream)
        held.append((event, tuple(objects)))

    def record_event(self, stream: int) -> int:
        """A CUDA event behind everything enqueued on ``stream``."""
        with self.current() as cupy:
            event = int(cupy.runtime.eventCreate())
            cupy.runtime.eventRecord(event, stream)
        return event

    def wait_event(self, event: int) -> None:
        """Wait until the event is reached."""
        with self.current() as cupy:
            cupy.runtime.eventSynchronize(event)

    def elapsed_ms(self, first: int, second: int) -> float:
        """Milliseconds between two events; waits for the second."""
        with self.current() as cupy:
            cupy.runtime.eventSynchronize(second)
            return float(cupy.runtime.eventElapsedTime(first, second))

    def _reached(self, cupy: _Cupy, event: int) -> bool:
        query: Callable[[int], Any] = cupy.runtime.eventQuery
        try:
            return not query(event)
        except cupy.faults as fault:
            if _status(fault) == _NOT_READY:
                return False
            raise

    def _release(self, stream: int | None = None) -> None:
        streams = list(self._held) if stream is None else [stream]
        with self.current() as cupy:
            for one in streams:
                for event, _ in self._held.pop(one, ()):
                    cupy.runtime.eventDestroy(event)


def _props(cupy: _Cupy, index: int) -> DeviceProps:
    def ask(attribute: int) -> int:
        return int(cupy.runtime.deviceGetAttribute(attribute, index))

    major, minor = (ask(attribute) for attribute in _CC_ATTRIBUTES)
    block_x, block_y, block_z = (ask(attribute) for attribute in _BLOCK_ATTRIBUTES)
    grid_x, grid_y, grid_z = (ask(attribute) for attribute in _GRID_ATTRIBUTES)
    name = cupy.runtime.getDeviceProperties(index)["name"]
    return DeviceProps(
        name=name.decode() if isinstance(name, bytes) else str(name), kind="cuda",
        arch=f"sm_{major}{minor}", cc=major + minor / 10, tensor_cores=major >= 7,
        max_block=(block_x, block_y, block_z), max_grid=(grid_x, grid_y, grid_z),
        binary_kind="cubin", **{name: ask(number) for name, number in _ATTRIBUTES.items()},
    )  # fmt: skip
