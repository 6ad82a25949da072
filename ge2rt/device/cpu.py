"""The CPU device: PTX translated to native code, its blocks spread over the thread pool.

A launch is done when it returns. Any host address is a valid device pointer.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from ge2rt.base import switches
from ge2rt.base.errors import DeviceError, InvalidArgumentError, OutOfMemoryError
from ge2rt.base.locks import ForkLock
from ge2rt.build.store import ObjectStore as CacheStore
from ge2rt.build.store import default_store
from ge2rt.device import objects
from ge2rt.device.api import Dim3, Function, LaunchShape, Module, NativeEntry
from ge2rt.device.host import HostDevice
from ge2rt.device.limits import arch_number, check_shape, virtual_gpu
from ge2rt.device.messages import MAX_FAULTS, Log
from ge2rt.device.objects import ObjectStore
from ge2rt.device.pool import AlignedBytes, Pool, get_pool, thread_count
from ge2rt.device.pool_ir import ABORT_MEMORY, CONTEXT, CONTEXT_BYTES
from ge2rt.device.tiers import CodeUser, NativeCode, Upgrades
from ge2rt.device.translate import EntryFacts, Translation, Translator, lower_options
from ge2rt.ptx.native import (
    ABORT_ASSERT,
    ABORT_BARRIER,
    ABORT_CHECK,
    ABORT_DEADLOCK,
    ABORT_HOST,
    ABORT_STACK,
    ABORT_TRAP,
    ARENA_ALIGN,
    NativeKernel,
)

# Up to this much expected work a launch from native code may keep the interpreter lock.
_HOLD_LOCK_US = 10.0

# The least kernel there is, for warming up.
_NOTHING = b""".version 7.0
.target sm_75
.address_size 64
.visible .entry nothing() { ret; }
"""

_FAULTS = {
    ABORT_TRAP: "the kernel executed a trap instruction",
    ABORT_ASSERT: "a device-side assert failed",
    ABORT_CHECK: "a memory, race, init or sync check failed",
    ABORT_BARRIER: "threads of one warp wait at different barriers",
    ABORT_DEADLOCK: "all threads of a block wait at barriers that no other thread will come to",
    ABORT_STACK: "stack overflow: functions call each other too deeply, or alloca takes too much",
}
_NEXT = {
    ABORT_DEADLOCK: "let all threads come to the barrier; in functions that call themselves or are "
    "called by pointers, all lanes of a warp together",
}


class CpuLauncher(CodeUser):
    """One kernel with one launch shape. Call it with the packed arguments and a stream.

    ``native`` is for callers in native code: status 0 is done; anything else is for ``fault``.
    """

    def __init__(
        self, name: str, code: NativeCode, shape: LaunchShape, globals_address: int,
        device: CpuDevice, keep: object,
    ) -> None:  # fmt: skip
        self._device = device
        self._pool = device.pool
        self._streams = device.stream_handles
        self._keep = (code, keep)
        self.name = name
        self.kernel = code.kernel
        self.shape = shape
        self._param_bytes = code.kernel.param_bytes
        self._log = Log(code.kernel.log_bytes, self._pool.attend_address, shape.grid, shape.block)
        self._memory = _context(code, shape, globals_address, self._pool, self._log.address)
        code.use(self)
        self.native: NativeEntry | None = NativeEntry(
            self._pool.entry_address, self._memory.address,
            estimate=self._memory.address + CONTEXT["ESTIMATE"],
            limit=int(_HOLD_LOCK_US * self._pool.ticks_per_us),
        )  # fmt: skip
        if code.kernel.alone:
            self.native = None
        self._run: Callable[[bytes], int] = partial(self._pool.launch, self._memory.address)
        self._one_at_a_time = ForkLock()

    def __call__(self, args: bytes, stream: int = 0) -> None:
        """Run the kernel; DeviceError where it faulted, KeyboardInterrupt on Ctrl-C."""
        if stream not in self._streams:
            raise InvalidArgumentError(
                "not a stream of this device", expected="0 or a stream made by ge2rt on it",
                got=repr(stream), argument="stream", kernel=self.name,
            )  # fmt: skip
        if len(args) < self._param_bytes:
            raise InvalidArgumentError(
                "the packed arguments are too short", kernel=self.name,
                expected=f"{self._param_bytes} bytes", got=str(len(args)),
                next_step="the kernel's parameters must be the call's; in a template {{ params }}",
            )  # fmt: skip
        if self._pool.interrupted:
            self.fault(ABORT_HOST)
        if self.native is not None:
            status = self._run(args)
            if status:
                self.fault(status)
            return
        with self._one_at_a_time:
            status = self._run(args)
            faults = self._log.finish(self.name)
        if status:
            self.fault(status, faults)

    @property
    def expected_us(self) -> float:
        """Microseconds of work a launch is expected to take on one thread; -1 before the first."""
        ticks = self._memory.get(CONTEXT["ESTIMATE"], ctypes.c_int64)
        return ticks / self._pool.ticks_per_us if ticks >= 0 else -1.0

    def adopt(self, address: int) -> None:
        """Run the code at ``address`` from the next launch on."""
        self._memory.put(CONTEXT["KERNEL"], ctypes.c_int64, address)

    def fault(self, status: int, told: Sequence[str] | None = None) -> NoReturn:
        """Raise what a status other than 0 means; ``told`` is what the kernel left to say."""
        if status == ABORT_HOST:
            raise self._pool.take_interrupt()
        if status == ABORT_MEMORY:
            raise OutOfMemoryError(
                "no host memory for a block's shared and local memory", kernel=self.name,
                got=f"{self.kernel.arena_bytes + self.shape.shared} bytes a thread",
            )  # fmt: skip
        raise DeviceError(
            _FAULTS.get(status, f"the kernel stopped with status {status}") + _lines(
                self._log.finish(self.name) if told is None else told
            ),
            kernel=self.name,
            next_step=_NEXT.get(status, "run again with GE2RT_CHECK=all on the cpu device"),
        )  # fmt: skip


def _lines(faults: Sequence[str]) -> str:
    """What threads said before they stopped, as far as it is worth reading."""
    more = f"\n  and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
    return "".join(f"\n  {fault}" for fault in faults[:MAX_FAULTS]) + more


def _context(
    code: NativeCode, shape: LaunchShape, globals_address: int, pool: Pool, log: int
) -> AlignedBytes:
    memory = AlignedBytes(CONTEXT_BYTES)
    dynamic = (shape.shared + ARENA_ALIGN - 1) & -ARENA_ALIGN
    wide = {
        "KERNEL": code.address, "POOL": pool.address, "GLOBALS": globals_address, "LOG": log,
        "BLOCKS": shape.grid[0] * shape.grid[1] * shape.grid[2],
        "ARENA": code.kernel.arena_bytes + dynamic + ARENA_ALIGN, "ESTIMATE": -1,
    }  # fmt: skip
    for name, value in wide.items():
        memory.put(CONTEXT[name], ctypes.c_int64, value)
    for axis, extent in enumerate(shape.grid):
        memory.put(CONTEXT["GRID"] + 4 * axis, ctypes.c_uint32, extent)
    memory.put(CONTEXT["SHARED"], ctypes.c_int32, shape.shared)
    return memory


class CpuFunction(Function):
    """A kernel; lowered for each block shape that it is launched with."""

    def __init__(self, module: CpuModule, name: str, facts: EntryFacts) -> None:
        self.name = name
        self.param_layout = facts.param_layout
        self._facts = facts
        self._module = module

    def launcher(self, shape: LaunchShape) -> CpuLauncher:
        """Check ``shape`` against the device's limits and prepare it for repeated launches."""
        check_shape(self._module.device.props, self._facts.needs, shape)
        module = self._module
        code = module.code(self.name, shape.block)
        given = (self.name, code, shape, module.globals_address, module.device, self)
        if code.kernel.checked is None:
            return CpuLauncher(*given)
        from ge2rt.device.checks import CheckedLauncher  # late: for instrumented kernels only

        return CheckedLauncher(*given, line_map=module.line_map, variables=module.variables())

    def attributes(self) -> dict[str, int]:
        """Static shared memory, and the most threads a block may have."""
        needs = self._facts.needs
        most = self._module.device.props.max_threads
        return {
            "shared_size_bytes": needs.shared,
            "max_threads_per_block": min(needs.max_threads or most, most),
        }

    def native(self, block: Dim3) -> NativeKernel:
        """The lowered form for a block shape: notes, sizes, and LLVM IR unless it was cached."""
        return self._module.code(self.name, block).kernel


class CpuModule(Module):
    """A loaded PTX module, with its own copy of the module's variables."""

    def __init__(
        self, device: CpuDevice, translation: Translation, key: str, line_map: object = None
    ) -> None:
        self.device = device
        self.line_map = line_map
        self.key = key
        self._translation = translation
        self._facts = translation.facts()
        self._refuse_newer()
        self._code: dict[object, NativeCode] = {}
        self._lock = ForkLock()
        self._globals = AlignedBytes(max(len(self._facts.image.image), 1))
        self.globals_address = self._globals.address
        self._fill_globals()

    def _refuse_newer(self) -> None:
        arch = self.device.props.arch
        if arch_number(self._facts.target) > arch_number(arch):
            raise InvalidArgumentError(
                "the PTX needs a newer device", expected=f".target {arch} or older",
                got=self._facts.target, detail="cuda",
                next_step=f"set GE2RT_CPU_ARCH={self._facts.target} or compile for {arch}",
            )  # fmt: skip

    def _fill_globals(self) -> None:
        image = self._facts.image
        ctypes.memmove(self.globals_address, image.image, len(image.image))
        for offset, target in image.relocations:
            pointer = struct.pack("<Q", self.globals_address + target)
            ctypes.memmove(self.globals_address + offset, pointer, 8)

    def function(self, name: str) -> CpuFunction:
        """The kernel ``name``; InvalidArgumentError lists the kernels there are."""
        facts = self._facts.entries.get(name)
        if facts is None:
            raise InvalidArgumentError(
                "no such kernel in the module", kernel=name,
                expected=", ".join(self._facts.entries) or "none: the module has no kernels",
            )  # fmt: skip
        return CpuFunction(self, name, facts)

    def global_address(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a ``__device__`` or ``__constant__`` variable."""
        for slot in self._facts.image.slots:
            if slot.name == name:
                return self.globals_address + slot.offset, slot.nbytes
        raise InvalidArgumentError(
            f"no variable {name!r} in the module",
            expected=", ".join(slot.name for slot in self._facts.image.slots) or "none",
        )

    def variables(self) -> list[tuple[str, int, int]]:
        """(name, first byte, end) of the module's variables."""
        start = self.globals_address
        return [(s.name, start + s.offset, start + s.offset + s.nbytes)
                for s in self._facts.image.slots]  # fmt: skip

    def code(self, name: str, block: Dim3) -> NativeCode:
        """The native code of a kernel for a block shape, made and linked once.

        That of a large kernel is the quick tier at first.
        """
        options = lower_options(block)
        with self._lock:
            found = self._code.get((name, options))
            if found is None:
                kernel, finish = self._translation.kernel(name, options)
                found = self._code[name, options] = NativeCode(kernel)
                if finish is not None:
                    self.device.upgrades.add(found, finish)
            return found


class CpuDevice(HostDevice):
    """The host's CPU as a virtual GPU of ``GE2RT_CPU_ARCH``."""

    def __init__(
        self, *, store: ObjectStore | None = None,
        translator: Callable[[], Translator] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        try:
            self.props = virtual_gpu(switches.get("GE2RT_CPU_ARCH"), thread_count())
        except InvalidArgumentError as fault:
            raise fault.about(argument="GE2RT_CPU_ARCH") from None
        self._store = store
        self._translator = translator
        self.upgrades = Upgrades()

    @property
    def store(self) -> ObjectStore:
        """Where native objects are kept: the one given, else the compile cache."""
        return self._store if self._store is not None else CacheStore(default_store())

    @property
    def pool(self) -> Pool:
        """The thread pool, made with the first launcher."""
        return get_pool(self.store)

    @property
    def stream_handles(self) -> set[int]:
        """Valid streams, 0 included; the same set for the device's whole life."""
        return self._streams.handles

    def load(self, binary: bytes, kind: str, key: str, line_map: object = None) -> CpuModule:
        """Load PTX text; ``key`` names it in messages, ``line_map`` leads to template lines."""
        if kind != "ptx":
            raise InvalidArgumentError(
                "the cpu device loads PTX text", expected="ptx", got=kind, detail="device"
            )
        return CpuModule(self, Translation(binary, self.store, self._translator), key, line_map)

    def settle(self) -> None:
        """Wait until the full code of all kernels is in use."""
        self.upgrades.wait()

    def warmup(self) -> None:
        """Import the translator and LLVM, run both once, and make the thread pool."""
        _ = self.pool
        CpuModule(self, Translation(_NOTHING, objects.MemoryStore()), "warmup").code(
            "nothing", (32, 1, 1)
        )
