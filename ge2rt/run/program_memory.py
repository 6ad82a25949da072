"""Where a program's temporaries lie: one arena, planned by liveness, and a few arenas in turn.

Two temporaries share bytes exactly if no step needs both. Large ones are placed first, each at the
lowest gap that is free over its whole life (greedy by size: Pisarchyk and Lee, "Efficient Memory
Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ge2rt.base.locks import ForkLock

ALIGN = 128

_KEPT_ARENAS = 4  # a stream; more concurrent calls than that allocate and free


@dataclass(frozen=True)
class Life:
    """A temporary: its bytes, and the first and last step that touch it."""

    buffer: int
    nbytes: int
    first: int
    last: int

    def meets(self, other: Life) -> bool:
        """Whether some step needs both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Layout:
    """Byte offsets in the arena, by buffer, and the arena's size."""

    offsets: Mapping[int, int]
    nbytes: int


def lives(touched: Iterable[Iterable[int]], sizes: Mapping[int, int]) -> list[Life]:
    """The lives of the buffers in ``sizes``; ``touched`` lists the buffers of each step.

    A buffer that no step touches has no life.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, buffers in enumerate(touched):
        for buffer in buffers:
            if buffer in sizes:
                first.setdefault(buffer, step)
                last[buffer] = step
    return [Life(buffer, sizes[buffer], first[buffer], last[buffer]) for buffer in first]


def plan_memory(lives: Sequence[Life], *, start: int = 0) -> Layout:
    """Place every life at a multiple of :data:`ALIGN`, at ``start`` or above.

    Empty buffers get an offset too, which nothing reads.
    """
    order = sorted(lives, key=lambda life: (-life.nbytes, life.first, life.buffer))
    count = len(order)
    firsts, lasts = (np.zeros(count, np.int64) for _ in range(2))
    lows, highs = (np.zeros(count, np.int64) for _ in range(2))
    offsets: dict[int, int] = {}
    base = _up(start)
    for index, life in enumerate(order):
        placed = slice(0, index)
        meets = (firsts[placed] <= life.last) & (lasts[placed] >= life.first)
        nbytes = _up(life.nbytes)
        at = _lowest_gap(lows[placed][meets], highs[placed][meets], nbytes, base)
        firsts[index], lasts[index], lows[index], highs[index] = (
            life.first, life.last, at, at + nbytes,
        )  # fmt: skip
        offsets[life.buffer] = at
    end = int(highs.max()) if count else 0
    return Layout(offsets, max(end, base))


def hosted(lives: Sequence[Life], outputs: Sequence[Life]) -> dict[int, int]:
    """Temporaries that can lie in an output's memory until it is written: buffer -> output."""
    found: dict[int, int] = {}
    for output in sorted(outputs, key=lambda life: -life.nbytes):
        end = -1
        for life in sorted(lives, key=lambda life: (life.first, life.last)):
            fits = 0 < life.nbytes <= output.nbytes and life.first > end
            if fits and life.last < output.first and life.buffer not in found:
                found[life.buffer] = output.buffer
                end = life.last
    return found


def _up(nbytes: int) -> int:
    return (nbytes + ALIGN - 1) & -ALIGN


def _lowest_gap(
    lows: np.ndarray[tuple[int], np.dtype[np.int64]],
    highs: np.ndarray[tuple[int], np.dtype[np.int64]],
    nbytes: int,
    base: int,
) -> int:
    """The lowest place at or above ``base`` that meets none of the taken ranges."""
    at = base
    for which in np.argsort(lows, kind="stable"):
        if lows[which] - at >= nbytes:
            break
        at = max(at, int(highs[which]))
    return at


Arena = TypeVar("Arena")


class Arenas(Generic[Arena]):
    """Arenas of one size, handed out one a call; ``key`` tells apart what may not be mixed."""

    def __init__(self, make: Callable[[], Arena], drop: Callable[[Arena], None]) -> None:
        self._make = make
        self._drop = drop
        self._free: dict[int, list[Arena]] = {}
        self._lock = ForkLock()

    def take(self, key: int = 0) -> Arena:
        """An arena that no other call uses at this moment."""
        with self._lock:
            free = self._free.get(key)
            if free:
                return free.pop()
        return self._make()

    def give(self, arena: Arena, key: int = 0) -> None:
        """Hand an arena back; calls with the same key may use it from now on."""
        with self._lock:
            free = self._free.setdefault(key, [])
            if len(free) < _KEPT_ARENAS:
                free.append(arena)
                return
        self._drop(arena)

    def clear(self) -> None:
        """Drop the arenas that are not in use."""
        with self._lock:
            arenas = [arena for free in self._free.values() for arena in free]
            self._free.clear()
        for arena in arenas:
            self._drop(arena)
