"""Records for the native code that runs whole programs (:mod:`ge2rt.run.program_ir`).

Only plans that the CPU device enters natively come here; all other steps are run from Python.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import numpy as np

from ge2rt.base.errors import Ge2rtError, InternalError
from ge2rt.device.api import NativeEntry
from ge2rt.run.blas import matmul_loop, products
from ge2rt.run.plan import Compiled
from ge2rt.run.program_ir import ARRAY_FIELDS, CALL_WORDS, MAX_PROGRAM_ARGS, STEP_BYTES
from ge2rt.run.program_steps import KernelRun, LibraryRun, Run
from ge2rt.run.stub import get_stub

_SLOT = struct.Struct("=iiq")
_STEP = struct.Struct("=QQQQiiQ")
_INPUT = struct.Struct("=QqQQQq")
_OUTPUT = struct.Struct("=QQqqQ")
_WORD = struct.Struct("=q")

HOLD_LOCK_US = 10.0  # of expected work that may be done without giving up the interpreter lock

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

    def words(self, values: Sequence[int]) -> int:
        """The address of 64-bit integers."""
        return self.put(b"".join(_WORD.pack(value) for value in values))

    def keep(self, thing: Any) -> int:
        """The address of a Python object, which lives from now on."""
        self._kept.append(thing)
        return id(thing)


@dataclass(frozen=True)
class NativeStep:
    """One call of native code: ``kernel(context, packed arguments)``; 0 is success.

    ``slots`` are (base, offset in the arguments, bytes added); ``fault`` raises what another status
    means; ``keep`` lives as long as the step.
    """

    label: str
    kernel: int
    context: int
    image: bytes
    slots: tuple[tuple[int, int, int], ...]
    estimate: int  # address of the expected ticks
    limit: int
    fault: Callable[[int], Any]
    keep: Any


class NativeSteps:
    """Consecutive steps that native code makes in one call."""

    def __init__(self, steps: Sequence[NativeStep]) -> None:
        stub = get_stub()
        assert stub is not None
        self.steps = tuple(steps)
        self._memory = Memory()
        self.address = self._memory.put(b"".join(map(self._pack, steps)))
        self.count = len(steps)
        self.limit = min(step.limit for step in steps)
        self._call = stub.function("row", (self.address, self.count, self.limit), b"steps")

    def _pack(self, step: NativeStep) -> bytes:
        slots = b"".join(_SLOT.pack(*slot) for slot in step.slots)
        return _STEP.pack(
            step.kernel, step.context, self._memory.put(step.image), self._memory.put(slots),
            len(step.image), len(step.slots), step.estimate,
        )  # fmt: skip

    def run(self, bases: ctypes.Array[ctypes.c_int64]) -> None:
        """Run all; raises what the first fault means."""
        code = self._call(ctypes.addressof(bases))
        if code:
            self.fault(code)

    def fault(self, code: int) -> NoReturn:
        """Raise what a code other than 0 means: the number of the step, and its status."""
        step, status = self.steps[(code >> 32) - 1], code & 0xFFFFFFFF
        try:
            step.fault(status)
        except Ge2rtError as fault:
            raise fault.about(where=step.label) from None
        raise InternalError(f"{step.label} reports status {status} without a reason")


def native_steps(run: Run, loose: frozenset[int]) -> tuple[NativeStep, ...] | None:
    """What native code does for a step, or None where it needs Python."""
    if get_stub() is None:
        return None
    if isinstance(run, LibraryRun):
        return _native_products(run) if run.kernel.native else None
    if not run.plan.is_single:
        return None
    variant = run.plan.compiled(aligned=run.is_aligned(loose))
    launcher: Any = variant.launcher
    entry = getattr(launcher, "native", None)
    pool = getattr(run.plan.device, "pool", None)
    if entry is None or not entry.estimate or pool is None or not pool.native:
        return None
    if not launcher.kernel.param_bytes <= variant.packer.size <= MAX_PROGRAM_ARGS:
        return None
    return (_native_kernel(run, variant, entry),)


def _native_kernel(run: KernelRun, variant: Compiled, entry: NativeEntry) -> NativeStep:
    launcher: Any = variant.launcher

    def fault(status: int) -> NoReturn:
        try:
            launcher.fault(status)
        except Ge2rtError as raised:
            raise raised.replaced(kernel=run.plan.kernel) from None
        raise InternalError("the device reports a status without a reason")

    slots = []
    pointers = [slot for slot in variant.problem.args if slot.kind == "pointer"]  # the first ones
    for place, slot in enumerate(pointers):
        operand = run.operands[slot.value]
        assert operand is not None
        slots.append((operand.base, 8 * place, operand.added + slot.offset))
    return NativeStep(
        run.label, entry.address, entry.context, variant.pack([0] * len(run.operands)),
        tuple(slots), entry.estimate, entry.limit, fault, variant,
    )  # fmt: skip


def _native_products(run: LibraryRun) -> tuple[NativeStep, ...] | None:
    """A product of matrices by the loop of ``np.matmul``."""
    descs = [desc for desc in run.descs if desc is not None]
    operands = [operand for operand in run.operands if operand is not None]
    loop, calls, stub = matmul_loop(descs[0].dtype.numpy), products(descs), get_stub()
    if loop is None or calls is None or stub is None:
        return None
    ticks = run.device.pool.ticks_per_us
    steps = []
    for call in calls:
        memory = Memory()
        tables = [memory.words(numbers) for numbers in (call.dimensions, call.steps)]
        context = memory.words([loop.address, *tables, loop.data])
        slots = tuple(
            (operand.base, 8 * place, operand.added + added)
            for place, (operand, added) in enumerate(zip(operands, call.added, strict=True))
        )
        estimate = memory.words([int(call.expected_us * ticks)])
        steps.append(NativeStep(
            run.label, stub.address("loop"), context, bytes(24), slots, estimate,
            int(HOLD_LOCK_US * ticks), _never, memory,
        ))  # fmt: skip
    return tuple(steps)


def _never(status: int) -> NoReturn:
    raise InternalError(f"a loop of NumPy's gave status {status}")


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
    steps: NativeSteps
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


def dispatcher(
    cell: list[tuple[Callable[..., Any], ...]], missed: object, slow: Callable[..., Any]
) -> Callable[..., Any] | None:
    """A built-in function that calls the functions in ``cell[0]`` until one knows the call.

    A function's answer to a call it does not know is the object ``missed``. Where all miss, and for
    calls with keywords, it is ``slow(*args, **kwargs)``. None where there is no stub.
    """
    stub = get_stub()
    if stub is None:
        return None
    return stub.function("dispatch", (cell, missed, slow), b"dispatch(*args, **kwargs)")


def _words(spec: CallSpec, on_fault: Callable[[int], Any], memory: Memory) -> list[int]:
    inputs = b"".join(
        _INPUT.pack(memory.keep(i.dtype), len(i.shape), memory.words(i.shape),
                    memory.words(i.strides), i.mask, i.base)
        for i in spec.inputs
    )  # fmt: skip
    outputs = b"".join(
        _OUTPUT.pack(
            memory.keep(o.shape), memory.keep(o.dtype), o.base, len(o.shape), memory.words(o.shape)
        )
        for o in spec.outputs
    )
    steps = spec.steps
    words = [
        len(spec.inputs), len(spec.outputs), len(spec.bases), memory.put(inputs),
        memory.put(outputs), memory.words(spec.bases), steps.address,
        steps.count, 0, int(spec.exclusive),
        int(spec.single and len(spec.outputs) == 1), memory.keep(np.empty),
        memory.keep(np.ndarray), memory.keep(on_fault), spec.limit, *spec.flags,
        new_array(),
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


_API_NEW, _API_VERSION = 94, 0  # places in NumPy's table of C functions
_NEW = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int, *[ctypes.c_void_p] * 3,
    ctypes.c_int, ctypes.c_void_p,
)  # fmt: skip


@cache
def new_array() -> int:
    """The address of ``PyArray_NewFromDescr``, or 0 where it does not do what is expected.

    NumPy's own headers find it at that place of the table, in every version of the ABI.
    """
    core: Any = sys.modules.get("numpy._core._multiarray_umath") or sys.modules.get(
        "numpy.core._multiarray_umath"
    )
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = pointer(core._ARRAY_API, None) if hasattr(core, "_ARRAY_API") else None
    if not table:
        return 0
    functions = (ctypes.c_void_p * (_API_NEW + 1)).from_address(table)
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(functions[_API_VERSION] or 0)()
    if version not in (0x1000009, 0x2000000):
        return 0
    address = functions[_API_NEW] or 0
    dtype, shape = np.dtype(np.int16), (ctypes.c_int64 * 2)(3, 5)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # the call takes it
    made = _NEW(address)(np.ndarray, dtype, 2, ctypes.addressof(shape), None, None, 0, None)
    fits = type(made) is np.ndarray and made.flags.owndata and made.flags.c_contiguous
    return address if fits and (made.shape, made.dtype) == ((3, 5), dtype) else 0


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Address of the first element, read from the object where that is possible."""
    if known_arrays():
        return ctypes.c_int64.from_address(id(array) + ARRAY_FIELDS["DATA"]).value
    return int(array.__array_interface__["data"][0])
