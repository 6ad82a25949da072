"""What a device is: Device, Memory, Module, Function. A device from outside implements these four.

Addresses are plain ints (device pointers). ``stream`` is an int: 0 is the default stream, else a
``cudaStream_t`` on cuda or the ``handle`` of a ge2rt stream on cpu.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ge2rt.base.dtypes import DType
from ge2rt.base.errors import UnsupportedError
from ge2rt.device.array import DeviceArray

Dim3: TypeAlias = tuple[int, int, int]

# (packed arguments, stream) -> None; raises DeviceError. Made once per plan, called per launch.
Launcher: TypeAlias = Callable[[bytes, int], None]


@dataclass(frozen=True)
class DeviceProps:
    """What kernels may ask of a device (``requires:`` in kernels.yaml) and what limits a launch."""

    name: str
    kind: str  # "cpu", "cuda", "null", ...
    arch: str  # "sm_80"
    cc: float  # 8.0
    tensor_cores: bool
    shared_static: int = 48 * 1024
    shared_optin: int = 163 * 1024
    max_threads: int = 1024
    max_block: Dim3 = (1024, 1024, 64)
    max_grid: Dim3 = (2**31 - 1, 65535, 65535)
    registers: int = 65536
    multiprocessors: int = 1
    binary_kind: str = "ptx"  # what Module loading wants: "ptx" or "cubin"


@dataclass(frozen=True)
class LaunchShape:
    """Grid, block and dynamic shared memory of one launch; ``cooperative``: all blocks at once."""

    grid: Dim3
    block: Dim3
    shared: int = 0
    cooperative: bool = False


@dataclass(frozen=True)
class NativeEntry:
    """For the launch stub: call ``address(context, packed_args)``; it returns 0 or a status code.

    A C function ``int32_t (*)(void *context, const void *args)``; both stay valid as long as the
    launcher object that carries this record as ``launcher.native`` is alive. A launch whose
    expected
    ticks (an int64 at ``estimate``; negative: unknown) are below ``limit`` may be made without
    giving up the interpreter lock.
    """

    address: int
    context: int
    estimate: int = 0
    limit: int = 0


class Memory(abc.ABC):
    """Device memory by address."""

    @abc.abstractmethod
    def allocate(self, nbytes: int) -> int:
        """Address of fresh memory, 256-byte aligned; 0 bytes gives 0. OutOfMemoryError if none."""

    @abc.abstractmethod
    def free(self, address: int) -> None:
        """Give memory back; 0 is allowed, an unknown address is an InvalidArgumentError."""

    @abc.abstractmethod
    def write(self, address: int, data: bytes | memoryview) -> None:
        """Copy host bytes to the device; done when it returns."""

    @abc.abstractmethod
    def read(self, address: int, nbytes: int) -> bytes:
        """Copy device bytes to the host, after all work that was enqueued before."""

    @abc.abstractmethod
    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set bytes."""


class Function(abc.ABC):
    """One kernel of a loaded module."""

    name: str
    param_layout: tuple[tuple[str, int, int], ...]  # (PTX type, offset, bytes) a parameter

    @abc.abstractmethod
    def launcher(self, shape: LaunchShape) -> Launcher:
        """Check ``shape`` against the device's limits and prepare it for repeated launches.

        Raises InvalidArgumentError (limits), UnsupportedError (an instruction that is not there).
        """

    def attributes(self) -> dict[str, int]:
        """What is known of the kernel, by CuPy's names: ``shared_size_bytes``, ``num_regs``..."""
        return {}


class Module(abc.ABC):
    """A loaded binary."""

    @abc.abstractmethod
    def function(self, name: str) -> Function:
        """The kernel ``name``; InvalidArgumentError lists the kernels there are."""

    @abc.abstractmethod
    def global_address(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a ``__device__`` or ``__constant__`` variable."""


class Device(abc.ABC):
    """A place where kernels run."""

    props: DeviceProps
    index: int
    memory: Memory

    @property
    def name(self) -> str:
        """``cpu``, ``cuda:0``..."""
        return self.props.kind if self.props.kind != "cuda" else f"cuda:{self.index}"

    @abc.abstractmethod
    def load(self, binary: bytes, kind: str, key: str, line_map: object = None) -> Module:
        """Load PTX text or a cubin (``kind``); ``key`` names it in caches and messages."""

    @abc.abstractmethod
    def create_stream(self) -> int:
        """A new stream's handle (never 0)."""

    @abc.abstractmethod
    def destroy_stream(self, stream: int) -> None:
        """Forget a stream made here."""

    @abc.abstractmethod
    def check_stream(self, stream: int) -> None:
        """InvalidArgumentError for a handle that cannot be a stream of this device."""

    @abc.abstractmethod
    def synchronize(self, stream: int | None = None) -> None:
        """Wait for one stream or all; raises the DeviceError of a faulted launch."""

    # -- what every device gets, and may do better ---------------------------------------------
    def accepts(self, home: str) -> bool:
        """Whether memory of the device named ``home`` can be used by kernels here."""
        return home in (self.name, self.props.kind)

    def settle(self) -> None:
        """Wait for background work that only makes further launches quicker."""
        return

    def warmup(self) -> None:
        """Pay one-time costs now (threads, context, libraries)."""
        return

    def empty(self, shape: Sequence[int], dtype: DType, like: Any = None) -> Any:
        """A fresh array on this device, of the same library as ``like`` where that is possible.

        A :class:`DeviceArray` in the device's ``memory``, unless the device has arrays of its own.
        """
        return DeviceArray.fresh(self, shape, dtype)

    def view(
        self, root: Any, dtype: DType, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> Any:
        """An array over the memory of ``root``, an array from here; strides and offset in elements.

        They stay within that memory: the caller has checked it. ``offset`` counts from the lowest
        address.
        """
        found: DeviceArray = root.view(dtype, shape, strides, offset)
        return found

    def keep_alive(self, objects: Sequence[Any], stream: int) -> None:
        """Hold ``objects`` until the work enqueued so far on ``stream`` is done.

        Nothing to do where a launch is done when it returns.
        """
        return

    def record_event(self, stream: int) -> Any:
        """A mark behind everything enqueued on ``stream``."""
        raise UnsupportedError(f"device {self.name} has no events", detail="device")

    def wait_event(self, event: Any) -> None:
        """Wait until the mark is reached."""
        raise UnsupportedError(f"device {self.name} has no events", detail="device")

    def elapsed_ms(self, first: Any, second: Any) -> float:
        """Milliseconds between two marks."""
        raise UnsupportedError(f"device {self.name} has no events", detail="device")
