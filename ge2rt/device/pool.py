"""The native thread pool of the CPU device, seen from Python.

One pool a process. Launches go through ``Pool.launch(context, args)``; what a context holds is laid
out in :mod:`ge2rt.device.pool_ir`. Where no native pool can be made (Windows, macOS) Python threads
take the same tickets.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ge2rt.base import switches
from ge2rt.base.errors import UnsupportedError
from ge2rt.device import objects, pool_ir
from ge2rt.device.objects import Linked, ObjectStore
from ge2rt.device.pool_ir import CALLER_SLOTS, CONTEXT, JOB_BYTES, MAX_WORKERS, POOL

_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_SYMBOLS = ("launch", "stop", "prepare", "work", "finish", "clock", "attend")
# Microseconds. A worker that still spins pays from about 6 us of work, one that sleeps from 50 us.
_THRESHOLDS = {
    "T_SPIN": 8, "T_SLEEP": 55, "T_RECENT": 5, "T_WORKER": 10, "T_CHUNK": 100, "T_GROW": 20,
    "T_POLL": 50_000,
}  # fmt: skip
_CLOSING_S = 0.5
_PYTHON_THREADS_US = 300.0  # what a launch must take before Python threads pay

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)
_WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)
_PREPARE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)
_FINISH = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_STOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_CLOCK = ctypes.CFUNCTYPE(ctypes.c_int64)
_KEEP = ctypes.CFUNCTYPE(None, ctypes.py_object)
_PYTHON = {
    "PY_ENSURE": "PyGILState_Ensure", "PY_RELEASE": "PyGILState_Release",
    "PY_SIGNALS": "PyErr_CheckSignals", "PY_FETCH": "PyErr_Fetch",
    "PY_NORMALIZE": "PyErr_NormalizeException", "PY_DECREF": "Py_DecRef",
}  # fmt: skip


class AlignedBytes:
    """Zeroed host memory at a 128-byte boundary."""

    def __init__(self, nbytes: int) -> None:
        self._raw = ctypes.create_string_buffer(nbytes + 128)
        self.address = (ctypes.addressof(self._raw) + 127) & -128
        self.nbytes = nbytes

    def put(self, offset: int, ctype: type, value: int) -> None:
        """Store one integer."""
        ctype.from_address(self.address + offset).value = value  # type: ignore[attr-defined]

    def get(self, offset: int, ctype: type) -> int:
        """Load one integer."""
        return int(ctype.from_address(self.address + offset).value)  # type: ignore[attr-defined]


def usable_cpus() -> tuple[int, ...]:
    """CPUs this process may use, cut to a container's quota where there is one."""
    if hasattr(os, "sched_getaffinity"):
        cpus = tuple(sorted(os.sched_getaffinity(0)))
    else:
        cpus = tuple(range(os.cpu_count() or 1))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return cpus[: max(1, -(-int(quota) // int(period)))] if quota != "max" else cpus
    except (OSError, ValueError):
        return cpus


def thread_count() -> int:
    """Threads of the CPU device: ``GE2RT_THREADS``, or one a usable CPU."""
    chosen = switches.get("GE2RT_THREADS")
    return min(chosen or len(usable_cpus()), MAX_WORKERS + 1)


class Pool:
    """Workers, arenas and the native launch code of this process."""

    def __init__(self, store: ObjectStore | None = None, native: bool | None = None) -> None:
        self.native = sys.platform == "linux" if native is None else native
        self._linked = _native_code(self.native, store)
        entry = {name: linked.address for name, linked in self._linked.items()}
        self.entry_address = entry["launch"]
        self.attend_address = entry["attend"]
        self._launch = _ENTRY(entry["launch"])
        self._stop = _STOP(entry["stop"])
        self._prepare = _PREPARE(entry["prepare"])
        self._work = _WORK(entry["work"])
        self._finish = _FINISH(entry["finish"])
        self._raised: dict[int, BaseException] = {}  # by thread
        self._keep = _KEEP(self._keep_raised)
        self._memory = AlignedBytes(pool_ir.POOL_BYTES)
        self.address = self._memory.address
        self.ticks_per_us = _ticks_per_us(_CLOCK(entry["clock"]))
        self._executor: ThreadPoolExecutor | None = None
        self._fill()
        self.launch: Callable[[int, bytes], int] = (
            self._launch if self.native else self._launch_python
        )

    def _fill(self) -> None:
        put = self._memory.put
        for name, microseconds in _THRESHOLDS.items():
            put(POOL[name], ctypes.c_int64, int(microseconds * self.ticks_per_us))
        put(POOL["KEEP"], ctypes.c_int64, _address(self._keep))
        for slot, name in _PYTHON.items():
            put(POOL[slot], ctypes.c_int64, _address(getattr(ctypes.pythonapi, name)))
        put(POOL["CALLER_CPU"], ctypes.c_int32, -1)
        for cpu in usable_cpus():
            if cpu < 1024:
                at = POOL["ALLOWED"] + cpu // 8
                byte = self._memory.get(at, ctypes.c_uint8)
                put(at, ctypes.c_uint8, byte | 1 << cpu % 8)
        self.set_threads(thread_count())

    @property
    def threads(self) -> int:
        """Threads that a launch may use, the caller's included."""
        return self._threads

    def set_threads(self, threads: int) -> None:
        """Use up to ``threads`` threads from the next launch on."""
        self._threads = threads
        self._memory.put(POOL["PIN"], ctypes.c_int32, int(threads <= len(usable_cpus())))
        self._memory.put(POOL["WANTED"], ctypes.c_int32, threads - 1 if self.native else 0)

    @property
    def workers(self) -> int:
        """Native worker threads that run at this moment (they start with the first launch)."""
        return self._memory.get(POOL["STARTED"], ctypes.c_int32)

    def _keep_raised(self, raised: BaseException) -> None:
        """Called by a launch whose look at pending signals found a handler that raised."""
        self._raised[threading.get_ident()] = raised

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended a launch of this thread and has not been raised yet."""
        return bool(self._raised) and threading.get_ident() in self._raised

    def take_interrupt(self) -> BaseException:
        """What a signal handler raised during this thread's last launch."""
        return self._raised.pop(threading.get_ident(), None) or KeyboardInterrupt()

    def _launch_python(self, context: int, args: bytes) -> int:
        """A launch spread over Python threads; small ones run on the caller alone."""
        estimate = ctypes.c_int64.from_address(context + CONTEXT["ESTIMATE"]).value
        blocks = ctypes.c_int64.from_address(context + CONTEXT["BLOCKS"]).value
        people = min(self._threads, blocks)
        if people < 2 or 0 <= estimate < _PYTHON_THREADS_US * self.ticks_per_us:
            return int(self._launch(context, args))
        job = AlignedBytes(JOB_BYTES)
        self._prepare(context, args, job.address, people)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="ge2rt")
        low, high = CALLER_SLOTS, pool_ir.SLOTS
        others = [
            self._executor.submit(self._work, job.address, low, high, 0) for _ in range(people - 1)
        ]
        self._work(job.address, 0, CALLER_SLOTS, 1)
        for other in others:
            other.result()
        return int(self._finish(context, job.address))

    def launch_alone(self, context: int, args: bytes) -> int:
        """A launch on the calling thread alone."""
        job = AlignedBytes(JOB_BYTES)
        self._prepare(context, args, job.address, 1)
        self._work(job.address, 0, CALLER_SLOTS, 1)
        return int(self._finish(context, job.address))

    def stop(self) -> None:
        """Send the workers home; the next large launch calls them back."""
        self._stop(self.address)
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def close(self) -> None:
        """For the interpreter's end: launches stay on their own threads and leave Python alone.

        A launch that shares its job with workers now gets a moment to end.
        """
        self._memory.put(POOL["WANTED"], ctypes.c_int32, 0)
        self._memory.put(POOL["CLOSED"], ctypes.c_int32, 1)
        last = time.monotonic() + _CLOSING_S
        while self._memory.get(POOL["BUSY"], ctypes.c_int32) and time.monotonic() < last:
            time.sleep(0.001)  # lets go of the interpreter, which the launch may be waiting for
        self.stop()

    def after_fork(self) -> None:
        """In a forked child: no worker came along, and no other thread holds anything."""
        self._executor = None
        for name in ("BUSY", "STATE", "EPOCH", "SLEEPERS", "STARTED", "QUIT"):
            self._memory.put(POOL[name], ctypes.c_int32, 0)
        ctypes.memset(self.address + POOL["TAKEN"], 0, 4 * pool_ir.SLOTS)


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _native_code(threads: bool, store: ObjectStore | None) -> dict[str, Linked]:
    """The pool's code, from the store where it is there."""
    machine = _MACHINES.get(platform.machine().lower())
    if machine is None:
        raise UnsupportedError(
            f"the cpu device does not know the processor {platform.machine()!r}",
            expected="x86-64 or aarch64", detail="device",
        )  # fmt: skip
    text = pool_ir.pool_ir(machine, threads)
    host = objects.host_target()
    key = (
        ("kind", "cpu-pool"),
        ("text", hashlib.sha256(text.encode()).hexdigest()),
        ("cpu", host.cpu),
        ("features", host.features),
        ("llvmlite", objects.llvm_version()),
    )
    entry = objects.decode(store.get(key)) if store is not None else None
    if entry is not None:
        return objects.link(entry[1], _SYMBOLS)
    code = objects.compile_ir(text)
    if store is not None:
        store.put(key, objects.encode({}, code))
    return objects.link(code, _SYMBOLS)


def _ticks_per_us(clock: Callable[[], int]) -> float:
    """Ticks of the native clock in a microsecond, measured over 0.2 ms."""
    clock()
    first, start = clock(), time.perf_counter_ns()
    while time.perf_counter_ns() - start < 200_000:
        pass
    last, end = clock(), time.perf_counter_ns()
    return max((last - first) * 1000.0 / (end - start), 1e-3)


_lock = threading.Lock()
_pools: list[Pool] = []


def get_pool(store: ObjectStore | None = None) -> Pool:
    """The pool of this process, made at the first call."""
    with _lock:
        if not _pools:
            _pools.append(Pool(store))
        return _pools[0]


def clear() -> None:
    """Stop the workers. The pool itself stays: launchers hold its address."""
    with _lock:
        for pool in _pools:
            pool.stop()


def _close() -> None:
    with _lock:
        for pool in _pools:
            pool.close()


def _renew_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for pool in _pools:
        pool.after_fork()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)
