"""What a corpus program is: a ``.cu`` file, its data, its launches, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Data = dict[str, Any]
Dim = tuple[int, ...]

ARCHS = (75, 80, 86, 89, 90)
FOLDER = Path(__file__).parent / "cuda"
VECTOR_ALIGN = 256


@dataclass(frozen=True)
class Launch:
    """One launch. ``args`` names entries of the data, separated by blanks."""

    grid: Dim
    block: Dim
    args: str
    entry: str = "k"
    shared: int = 0
    repeat: int = 1


@dataclass(frozen=True)
class Table:
    """An array of pointers: to every ``stride``-th byte of a buffer of the data."""

    buffer: str
    stride: int
    count: int


@dataclass(frozen=True)
class Program:
    """A program and its answer.

    ``build`` gives the data by name: arrays (buffers on the device), NumPy scalars, bytes (structs
    by value), pointer tables. ``expected`` gets the data before the launches and returns
    {name: content after}; a buffer that it does not name must stay as it was, unless ``scratch``
    names it. Where the result is not unique, ``verify(before, after)`` judges the buffers in
    ``judged`` itself.
    """

    name: str
    build: Callable[[np.random.Generator], Data]
    launches: tuple[Launch, ...]
    expected: Callable[[Data], Data]
    rtol: float = 0.0
    atol: float = 0.0
    scratch: str = ""
    judged: str = ""
    verify: Callable[[Data, Data], None] | None = None
    symbols: dict[str, str] = field(default_factory=dict)  # __constant__/__device__ name -> data
    names: tuple[str, ...] = ()  # C++ name expressions; launches use them as entries
    options: tuple[str, ...] = ()
    since: int = 75  # the first arch that admits it
    follows: str = ""  # the kind of public program whose structure it has
    gap: str = ""  # what the device lacks: the message of its UnsupportedError

    @property
    def path(self) -> Path:
        """The CUDA text."""
        return FOLDER / f"{self.name}.cu"

    @property
    def source(self) -> str:
        """The CUDA text."""
        return self.path.read_text(encoding="utf-8")

    @property
    def archs(self) -> tuple[int, ...]:
        """Architectures that admit the program."""
        return tuple(a for a in ARCHS if a >= self.since)

    def data(self, seed: int = 0) -> Data:
        """Fresh data, the same for the same seed."""
        return self.build(np.random.default_rng(seed))

    def check(self, before: Data, after: Data) -> None:
        """Raise AssertionError where ``after`` is not the answer."""
        wanted = self.expected(before)
        free = {*self.scratch.split(), *self.judged.split()}
        for name, old in before.items():
            if isinstance(old, np.ndarray) and name not in free:
                self._compare(name, after[name], wanted.get(name, old), name in wanted)
        if self.verify is not None:
            self.verify(before, after)

    def _compare(self, name: str, new: Array, want: Array, loose: bool) -> None:
        title = f"{self.name}: {name}"
        assert new.shape == np.shape(want), f"{title}: the expectation has shape {np.shape(want)}"
        if new.dtype.kind in "iub" or not loose or not (self.rtol or self.atol):
            np.testing.assert_array_equal(new, want, err_msg=title)
        else:
            np.testing.assert_allclose(
                new.astype(np.float64), np.asarray(want).astype(np.float64),
                rtol=self.rtol, atol=self.atol, err_msg=title,
            )  # fmt: skip


def programs() -> list[Program]:
    """All programs, in a fixed order."""
    from corpus import FAMILIES, family

    return [program for name in FAMILIES for program in family(name)]
