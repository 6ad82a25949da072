"""Native objects of the CPU device: the host's target, compiling, linking, and their cached form.

One ORC JIT a process links all objects (0.25 ms each; an MCJIT engine an object takes 0.7 ms). It
lives as long as anything it linked; llvmlite leaves it alone while the interpreter ends.
"""

from __future__ import annotations

import itertools
import json
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from ge2rt.base import switches
from ge2rt.base.errors import InternalError, InvalidArgumentError
from ge2rt.base.locks import ForkLock, compilers

Key = tuple[tuple[str, str], ...]  # named parts

_MAGIC = b"ge2rt-object-2\n"
_FEATURES = {"avx512": "x86-64-v4", "avx2": "x86-64-v3", "sse2": "x86-64", "generic": "generic"}


class ObjectStore(Protocol):
    """Where native objects outlive the process; keys are named parts, values opaque bytes."""

    def get(self, key: Key) -> bytes | None:
        """The bytes that were put under ``key``, verified, or None."""

    def put(self, key: Key, data: bytes) -> None:
        """Keep ``data``; a store that cannot write does nothing."""


class MemoryStore:
    """A store that lives as long as the process."""

    def __init__(self) -> None:
        self._entries: dict[Key, bytes] = {}

    def get(self, key: Key) -> bytes | None:
        """The bytes under ``key`` or None."""
        return self._entries.get(key)

    def put(self, key: Key, data: bytes) -> None:
        """Keep ``data`` in memory."""
        self._entries[key] = data


def encode(meta: dict[str, Any], payload: bytes) -> bytes:
    """A cached entry: magic, length of the JSON header, header, payload."""
    head = json.dumps(meta).encode()
    return _MAGIC + struct.pack("<I", len(head)) + head + payload


def decode(data: bytes | None) -> tuple[dict[str, Any], bytes] | None:
    """The parts of :func:`encode`, or None for no entry, another format or a damaged one."""
    start = len(_MAGIC) + 4
    if data is None or not data.startswith(_MAGIC) or len(data) < start:
        return None
    (length,) = struct.unpack_from("<I", data, len(_MAGIC))
    try:
        meta = json.loads(data[start : start + length])
    except ValueError:
        return None
    return (meta, data[start + length :]) if isinstance(meta, dict) else None


@dataclass(frozen=True)
class HostTarget:
    """LLVM's names for the CPU that code is made for."""

    cpu: str
    features: str


@dataclass(frozen=True)
class Linked:
    """A linked object: the address of its symbol, and what keeps it loaded."""

    address: int
    keep: Any


class _Llvm:
    """LLVM, set up once a process."""

    def __init__(self) -> None:
        import llvmlite
        import llvmlite.binding as llvm  # late: 0.1 s

        _hold_over_fork(llvm)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # inline asm
        self.binding = llvm
        self.version = str(llvmlite.__version__)
        self.native = HostTarget(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
        # JITLink lays the sections of an object side by side. The older linker takes them from
        # wherever there is room, and ends the process when they are more than 2 GB apart.
        self.jit = llvm.create_lljit_compiler(self.machine(self.native), use_jit_link=True)
        self.names = itertools.count()

    def machine(self, target: HostTarget) -> Any:
        """A fresh target machine (the JIT takes the one it is given)."""
        triple = self.binding.Target.from_default_triple()
        return triple.create_target_machine(
            cpu=target.cpu, features=target.features, opt=2, reloc="pic", jit=True
        )


@cache
def _hold_over_fork(llvm: Any) -> None:
    """Let a fork wait for the call of LLVM that another thread is in.

    llvmlite makes every call under one lock. A child that is forked while another thread has it
    would wait for it for ever; held by the forking thread, it is free again on both sides.
    """
    lock = getattr(llvm.ffi.lib, "_lock", None)
    if lock is not None:
        compilers.hold(lock)


_lock = ForkLock()
_cached: list[_Llvm] = []


def _llvm() -> _Llvm:
    with _lock:
        if not _cached:
            _cached.append(_Llvm())
        return _cached[0]


def clear() -> None:
    """Forget the JIT; objects that are linked stay loaded."""
    with _lock:
        _cached.clear()


def llvm_version() -> str:
    """Version of llvmlite, a part of each object's key."""
    return _llvm().version


def host_target() -> HostTarget:
    """The CPU to make code for: the host's, or what ``GE2RT_CPU_FEATURES`` names."""
    text = switches.get("GE2RT_CPU_FEATURES").strip()
    native = _llvm().native
    if text in ("", "native"):
        return native
    if text in _FEATURES:
        return HostTarget(_FEATURES[text], "")
    if all(part[:1] in "+-" and len(part) > 1 for part in text.split(",")):
        return HostTarget(native.cpu, f"{native.features},{text}")
    raise InvalidArgumentError(
        "environment variable GE2RT_CPU_FEATURES is malformed",
        expected=f"native, {', '.join(_FEATURES)} or a list such as +fma,-avx512f", got=repr(text),
    )  # fmt: skip


def compile_ir(text: str) -> bytes:
    """Optimise LLVM IR for the real host and emit an object."""
    with compilers:
        llvm = _llvm().binding
        machine = _llvm().machine(_llvm().native)
        module = llvm.parse_assembly(text)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        passes = llvm.create_pass_builder(machine, options)
        passes.getModulePassManager().run(module, passes)
        return bytes(machine.emit_object(module))


def link(object_code: bytes, symbols: tuple[str, ...]) -> dict[str, Linked]:
    """Load a relocatable object; names it needs are looked up in this process (libc, libm)."""
    state = _llvm()
    builder = state.binding.JITLibraryBuilder()
    builder.add_object_img(object_code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    try:
        with compilers:
            keep = builder.link(state.jit, f"ge2rt{next(state.names)}")
    except RuntimeError as fault:
        raise InternalError(
            f"a native object did not link: {fault}",
            next_step="clear the compile cache; if it stays, please report it",
        ) from fault
    return {symbol: Linked(keep[symbol], (keep, state.jit)) for symbol in symbols}
