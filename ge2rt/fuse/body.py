"""The C++ text of a region: statements over named values, and which operands they read how."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

from ge2rt.base.dtypes import DTYPES
from ge2rt.fuse import expression
from ge2rt.fuse.access import Layout, Shape, merge_axes, merged
from ge2rt.fuse.values import BRANCH, FULL, ROW, Place, Region, Value
from ge2rt.ir.graph import Node

WALK, FREE = "walk", "free"
_MOST_SCALARS = 200  # a kernel's arguments end at 4 KB


@dataclass(frozen=True)
class Input:
    """A buffer that the kernel reads: walked along with the space (or the rows), or freely.

    ``layout`` is over the merged space, merged rows (``on_row``) or, of a free one, its own axes.
    """

    name: str
    source: Node
    layout: Layout
    kind: str
    on_row: bool = False


@dataclass(frozen=True)
class Output:
    """A buffer that the kernel writes."""

    name: str
    node: Node
    value: Value
    layout: Layout
    on_row: bool


@dataclass(frozen=True)
class Scalar:
    """A number that the kernel takes as an argument; ``sized`` follows from extents."""

    name: str
    dtype: str
    value: float
    sized: bool = False


@dataclass
class Operands:
    """What a text refers to besides its own values."""

    inputs: dict[tuple[object, ...], Input] = field(default_factory=dict)
    scalars: dict[tuple[str, str], Scalar] = field(default_factory=dict)
    sized: dict[int, str] = field(default_factory=dict)
    fault: bool = False
    coords: bool = False


class Writer:
    """Writes the statements of one region. Names depend on the structure only."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.operands = Operands()
        self.names: dict[int, str] = {}
        self.count = 0
        self.branches = 0
        self.places: dict[int, list[str]] = {}
        self.literal = expression.needs_literal(region.values)
        self.wide = any(v.dtype == "f64" and v.kind in ("load", "gather") for v in region.values)
        self.wide |= any(store.node.dtype == "f64" for store in region.stores)
        self.kept_runs, self.runs = self._merge()
        self.row_shape = merged(region.full.shape[: region.kept], self.kept_runs, extents=True)
        behind = merged(region.full.shape[region.kept :], self.runs, extents=True)
        self.shape = (self.row_shape if region.is_reduction else ()) + behind
        self.base = [f"c{axis}" for axis in range(len(self.shape))]
        self.outputs = [
            Output(
                f"y{i}", s.node, s.value, self.squash(s.layout, s.value.place),
                s.value.place.kind == ROW,
            )
            for i, s in enumerate(region.stores)
        ]  # fmt: skip

    # -- the merged space -----------------------------------------------------------------------

    def _merge(self) -> tuple[list[list[int]], list[list[int]]]:
        region, kept = self.region, self.region.kept
        full: list[Shape] = []
        row: list[Shape] = []
        for place, strides in _riders(region):
            (full if place is region.full else row).append(strides)
        shape = region.full.shape
        before = merge_axes(shape[:kept], [f[:kept] for f in full] + row)
        return before, merge_axes(shape[kept:], [f[kept:] for f in full])

    def squash(self, layout: Layout, place: Place) -> Layout:
        """A layout over a base place as one over the merged space."""
        if place.kind == BRANCH:
            return layout
        kept, strides = self.region.kept, layout.strides
        before = merged(strides[:kept], self.kept_runs, extents=False)
        if place.kind == ROW:
            return Layout(self.row_shape, before, layout.offset)
        behind = merged(strides[kept:], self.runs, extents=False)
        strides = (before if self.region.is_reduction else ()) + behind
        return Layout(self.shape, strides, layout.offset)

    # -- operands -------------------------------------------------------------------------------

    def input_of(self, value: Value) -> Input:
        """The input that a load or gather reads."""
        assert value.source is not None
        assert value.layout is not None
        place, free = value.place, value.place.kind == BRANCH or value.kind == "gather"
        layout = self._gathered(value) if value.kind == "gather" else value.layout
        layout = layout if free else self.squash(layout, place)
        kind, on_row = (FREE if free else WALK), place.kind == ROW
        key = (value.source, layout.shape, layout.key, kind, on_row)
        inputs = self.operands.inputs
        if key not in inputs:
            inputs[key] = Input(f"x{len(inputs)}", value.source, layout, kind, on_row)
        return inputs[key]

    def _gathered(self, value: Value) -> Layout:
        """The axes that indices choose, then the merged space."""
        layout, count = value.layout, len(value.args)
        assert layout is not None
        behind = Layout(layout.shape[count:], layout.strides[count:], layout.offset)
        behind = self.squash(behind, value.place)
        return Layout(
            layout.shape[:count] + behind.shape, layout.strides[:count] + behind.strides,
            behind.offset,
        )  # fmt: skip

    def scalar(self, value: Value) -> str:
        """A constant: a literal, or the name of an argument as the type that computes."""
        dtype = value.dtype
        number = expression.constant_value(value.constant, dtype)
        narrow = dtype == "f64" and not self.wide  # the argument would be a float
        if expression.is_literal(number, dtype) or id(value) in self.literal or narrow:
            return expression.constant_literal(number, dtype)
        key = (dtype, repr(number))
        scalars = self.operands.scalars
        if key not in scalars:
            if len(scalars) >= _MOST_SCALARS:
                return expression.constant_literal(number, dtype)
            scalars[key] = Scalar(f"s{len(scalars)}", dtype, number)
        name, ctype = scalars[key].name, expression.calc_type(dtype)
        return name if ctype == "float" and not self.wide else f"static_cast<{ctype}>({name})"

    def number(self, value: int) -> str:
        """The name of a whole number that follows from extents or places."""
        if value in (0, 1):
            return str(value)
        known = self.operands.sized
        return known.setdefault(value, f"k{len(known)}")

    def affine(self, layout: Layout, place: Place) -> str:
        """A coordinate, given as a layout over a place, as an expression."""
        names = self.coordinates(place)
        layout = self.squash(layout, place)
        numbers = {n: self.number(n) for n in expression.numbers_of(layout)}
        return expression.affine(layout, names, numbers)

    def coordinates(self, place: Place) -> list[str]:
        """Names of a place's coordinates."""
        if place.kind == BRANCH:
            return self.places[id(place)]
        self.operands.coords = True
        return self.base if place.kind == FULL else self.base[: len(self.row_shape)]

    # -- statements -----------------------------------------------------------------------------

    def name(self, value: Value) -> str:
        """How an expression refers to a value that has been emitted."""
        if value.kind == "const":
            return self.scalar(value)
        if value.kind == "same":
            return self.name(value.args[0])
        return self.names[id(value)]

    def fresh(self, value: Value) -> str:
        """The name of a value's variable."""
        if id(value) not in self.names:
            self.count += 1
            self.names[id(value)] = f"v{self.count}"
        return self.names[id(value)]

    def emit(self, place: Place, wanted: set[int]) -> list[str]:
        """Statements for the wanted values of one place, in order."""
        lines: list[str] = []
        for value in self.region.values:
            if value.place is place and id(value) in wanted and value.kind not in _NO_STATEMENT:
                lines += self._statements(value, wanted)
        return lines

    def all_statements(self, roots: Sequence[Value]) -> list[str]:
        """Statements for everything that ``roots`` of the full space need."""
        return self.emit(self.region.full, wanted_by(roots))

    def _statements(self, value: Value, wanted: set[int]) -> Iterator[str]:
        if value.kind == "load" and value.place.kind != BRANCH:
            element = f"{self.input_of(value).name}_value"
            if value.dtype not in expression.HALVES:
                self.names[id(value)] = element
                return
            text = expression.loaded(element, value.dtype)
        elif value.kind == "choose":
            yield from self._choose(value, wanted)
            return
        elif value.kind == "gather":
            text = yield from self._gather(value)
        else:
            text = self._text(value)
        name = self.fresh(value)
        yield f"const {expression.calc_type(value.dtype)} {name} = {text};"

    def _text(self, value: Value) -> str:
        if value.kind == "op":
            assert value.node is not None
            return expression.op_text(value.node, [self.name(arg) for arg in value.args])
        assert value.layout is not None
        if value.kind == "coord":
            text = self.affine(value.layout, value.place)
            ctype = expression.calc_type(value.dtype)
            text = text if DTYPES[value.dtype].is_integer else f"static_cast<{ctype}>({text})"
            return expression.rounded(text, value.dtype)
        read = self.input_of(value)  # a load inside a branch
        at = _address(read.name, self.coordinates(value.place))
        return expression.loaded(f"{read.name}[{at}]", value.dtype)

    def _gather(self, value: Value) -> Generator[str, None, str]:
        assert value.source is not None
        self.operands.fault = True
        if value.source.type.size == 0:
            yield "*fault = 1;"
            return f"{expression.calc_type(value.dtype)}(0)"
        read = self.input_of(value)
        number = self.fresh(value)[1:]  # a later pass writes the same value again
        indices = []
        for axis, arg in enumerate(value.args):
            name = f"i{number}_{axis}"
            indices.append(name)
            checked = f"index_inside({self.name(arg)}, {read.name}_n{axis}, fault)"
            yield f"const index_t {name} = {checked};"
        at = _address(read.name, indices + self.coordinates(value.place))
        return expression.loaded(f"{read.name}[{at}]", value.dtype)

    def _choose(self, value: Value, wanted: set[int]) -> Iterator[str]:
        assert value.node is not None
        name = self.fresh(value)
        yield f"{expression.calc_type(value.dtype)} {name};"
        ordered = value.node.op == "concat"
        for number, branch in enumerate(value.branches):
            tests = []
            for layout, low, high in branch.where:
                at = self.affine(layout, value.place)
                if not ordered:
                    tests.append(f"{at} >= {self.number(low)}")
                tests.append(f"{at} < {self.number(high)}")
            last = number == len(value.branches) - 1
            test = " && ".join(tests)
            opening = "{" if last else f"if ({test}) {{"
            yield f"{'} else ' if number else ''}{opening}"
            inner = self._branch(branch.place)
            inner += self.emit(branch.place, wanted)
            inner.append(f"{name} = {self.name(branch.value)};")
            yield from (f"  {line}" for line in inner)
        yield "}"

    def _branch(self, place: Place) -> list[str]:
        """Declares the coordinates of a branch."""
        self.branches += 1  # a name of its own in each pass: inner blocks may not shadow outer ones
        assert place.parent is not None
        names = [f"e{self.branches}_{axis}" for axis in range(len(place.shape))]
        texts = [self.affine(layout, place.parent) for layout in place.coordinates]
        self.places[id(place)] = names
        return [
            f"[[maybe_unused]] const index_t {name} = {text};"
            for name, text in zip(names, texts, strict=True)
        ]


_NO_STATEMENT = frozenset({"const", "same", "reduce"})


def _address(name: str, coordinates: Sequence[str]) -> str:
    """The element of a free input at coordinates, one an axis."""
    return " + ".join(f"{at} * {name}_s{axis}" for axis, at in enumerate(coordinates)) or "0"


def _riders(region: Region) -> Iterator[tuple[Place, Shape]]:
    """Strides over the base places of everything that moves along with them."""
    for value in region.values:
        base = value.place.kind != BRANCH
        if base and value.layout is not None:
            yield value.place, value.layout.strides[len(value.args) :]  # a gather: behind indices
        for branch in value.branches:
            if base:
                yield from ((value.place, layout.strides) for layout, _, _ in branch.where)
                yield from ((value.place, c.strides) for c in branch.place.coordinates)
    for store in region.stores:
        yield store.value.place, store.layout.strides


def wanted_by(
    roots: Sequence[Value], *, through_rows: bool = True, given: Sequence[Value] = ()
) -> set[int]:
    """Ids of the values that ``roots`` need, up to reductions.

    Not beyond row values unless ``through_rows``, and not beyond values that are ``given``.
    """
    found: set[int] = set()
    stops = {id(value) for value in given}
    stack = list(roots)
    while stack:
        value = stack.pop()
        if id(value) in found:
            continue
        found.add(id(value))
        at_row = value.place.kind == ROW and not through_rows
        if value.kind == "reduce" or at_row or id(value) in stops:
            continue
        stack += value.args
        stack += [branch.value for branch in value.branches]
    return found
