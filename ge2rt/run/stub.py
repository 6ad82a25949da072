"""The native launch stub: records of plans, and the built-in functions that use them.

The stub is only a shortcut. Every miss calls the plain Python function, which owns all validation
and messages. It is off where objects do not look as expected (checked at the start), under
free-threaded builds, and with ``GE2RT_NO_STUB=1``.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ge2rt.base import switches
from ge2rt.base.errors import Ge2rtError
from ge2rt.base.locks import ForkLock
from ge2rt.base.shapes import byte_span
from ge2rt.device.api import NativeEntry
from ge2rt.run.program_ir import PROGRAM_IR
from ge2rt.run.stub_ir import MAX_ARGS, MAX_BUFFERS, RECORD_BYTES, STUB_IR
from ge2rt.spec.model import Bound

if TYPE_CHECKING:
    from ge2rt.device.objects import Linked
    from ge2rt.run.fastpath import Target

FUNCTIONS = ("plan", "launch", "row", "call", "loop", "dispatch")

_METH_FASTCALL = 0x80
_METH_VARARGS_KEYWORDS = 0x1 | 0x2
_SLOT = struct.Struct("=iiq")
_PAIR = struct.Struct("=iiqq")
_MASK = struct.Struct("=Q")
_RECORD = struct.Struct("=QQQQiiiiQQQQQ")


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


@dataclass(frozen=True)
class Prepared:
    """What a record is made of. ``slots`` are (buffer, offset in the arguments, bytes added)."""

    kernel: int
    context: int
    estimate: int  # address of the expected ticks of a launch
    limit: int  # the most expected ticks that are worth holding the interpreter lock
    image: bytes
    slots: tuple[tuple[int, int, int], ...]
    masks: tuple[int, ...]
    pairs: tuple[tuple[int, int, int, int], ...]


class Record:
    """A plan's record in memory of its own; ``address`` is valid while this object lives."""

    def __init__(self, prepared: Prepared, on_fault: Callable[[int], int]) -> None:
        tables = [
            prepared.image,
            b"".join(_SLOT.pack(*row) for row in prepared.slots),
            b"".join(_MASK.pack(mask) for mask in prepared.masks),
            b"".join(_PAIR.pack(*row) for row in prepared.pairs),
        ]
        self._tables = [ctypes.create_string_buffer(table, max(len(table), 1)) for table in tables]
        self._on_fault = on_fault
        places = [ctypes.addressof(table) for table in self._tables]
        data = _RECORD.pack(
            prepared.kernel, prepared.context, prepared.estimate,
            prepared.limit, len(prepared.masks), len(prepared.image),
            len(prepared.pairs), len(prepared.slots), *places, id(on_fault),
        )  # fmt: skip
        assert len(data) == RECORD_BYTES
        self._memory = ctypes.create_string_buffer(data, RECORD_BYTES)
        self.address = ctypes.addressof(self._memory)


def prepare_record(
    bound: Bound, target: Target, packer: struct.Struct, entry: NativeEntry
) -> Prepared:
    """The record's contents for a plan whose fast path is ``target``."""
    count = len(target.pointers)
    image = packer.pack(*(0,) * count, *target.scalars)
    slots = tuple(
        (index, place, added)
        for (index, added), place in zip(target.pointers, range(0, 8 * count, 8), strict=True)
    )
    masks = tuple(15 if target.aligned else desc.dtype.itemsize - 1 for desc in bound.descs if desc)
    return Prepared(
        entry.address, entry.context, entry.estimate, entry.limit, image, slots, masks,
        separation(bound),
    )  # fmt: skip


def fits(prepared: Prepared) -> bool:
    """Whether a plan is small enough for the stub."""
    return 0 < len(prepared.masks) <= MAX_BUFFERS and len(prepared.image) <= MAX_ARGS


def separation(bound: Bound) -> tuple[tuple[int, int, int, int], ...]:
    """(output, other, most, least): apart if their addresses differ by >= most or <= least."""
    spans = []
    for desc in bound.descs:
        assert desc is not None
        low, high = byte_span(desc.shape, desc.strides, desc.dtype.itemsize)
        start = desc.offset * desc.dtype.itemsize
        spans.append((low + start, high + start))
    first = len(bound.kernel.inputs)
    return tuple(
        (out, other, spans[other][1] - spans[out][0], spans[other][0] - spans[out][1])
        for out in range(first, len(spans))
        for other in range(out)
    )


class Stub:
    """The linked code and everything whose address is in use; kept for the process's life."""

    def __init__(self, linked: Mapping[str, Linked]) -> None:
        self._addresses = {name: linked[f"ge2rt_{name}"].address for name in FUNCTIONS}
        self._methods: dict[tuple[str, bytes], _MethodDef] = {}
        self._keep = linked

    def address(self, kind: str) -> int:
        """The address of a C function of the stub."""
        return self._addresses[kind]

    def function(self, kind: str, state: tuple[Any, ...], doc: bytes) -> Callable[..., Any]:
        """A built-in function over ``state``, which the native code reads as its self."""
        method = self._methods.get((kind, doc))
        if method is None:
            flags = _METH_VARARGS_KEYWORDS if kind == "dispatch" else _METH_FASTCALL
            fields = (kind.encode(), self._addresses[kind], flags, doc)
            method = self._methods.setdefault((kind, doc), _MethodDef(*fields))
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.c_void_p)
        made: Callable[..., Any] = make(ctypes.byref(method), state, None)
        return made


_lock = ForkLock()
_made: dict[str, Stub | None] = {}


def get_stub() -> Stub | None:
    """The stub, linked and checked once a process; None where it cannot be used."""
    if "stub" not in _made:
        with _lock:
            if "stub" not in _made:
                _made["stub"] = _make()
    return _made["stub"]


def clear() -> None:
    """Forget the stub: the next use links it again. What is in use stays alive."""
    with _lock:
        _retired.append(_made.pop("stub", None))


_retired: list[Stub | None] = []


def _make() -> Stub | None:
    if switches.get("GE2RT_NO_STUB") or not _known_layout():
        return None
    from ge2rt.build.store import ObjectStore, default_store
    from ge2rt.device import objects  # late: brings LLVM

    host = objects.host_target()
    text = STUB_IR + PROGRAM_IR
    key = (
        ("kind", "launch stub"), ("ir", text), ("llvm", objects.llvm_version()),
        ("cpu", host.cpu), ("features", host.features),
    )  # fmt: skip
    store = ObjectStore(default_store())
    code = store.get(key)
    if code is None:
        code = objects.compile_ir(text)
        store.put(key, code)
    try:
        linked = objects.link(code, tuple(f"ge2rt_{name}" for name in FUNCTIONS))
    except Ge2rtError:
        return None  # an interpreter that does not export its C API
    stub = Stub(linked)
    return stub if _answers(stub) else None


def _known_layout() -> bool:
    """CPython with the interpreter lock, 64 bits, and the type pointer where it is expected."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if struct.calcsize("P") != 8 or hasattr(sys, "gettotalrefcount"):
        return False
    probes: tuple[Any, ...] = (12345678901, {}, [], ())
    return all(
        ctypes.c_void_p.from_address(id(probe) + 8).value == id(type(probe)) for probe in probes
    )


def _answers(stub: Stub) -> bool:
    """Self-check: lookups that must miss reach the Python function with their arguments."""
    seen: list[tuple[Any, ...]] = []

    def slow(*args: Any) -> int:
        seen.append(args)
        return 7

    state = ({"k": ({"a": [1, "x"]}, 0)}, slow, 0)
    probe = stub.function("launch", state, b"")
    tries: Sequence[tuple[Any, ...]] = (
        ("other", [1], {"a": [1, "x"]}), ("k", [1], {"a": [1.0, "x"]}), ("k", [1], {"a": (1, "x")}),
        ("k", [1], {"a": [1, "y"]}, 0), ("k", [1], {"a": [1]}, 5), (3, [], None),
    )  # fmt: skip
    return [probe(*args) for args in tries] == [7] * len(tries) and seen == list(tries)
