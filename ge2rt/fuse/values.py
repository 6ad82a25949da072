"""What one kernel computes, as a list of values: between the graph and the C++ text.

A value stands for one element of a tensor at the coordinates of its *place*: every point of the
iteration space, one a row of a reduction, or a branch in which only one operand of a join is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ge2rt.base.shapes import size_of
from ge2rt.fuse.access import Layout, Shape
from ge2rt.ir.graph import Node

FULL, ROW, BRANCH = "full", "row", "branch"


@dataclass(eq=False)
class Place:
    """Coordinates at which values are computed.

    ``kind`` is full (the whole space, kept axes first), row (the kept axes) or branch (the space of
    one operand of a concat or pad). A branch has a ``parent`` and, for each of its axes, the
    coordinate as a layout over the parent's space, whose address is the coordinate.
    """

    kind: str
    shape: Shape
    parent: Place | None = None
    coordinates: tuple[Layout, ...] = ()


@dataclass(eq=False)
class Value:
    """One value. ``kind`` says what it is and which fields it uses.

    ====== =====================================================================================
    load   element of ``source`` at ``layout`` (over the place's space)
    const  ``constant``
    coord  the address in ``layout`` is the value (iota)
    same   ``args[0]``, a row value, at every point of the row
    op     the pointwise op of ``node`` on ``args``
    reduce the reduction ``node`` of ``args[0]`` (full) to a row value
    gather element of ``source`` at ``layout``: an axis for each of ``args``, then the space
    choose one of ``branches``, by the coordinate ``layout``
    ====== =====================================================================================

    ``depth`` is the number of reductions, one after the other, that must be done before.
    """

    kind: str
    dtype: str
    place: Place
    node: Node | None = None
    args: tuple[Value, ...] = ()
    source: Node | None = None
    layout: Layout | None = None
    constant: bool | int | float = 0
    branches: tuple[Branch, ...] = ()
    depth: int = 0
    cost: int = 0  # of this value alone: 1 for arithmetic, more for functions


@dataclass(frozen=True, eq=False)
class Branch:
    """One operand of a join: taken where each ``(coordinate, low, high)`` of ``where`` holds."""

    where: tuple[tuple[Layout, int, int], ...]
    place: Place
    value: Value


@dataclass
class Region:
    """The values of one kernel, operands first, and what it writes.

    ``axes`` is None for a pointwise kernel, else the number of kept axes: those behind are reduced.
    """

    full: Place
    row: Place | None
    kept: int
    values: list[Value] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    visited: set[Node] = field(default_factory=set)  # nodes computed here
    passed: set[Node] = field(default_factory=set)  # the same, and the views between them
    leaves: set[Node] = field(default_factory=set)  # nodes whose buffers are read

    @property
    def is_reduction(self) -> bool:
        """Whether there is a row to reduce."""
        return self.row is not None

    @property
    def size(self) -> int:
        """Number of points."""
        return size_of(self.full.shape)

    @property
    def weight(self) -> int:
        """How much code its pointwise values are, as a number of ordinary ops."""
        return sum(weight_of(v.node) for v in self.values if v.kind == "op" and v.node)

    @property
    def is_walked(self) -> bool:
        """Whether a buffer has an element at every point, so that it tells the extents."""
        stored = [store.value for store in self.stores]
        loads = [value for value in self.values if value.kind == "load"]
        return any(value.place is self.full for value in stored + loads)


@dataclass(frozen=True, eq=False)
class Store:
    """A value written to the buffer of ``node``, whose layout over the value's place is given."""

    node: Node
    value: Value
    layout: Layout


Values: TypeAlias = "Iterable[Value]"

_CHEAP = frozenset({
    "add", "sub", "mul", "neg", "abs", "sign", "square", "maximum", "minimum", "select", "clamp",
    "cast", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor",
    "logical_not", "invert", "bitand", "bitor", "bitxor", "shl", "shr", "fmax", "fmin", "copysign",
    "isnan", "isinf", "isfinite", "signbit", "floor", "ceil", "trunc", "round",
})  # fmt: skip
_MIDDLE = frozenset({"div", "sqrt", "rsqrt", "reciprocal"})
EXPENSIVE = 8


def cost_of(op: str) -> int:
    """What one pointwise op costs: 1 for arithmetic, 3 for a division, more for a function."""
    return 1 if op in _CHEAP else 3 if op in _MIDDLE else EXPENSIVE


# Functions of doubles that are thousands of instructions each, most of them for rare arguments.
_LONG = frozenset({"sin", "cos", "tan", "pow", "mod", "fmod", "floordiv"})
LONG = 400

# In single precision these reduce large arguments in a loop: five in one kernel are enough.
_LOOPS = frozenset({"sin", "cos", "tan", "mod", "fmod", "floordiv"})
_LOOP = 180


def weight_of(node: Node) -> int:
    """How much code one pointwise op is, as a number of ordinary ops."""
    if node.dtype == "f64":
        return LONG if node.op in _LONG else 1
    return _LOOP if node.op in _LOOPS and node.type.element.is_float else 1
