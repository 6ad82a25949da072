"""The trace in progress: its inputs, the arrays it met, and where in the user's code it is."""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Hashable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidTypeError
from ge2rt.ir.graph import Node
from ge2rt.ir.make import input_node, make

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep


class Trace:
    """One run of the user's function on symbols.

    ``captured`` are the arrays that the function took from elsewhere; each is an input behind the
    arguments. ``pinned`` are arrays whose content shaped the graph, each with a copy of it.
    """

    def __init__(self, name: str, bits: int) -> None:
        self.name = name
        self.closed = False
        self.captured: list[Any] = []
        self.captured_nodes: list[Node] = []
        self.pinned: list[tuple[Any, Any]] = []
        self.symbols: dict[int, Any] = {}  # id of a captured array -> the symbol in its place
        self.copies: dict[int, tuple[Any, Any]] = {}  # id of a function -> it, and its copy
        self.substitutes = True  # whether captured arrays are replaced by symbols
        self.asked: BaseException | None = None  # what wants known values, if anything does
        self.bits = bits  # of Python integers in arithmetic, see jit/intervals.py
        self.ranges: dict[int, tuple[int, int]] = {}  # leaf -> values that the graph is for
        self.arguments: list[tuple[int, Any]] = []  # (leaf, its symbol)
        self.changed: list[int] = []  # leaves that were written, in order
        self.later: set[tuple[int, int]] = set()  # (written leaf, one that was read afterwards)
        self._known: dict[int, int] = {}

    def narrow(self, leaf: int, low: int, high: int) -> None:
        """The graph holds for values of a Python integer within these bounds only."""
        have = self.ranges.get(leaf, (low, high))
        self.ranges[leaf] = max(low, have[0]), min(high, have[1])

    def wrote(self, memory: Any) -> None:
        """An argument's memory was written: others that overlap it may not be read any more."""
        for leaf, symbol in self.arguments:
            if symbol.memory is memory and leaf not in self.changed:
                self.changed.append(leaf)
        self.read(memory)

    def read(self, memory: Any) -> None:
        """Memory was read: not what it should be if it overlaps what was written before."""
        for leaf, symbol in self.arguments:
            if symbol.memory is memory:
                self.later.update((before, leaf) for before in self.changed if before != leaf)

    def capture(self, array: Any) -> Node:
        """The input node that stands for ``array``, whose content is read on each call."""
        found = self._known.get(id(array))
        if found is None:
            found = self._known[id(array)] = len(self.captured)
            self.captured.append(array)  # also keeps the id valid
            self.captured_nodes.append(
                input_node(
                    tuple(array.shape),
                    dtype_of(array.dtype).name,
                    f"captured{found}",
                    where=where(),
                )
            )
        return self.captured_nodes[found]

    def pin(self, array: Any) -> Any:
        """``array``, whose content the graph depends on from now on."""
        self.pinned.append((array, np.array(array)))
        return array


class _Active(threading.local):
    trace: Trace | None = None


_active = _Active()


def active() -> Trace | None:
    """The trace in progress in this thread, or None."""
    return _active.trace


def current() -> Trace:
    """The trace in progress in this thread."""
    if _active.trace is None:
        raise InvalidTypeError(
            "a traced array is used outside the function that was traced", where=where(),
            next_step="return it from the jitted function instead of keeping it elsewhere",
        )  # fmt: skip
    return _active.trace


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Make ``trace`` the one in progress.

    A jitted function called on traced values is inlined; one called on arrays while another is
    traced is compiled by itself, and the outer trace goes on afterwards.
    """
    before = _active.trace
    _active.trace = trace
    try:
        yield trace
    finally:
        _active.trace = before
        trace.closed = True


def where() -> str:
    """``file:line`` of the innermost frame that is neither this library's nor NumPy's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_OWN, _NUMPY)):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def asked_by_own_code() -> bool:
    """Whether the caller was called by this library, or by Python's for it."""
    frame = sys._getframe(2)
    while frame is not None and _is_pythons(frame):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_code.co_filename.startswith(_OWN)


def _is_pythons(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).split(".")[0] in sys.stdlib_module_names


def emit(op: str, *inputs: Node, **attrs: Hashable) -> Node:
    """A node that remembers the user's line."""
    return make(op, *inputs, where=where(), **attrs)
