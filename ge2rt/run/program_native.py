"""Records for the native code that runs whole programs (:mod:`ge2rt.run.program_ir`).

Only plans that the CPU device enters natively come here; all other steps are run from Python.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import numpy as np

from ge2rt.base.errors import Ge2rtError, InternalError
from ge2rt.run.plan import Compiled
from ge2rt.run.program_ir import ARRAY_FIELDS, CALL_WORDS, MAX_PROGRAM_ARGS, STEP_BYTES
from ge2rt.run.program_steps import KernelRun
from ge2rt.run.stub import Stub, get_stub

_SLOT = struct.Struct("=iiq")
_STEP = struct.Struct("=QQQQiiQ")
_INPUT = struct.Struct("=QqQQQq")
_OUTPUT = struct.Struct("=QQq")
_WORD = struct.Struct("=q")

assert _STEP.size == STEP_BYTES


class Memory:
    """Tables whose addresses are handed to native code; they live as long as this object."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def put(self, data: bytes) -> int:
        """The address of a copy of ``data``, aligned to 16 bytes."""
        raw = ctypes.create_string_buffer(data, len(data) + 16)
        address = (ctypes.addressof(raw) + 15) & -16
        if address != ctypes.addressof(raw):
            ctypes.memmove(address, data, len(data))
        self._kept.append(raw)
        return address

    def keep(self, thing: Any) -> int:
        """The address of a Python object, which lives from now on."""
        self._kept.append(thing)
        return id(thing)


class NativeSteps:
    """Consecutive launches that native code makes in one call."""

    def __init__(self, runs: Sequence[KernelRun], variants: Sequence[Compiled]) -> None:
        stub = get_stub()
        assert stub is not None
        self.runs = tuple(runs)
        self._variants = tuple(variants)
        self._memory = Memory()
        steps = [self._step(*pair) for pair in zip(runs, variants, strict=True)]
        self.address = self._memory.put(b"".join(steps))
        self.count = len(steps)
        self.limit = min(_entry(variant).limit for variant in variants)
        self._call = stub.function("row", (self.address, self.count, self.limit), b"steps")

    def _step(self, run: KernelRun, variant: Compiled) -> bytes:
        entry = _entry(variant)
        assert entry is not None
        args = variant.problem.args
        image = variant.pack([0] * len(run.operands))
        slots = []
        place = 0
        for slot in args:
            # "@" aligns each value as a C compiler does; pointers come first and are 8 bytes
            if slot.kind == "pointer":
                operand = run.operands[slot.value]
                assert operand is not None
                slots.append(_SLOT.pack(operand.base, place, operand.added + slot.offset))
                place += 8
        return _STEP.pack(
            entry.address, entry.context, self._memory.put(image),
            self._memory.put(b"".join(slots)), len(image), len(slots), entry.estimate,
        )  # fmt: skip

    def run(self, bases: ctypes.Array[ctypes.c_int64]) -> None:
        """Launch all; raises what the first fault means."""
        code = self._call(ctypes.addressof(bases))
        if code:
            self.fault(code)

    def fault(self, code: int) -> NoReturn:
        """Raise what a code other than 0 means: the number of the step, and its status."""
        number, status = (code >> 32) - 1, code & 0xFFFFFFFF
        launcher: Any = self._variants[number].launcher
        run = self.runs[number]
        try:
            launcher.fault(status)
        except Ge2rtError as fault:
            raise fault.replaced(kernel=run.plan.kernel, where=run.label) from None
        raise InternalError(f"the device reports status {status} without a reason")


def is_native(run: KernelRun, variant: Compiled) -> bool:
    """Whether native code can make this launch: the CPU device's, with its own threads."""
    launcher: Any = variant.launcher
    entry = _entry(variant)
    if entry is None or not entry.estimate or get_stub() is None:
        return False
    pool = getattr(run.plan.device, "pool", None)
    pointers = [slot.kind == "pointer" for slot in variant.problem.args]
    return (
        pool is not None
        and pool.native
        and launcher.kernel.param_bytes <= variant.packer.size <= MAX_PROGRAM_ARGS
        and pointers == sorted(pointers, reverse=True)
    )


def _entry(variant: Compiled) -> Any:
    return getattr(variant.launcher, "native", None)


@dataclass(frozen=True)
class Arriving:
    """An input of a native call: exactly this dtype, shape and byte strides."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    mask: int  # bits of the address that must be 0
    base: int


@dataclass(frozen=True)
class Leaving:
    """An output of a native call."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    base: int


@dataclass(frozen=True)
class CallSpec:
    """What a native call does; ``bases`` are the initial bases, temporaries filled in."""

    inputs: tuple[Arriving, ...]
    outputs: tuple[Leaving, ...]
    bases: tuple[int, ...]
    steps: NativeSteps | None
    exclusive: bool
    flags: tuple[int, int]  # address and bytes of the fault flags
    single: bool
    limit: int


def native_call(
    spec: CallSpec, miss: Callable[..., Any], on_fault: Callable[[int], Any], keep: object
) -> Callable[..., Any] | None:
    """A built-in function of the arrays, or None where there is no stub.

    It returns the output (``single``) or a tuple of outputs, and calls ``miss`` with the same
    arguments where one is not what ``spec`` says. ``keep`` lives as long as the function.
    """
    stub = get_stub()
    if stub is None or not known_arrays():
        return None
    memory = Memory()
    words = _words(spec, on_fault, memory)
    address = memory.put(b"".join(_WORD.pack(word) for word in words))
    return stub.function("call", (address, miss, memory, spec, keep), b"program(*arrays)")


def _words(spec: CallSpec, on_fault: Callable[[int], Any], memory: Memory) -> list[int]:
    def numbers(values: Sequence[int]) -> int:
        return memory.put(b"".join(_WORD.pack(value) for value in values))

    inputs = b"".join(
        _INPUT.pack(memory.keep(i.dtype), len(i.shape), numbers(i.shape), numbers(i.strides),
                    i.mask, i.base)
        for i in spec.inputs
    )  # fmt: skip
    outputs = b"".join(
        _OUTPUT.pack(memory.keep(o.shape), memory.keep(o.dtype), o.base) for o in spec.outputs
    )
    steps = spec.steps
    words = [
        len(spec.inputs), len(spec.outputs), len(spec.bases), memory.put(inputs),
        memory.put(outputs), numbers(spec.bases), steps.address if steps else 0,
        steps.count if steps else 0, 0, int(spec.exclusive),
        int(spec.single and len(spec.outputs) == 1), memory.keep(np.empty),
        memory.keep(np.ndarray), memory.keep(on_fault), spec.limit, *spec.flags,
    ]  # fmt: skip
    assert len(words) == CALL_WORDS
    return words


@cache
def known_arrays() -> bool:
    """Whether NumPy's array objects have their fields where native code looks for them."""
    probe = np.zeros((6, 5), np.int16)[1::2, ::-2]
    words = {name: ctypes.c_int64.from_address(id(probe) + at) for name, at in ARRAY_FIELDS.items()}
    rank = ctypes.c_int32.from_address(id(probe) + ARRAY_FIELDS["RANK"]).value
    if rank != 2 or words["DATA"].value != probe.__array_interface__["data"][0]:
        return False
    if words["DESCR"].value != id(probe.dtype):
        return False
    lists = [(ctypes.c_int64 * 2).from_address(words[n].value) for n in ("DIMS", "STRIDES")]
    return [tuple(values) for values in lists] == [probe.shape, probe.strides]


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Address of the first element, read from the object where that is possible."""
    if known_arrays():
        return ctypes.c_int64.from_address(id(array) + ARRAY_FIELDS["DATA"]).value
    return int(array.__array_interface__["data"][0])


__all__ = [
    "Arriving", "CallSpec", "Leaving", "Memory", "NativeSteps", "Stub", "address_of", "is_native",
    "known_arrays", "native_call",
]  # fmt: skip
