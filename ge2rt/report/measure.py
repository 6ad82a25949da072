"""The time of each step of an executable, on arrays of the caller's or on made up ones."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ge2rt.device.api import Device
from ge2rt.run.program import Executable
from ge2rt.run.program_arrays import Arena, InputSlot
from ge2rt.run.program_steps import KernelRun, Run

_ROUNDS = 9
_PATIENCE = 0.6  # seconds after which no further round is begun
_PIECE = 1 << 20  # elements of made up data that are written at a time


@dataclass(frozen=True)
class Times:
    """Seconds a step (the median), of all steps together, and one run's begin and length each."""

    steps: tuple[float, ...]
    whole: float
    spans: tuple[tuple[float, float], ...]
    rounds: int
    faulted: bool = False  # some index was outside of its array


def measure(
    executable: Executable, arrays: Sequence[Any] | None = None, *, rounds: int = _ROUNDS
) -> Times:
    """Run every step by itself ``rounds`` times, fewer where that takes long, after a warm-up.

    ``arrays`` are the inputs; for a None among them, or without any, numbers between 0 and 1 are
    made up (integers are 0, so that they are indices of anything).
    """
    given = list(arrays) if arrays is not None else [None] * len(executable.inputs)
    with _placed(executable, given) as (bases, arena):
        calls = [_call(run, executable, bases) for run in executable.steps]
        _round(calls, executable)  # the first one pays for what is made late
        begun = time.perf_counter()
        spans: list[tuple[tuple[float, float], ...]] = []
        wholes: list[float] = []
        while len(spans) < rounds and (not spans or time.perf_counter() - begun < _PATIENCE):
            spans.append(_round(calls, executable))
            wholes.append(_whole(executable, bases))
        faulted = arena is not None and _lower_flags(executable, arena)
    medians = tuple(
        statistics.median(round_[step][1] for round_ in spans) for step in range(len(calls))
    )
    return Times(medians, statistics.median(wholes), spans[-1], len(spans), faulted)


def _round(
    calls: Sequence[Callable[[], object]], executable: Executable
) -> tuple[tuple[float, float], ...]:
    """Begin and length of each step in one run, in seconds from the begin of the run."""
    if executable.device.props.kind == "cuda":
        return _round_by_events(calls, executable.device)
    synchronize, clock = executable.device.synchronize, time.perf_counter
    spans = []
    origin = clock()
    for call in calls:
        start = clock()
        call()
        synchronize(0)
        spans.append((start - origin, clock() - start))
    return tuple(spans)


def _round_by_events(
    calls: Sequence[Callable[[], object]], device: Device
) -> tuple[tuple[float, float], ...]:
    """The same by the GPU's own clock: the host's would tell how long a wait takes."""
    marks = [device.record_event(0)]
    for call in calls:
        call()
        marks.append(device.record_event(0))
    ends = [device.elapsed_ms(marks[0], mark) / 1e3 for mark in marks]
    return tuple((start, end - start) for start, end in pairwise(ends))


def _whole(executable: Executable, bases: Sequence[int]) -> float:
    start = time.perf_counter()
    executable.enqueue(bases, 0, loose=False)
    executable.device.synchronize(0)
    return time.perf_counter() - start


def _call(run: Run, executable: Executable, bases: Sequence[int]) -> Callable[[], object]:
    if isinstance(run, KernelRun):
        if run.is_empty:
            return lambda: None
        pointers, launch = run.pointers(bases), run.plan.launch
        return lambda: launch(pointers, 0)
    call = run.kernel.prepare(run.descs, executable.device)
    addresses = [bases[o.base] + o.added for o in run.operands if o is not None]
    return lambda: call(addresses, 0)


def _lower_flags(executable: Executable, arena: Arena) -> bool:
    """Take the fault flags down; whether one was up."""
    count = sum(isinstance(run, KernelRun) and run.flag >= 0 for run in executable.steps)
    up = bool(count) and any(executable.device.memory.read(arena.address, 4 * count))
    executable.reset_flags(arena)
    return up


@contextmanager
def _placed(
    executable: Executable, given: Sequence[Any]
) -> Iterator[tuple[list[int], Arena | None]]:
    """Addresses of all buffers for one set of runs."""
    memory = executable.device.memory
    bases = [0] * (len(executable.program.buffers) + 1)
    owned: list[int] = []
    held: list[Any] = []
    rng = np.random.default_rng(0)
    arena = None
    try:
        for slot, array in zip(executable.inputs, given, strict=True):
            if array is not None:
                bases[slot.base], keep = slot.place(array, executable.device)
                held.append(keep)
            else:
                bases[slot.base] = _make_up(executable, slot, rng, owned)
        for output in executable.outputs:
            address = memory.allocate(max(output.nbytes, 1))
            owned.append(address)
            bases[output.base] = address
        arena = executable.new_arena()
        if arena is not None:
            executable.place_temps(arena, bases)
        yield bases, arena
    finally:
        for address in owned:
            memory.free(address)
        if arena is not None:
            arena.close()
        held.clear()


def _make_up(
    executable: Executable, slot: InputSlot, rng: np.random.Generator, owned: list[int]
) -> int:
    """Memory of an input filled with numbers; the address of its first element."""
    memory, low, high = executable.device.memory, *slot.span()
    address = memory.allocate(max(high - low, 1))
    owned.append(address)
    item = slot.dtype.itemsize
    count = (high - low) // item
    piece = _numbers(slot, min(count, _PIECE), rng)
    for first in range(0, count, _PIECE):
        part = piece[: min(_PIECE, count - first)]
        memory.write(address + first * item, part.tobytes())
    return address - low


def _numbers(slot: InputSlot, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if slot.dtype.is_float:
        return rng.random(count, np.float32).astype(slot.numpy)
    filled: np.ndarray[Any, Any] = np.full(count, slot.dtype.name == "bool", slot.numpy)
    return filled
