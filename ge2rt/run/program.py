"""An executable program: steps with plans, one arena for the temporaries, calls on arrays.

There is no evaluation by NumPy here: a step is a kernel of ours or a registered library kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from ge2rt.base.errors import InternalError, InvalidArgumentError, InvalidTypeError
from ge2rt.device.api import Device
from ge2rt.fuse.program import Program
from ge2rt.ir.graph import Node
from ge2rt.run.library import Call
from ge2rt.run.program_arrays import Arena, InputSlot, OutputSlot, host_words, is_loose
from ge2rt.run.program_memory import Arenas, Life, hosted, lives, plan_memory
from ge2rt.run.program_native import (
    Arriving,
    CallSpec,
    Leaving,
    NativeStep,
    NativeSteps,
    native_call,
    native_steps,
)
from ge2rt.run.program_steps import FLAG_BYTES, KernelRun, LibraryRun, Run, prepare_steps

if TYPE_CHECKING:
    from ge2rt.run.program_capture import CapturedProgram

_LEAST_NATIVE = 2  # steps that are worth a native call of their own


class Executable:
    """A program on a device; safe to run from several threads at the same time.

    Attributes: ``program``, ``device``, ``steps`` (each with its plan, or its library kernel, and
    the reason for it), ``inputs`` and ``outputs`` (what arrays look like), ``hosts`` (temporaries
    that lie in an output until it is written), ``memory`` (where the others lie), ``workspace``
    (bytes of one run), ``place`` (tells where in the user's code a node stands).
    """

    def __init__(self, program: Program, device: Device) -> None:
        self.program = program
        self.device = device
        self.place: Callable[[Node], str] = attrgetter("where")
        temps, outputs = self._lives()
        self.hosts = hosted(temps, outputs)
        places = {buffer.id: index for index, buffer in enumerate(program.buffers)}
        self.steps: tuple[Run, ...] = prepare_steps(program, device, self.hosts)
        by_id = {buffer.id: buffer for buffer in program.buffers}
        self.inputs = [InputSlot.of(by_id[i], places[i]) for i in program.inputs]
        self.outputs = [
            OutputSlot(places[i], by_id[i].type.shape, by_id[i].type.element,
                       by_id[i].type.element.numpy)
            for i in program.outputs
        ]  # fmt: skip
        self._flag_bytes = FLAG_BYTES * sum(
            isinstance(run, KernelRun) and run.flag >= 0 for run in self.steps
        )
        alone = [life for life in temps if life.buffer not in self.hosts]
        self.memory = plan_memory(alone, start=self._flag_bytes)
        self.workspace = self.memory.nbytes
        self._temps = [(places[b], offset) for b, offset in self.memory.offsets.items()]
        self._arenas: Arenas[Arena] = Arenas(self._arena, Arena.close)
        self._quick: Callable[..., Sequence[Any]] | None = None
        self._items: dict[bool, tuple[_Item, ...]] = {False: self._prepare_items(loose=False)}

    def __repr__(self) -> str:
        return f"<Executable {self.program.graph.name}: {len(self.steps)} steps>"

    def __str__(self) -> str:
        from ge2rt.run.program_text import print_plan  # late: for readers only

        return print_plan(self)

    def run(self, arrays: Sequence[Any], stream: int = 0) -> list[Any]:
        """Run on arrays; the outputs are fresh, of the library of the first input.

        Raises InvalidTypeError for an array that the program was not compiled for, ValueError for
        an index outside of its array, DeviceError where a kernel faults.
        """
        if not stream:
            quick = self._quick or self._quicken()
            return list(quick(*arrays))
        self.device.check_stream(stream)
        return self._run(arrays, stream)

    def _quicken(self) -> Callable[..., Sequence[Any]]:
        """What runs on the default stream: native code, with Python behind it."""

        def python(*arrays: Any) -> Sequence[Any]:
            return self._run(arrays, 0)

        self._quick = self.function(python) or python
        return self._quick

    def _run(self, arrays: Sequence[Any], stream: int) -> list[Any]:
        bases = [0] * (len(self.program.buffers) + 1)
        held, loose = self.place_inputs(arrays, bases)
        outputs = self.place_outputs(arrays[0] if len(arrays) else None, bases)
        if not self.workspace:
            self._enqueue_checked(arrays, bases, stream, loose=loose)
        else:
            arena = self._arenas.take(stream)
            self.place_temps(arena, bases)
            self._enqueue_checked(arrays, bases, stream, loose=loose)
            self.check_flags(arena, stream, arrays)
            self._arenas.give(arena, stream)  # after an error it goes instead
        self.device.keep_alive((*held, *outputs), stream)
        return outputs

    def function(
        self, miss: Callable[..., Any], *, single: bool = False
    ) -> Callable[..., Any] | None:
        """A native function of the input arrays, or None where the program needs Python.

        It returns the output (``single``, where there is one) or a tuple of outputs. Arguments that
        differ from what the program was compiled for, in number, type, dtype, shape, strides or
        alignment, are passed on to ``miss``, whose answer is returned.
        """
        if not self.device.accepts("cpu"):
            return None
        steps = self._all_native()
        if steps is None:
            return None
        bases = [0] * (len(self.program.buffers) + 1)
        arena = self.new_arena()
        flags = (0, 0)
        if arena is not None:
            self.place_temps(arena, bases)
            flags = (arena.address, self._flag_bytes)

        def on_fault(code: int, *arrays: Any) -> NoReturn:
            if code:
                steps.fault(code)
            assert arena is not None
            self._raise_outside(arena, arrays)

        spec = CallSpec(
            inputs=tuple(_arriving(slot) for slot in self.inputs),
            outputs=tuple(Leaving(slot.shape, slot.numpy, slot.base) for slot in self.outputs),
            bases=tuple(bases), steps=steps, exclusive=arena is not None, flags=flags,
            single=single, limit=steps.limit,
        )  # fmt: skip
        return native_call(spec, miss, on_fault, (self, arena, steps))

    def capture(self) -> CapturedProgram:
        """The program as a CUDA graph; UnsupportedError on other devices."""
        from ge2rt.run.program_capture import CapturedProgram  # late: few programs want it

        return CapturedProgram(self)

    # -- the parts of a run, also used to capture one ---------------------------------------------
    def place_inputs(self, arrays: Sequence[Any], bases: list[int]) -> tuple[list[Any], bool]:
        """Enter the inputs' addresses; what holds their memory, and whether one is unaligned."""
        if len(arrays) != len(self.inputs):
            raise InvalidTypeError(
                "wrong number of arrays for this specialization",
                expected=str(len(self.inputs)),
                got=str(len(arrays)),
            )
        held, loose = [], False
        for slot, array in zip(self.inputs, arrays, strict=True):
            address, keep = slot.place(array, self.device)
            bases[slot.base] = address
            loose = loose or is_loose(address)
            held.append(keep)
        return held, loose

    def place_outputs(self, like: Any, bases: list[int]) -> list[Any]:
        """Enter the addresses of fresh outputs."""
        outputs = []
        for slot in self.outputs:
            bases[slot.base], array = slot.fresh(self.device, like)
            outputs.append(array)
        return outputs

    def place_temps(self, arena: Arena, bases: list[int]) -> None:
        """Enter the addresses of the temporaries and of the fault flags."""
        bases[-1] = arena.address
        for base, offset in self._temps:
            bases[base] = arena.address + offset

    def enqueue(self, bases: Sequence[int], stream: int, *, loose: bool) -> None:
        """Run all steps at these bases."""
        for item in self._items_for(loose):
            item(bases, stream)

    def _enqueue_checked(
        self, arrays: Sequence[Any], bases: Sequence[int], stream: int, *, loose: bool
    ) -> None:
        """Run all steps; a library kernel that turns an index down says which, not where."""
        try:
            self.enqueue(bases, stream, loose=loose)
        except InvalidArgumentError:
            for run in self.steps:
                if isinstance(run, KernelRun):
                    self._raise_found(run, arrays)
            raise

    def check_flags(self, arena: Arena, stream: int, arrays: Sequence[Any]) -> None:
        """ValueError if a step met an index outside of its array; waits for the stream.

        ``arrays`` are the inputs of the run: the message tells from them which index it was.
        """
        if not self._flag_bytes:
            return
        self.device.synchronize(stream)
        if any(self.device.memory.read(arena.address, self._flag_bytes)):
            self._raise_outside(arena, arrays)

    def new_arena(self) -> Arena | None:
        """Memory for the temporaries of one run at a time; None where there are none."""
        return self._arena() if self.workspace else None

    def reset_flags(self, arena: Arena) -> None:
        """Take the fault flags down."""
        if self._flag_bytes:
            self.device.memory.fill(arena.address, 0, self._flag_bytes)

    def _raise_outside(self, arena: Arena, arrays: Sequence[Any]) -> NoReturn:
        flags = np.frombuffer(self.device.memory.read(arena.address, self._flag_bytes), np.int32)
        self.reset_flags(arena)
        for run in self.steps:
            if isinstance(run, KernelRun) and run.flag >= 0 and flags[run.flag]:
                self._raise_found(run, arrays)
                raise InvalidArgumentError(
                    "an index lies outside of its array", kernel=self.program.graph.name,
                    where=f"step {run.step.label!r}",
                    next_step="indices must be in -n <= i < n along the axis that they index",
                )  # fmt: skip
        raise InternalError("a fault without a flag")

    def _raise_found(self, run: KernelRun, arrays: Sequence[Any]) -> None:
        """ValueError that tells the index of a step that is outside, if one is found."""
        from ge2rt.run.outside import find_outside  # late: for faults only

        found = find_outside(self.program, run.step, arrays)
        if found is not None:
            raise InvalidArgumentError(
                "an index lies outside of its array", kernel=self.program.graph.name,
                where=self.place(found.node), got=found.got, expected=found.expected,
                next_step="correct the indices; negative ones count from the end",
            )  # fmt: skip

    # -- preparing --------------------------------------------------------------------------------
    def _lives(self) -> tuple[list[Life], list[Life]]:
        """When the temporaries and the outputs are touched."""
        touched = [(*step.reads, *step.writes) for step in self.program.steps]
        found = []
        for kind in ("temp", "output"):
            sizes = {b.id: b.nbytes for b in self.program.buffers if b.kind == kind}
            found.append(lives(touched, sizes))
        return found[0], found[1]

    def _arena(self) -> Arena:
        return Arena(self.device, self.workspace, self._flag_bytes)

    def _items_for(self, loose: bool) -> tuple[_Item, ...]:
        items = self._items.get(loose)
        if items is None:
            items = self._items[loose] = self._prepare_items(loose=loose)
        return items

    def _prepare_items(self, *, loose: bool) -> tuple[_Item, ...]:
        """Launches in a row become one native call each; all others are called from Python."""
        bases = frozenset(slot.base for slot in self.inputs) if loose else frozenset()
        items: list[_Item] = []
        row: list[tuple[Run, tuple[NativeStep, ...]]] = []

        def close() -> None:
            steps = [step for _, native in row for step in native]
            if len(steps) >= _LEAST_NATIVE:
                items.append(_Native(NativeSteps(steps)))
            else:
                items.extend(self._python(run) for run, _ in row)
            row.clear()

        for run in self.steps:
            native = native_steps(run, bases) if not run.is_empty else ()
            if native:
                row.append((run, native))
            elif native is None:
                close()
                items.append(self._python(run))
        close()
        return tuple(items)

    def _python(self, run: Run) -> _Item:
        return _Launch(run) if isinstance(run, KernelRun) else _Library(run, self.device)

    def _all_native(self) -> NativeSteps | None:
        """All steps as one native call; None where one needs Python, or there are none."""
        found: list[NativeStep] = []
        for run in self.steps:
            native = native_steps(run, frozenset()) if not run.is_empty else ()
            if native is None:
                return None
            found.extend(native)
        return NativeSteps(found) if found else None


def _arriving(slot: InputSlot) -> Arriving:
    # 16 bytes: what the kernels were compiled for
    return Arriving(slot.shape, slot.strides, slot.numpy, 15, slot.base)


_Item: TypeAlias = "_Native | _Launch | _Library"


class _Native:
    def __init__(self, steps: NativeSteps) -> None:
        self._steps = steps

    def __call__(self, bases: Sequence[int], stream: int) -> None:
        self._steps.run(host_words(bases))


class _Launch:
    def __init__(self, run: KernelRun) -> None:
        self._run = run

    def __call__(self, bases: Sequence[int], stream: int) -> None:
        self._run.plan.run(self._run.pointers(bases), stream)


class _Library:
    def __init__(self, run: LibraryRun, device: Device) -> None:
        self._operands = [operand for operand in run.operands if operand is not None]
        self._call: Call = run.kernel.prepare(run.descs, device)

    def __call__(self, bases: Sequence[int], stream: int) -> None:
        self._call([bases[o.base] + o.added for o in self._operands], stream)
