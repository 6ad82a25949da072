"""Random graphs and arrays for the tests of the IR."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DTYPES
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import input_node, make
from ge2rt.ir.ops import OPS

ALL_DTYPES = [d.name for d in DTYPES.values() if d.kind != "storage"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, 2.0, -3.0, 1e-3]


def dtypes_of(op: str) -> list[str]:
    """Dtypes that the operands of class T may have."""
    return [name for name in ALL_DTYPES if DTYPES[name].kind in OPS[op].types]


def array(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, special: bool = True
) -> Any:
    """Values of all sizes; floats with zeros of both signs, infinities and NaN among them."""
    element = DTYPES[dtype]
    if element.kind == "bool":
        return rng.random(shape) < 0.5
    if element.is_integer:
        info = np.iinfo(element.numpy)
        wide = rng.integers(info.min, info.max, shape, element.numpy, endpoint=True)
        near = rng.integers(max(info.min, -4), 5, shape).astype(element.numpy)
        return np.asarray(np.where(rng.random(shape) < 0.5, wide, near), element.numpy)
    values = rng.standard_normal(shape) * 3
    if special:
        values = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), values)
    return np.asarray(values).astype(element.numpy)


def arrays(graph: Graph, seed: int, special: bool = True) -> list[Any]:
    """One array an input."""
    rng = np.random.default_rng(seed)
    return [array(rng, node.shape, node.dtype, special) for node in graph.inputs]


class Grower:
    """Grows a random graph; every op of the table can come up."""

    def __init__(self, seed: int, exact: bool = False) -> None:
        self.random = random.Random(seed)
        self.nodes: list[Node] = []
        self.ops = [op for op in _GROWABLE if not exact or self.is_exact(op)]
        self.exact = exact

    def is_exact(self, op: str) -> bool:
        """Whether NumPy gives the same bits however the values lie in memory."""
        return not OPS[op].tolerance or op in _IEEE or "int" in OPS[op].types

    def dtypes(self, op: str) -> list[str]:
        found = dtypes_of(op)
        if self.exact and OPS[op].tolerance and op not in _IEEE:
            return [name for name in found if not DTYPES[name].is_float]
        return found

    def graph(self, size: int) -> Graph:
        inputs = [self.input(i) for i in range(self.random.randint(1, 3))]
        self.nodes += inputs
        for _ in range(size):
            op = self.random.choice(self.ops)
            self.nodes.append(_GROW.get(OPS[op].kind, Grower.pointwise)(self, op))
        count = self.random.randint(1, 3)
        outputs = [self.nodes[-1], *self.random.choices(self.nodes, k=count)]
        return Graph("random", tuple(inputs), tuple(outputs))

    def input(self, i: int) -> Node:
        return input_node(self.shape(), self.random.choice(ALL_DTYPES), f"x{i}")

    def shape(self) -> tuple[int, ...]:
        extents = [1, 2, 3, 3, 4] if self.random.random() < 0.95 else [0, 1, 2]
        return tuple(self.random.choice(extents) for _ in range(self.random.randint(0, 3)))

    def pick(self, dtypes: list[str], rank: int = 0) -> Node:
        """A node of one of these dtypes, cast or made where there is none."""
        found = [n for n in self.nodes if n.dtype in dtypes and n.type.rank >= rank]
        if found and self.random.random() < 0.9:
            return self.random.choice(found[-6:])
        near = [n for n in self.nodes if n.type.rank >= rank]
        if near:
            return make("cast", self.random.choice(near), dtype=self.random.choice(dtypes))
        shape = tuple(self.random.choice([1, 2, 3]) for _ in range(max(rank, 1)))
        return make("full", shape=shape, dtype=self.random.choice(dtypes), value=1)

    def like(self, x: Node) -> Node:
        """Another value of the type of ``x``."""
        way = self.random.random()
        same = [n for n in self.nodes if n.type == x.type]
        if same and way < 0.5:
            return self.random.choice(same)
        if way < 0.8:
            return self.constant(x)
        if x.dtype != "bool" and x.type.rank and way < 0.9:
            axis = self.random.randrange(x.type.rank)
            return make("iota", shape=x.shape, dtype=x.dtype, axis=axis)
        return x

    def constant(self, x: Node) -> Node:
        kind = DTYPES[x.dtype].kind
        value: Any = self.random.choice([0, 1, 2, 3])
        if kind == "float":
            value = self.random.choice([*SPECIAL, 3.0, 8.0, 0.25])
        if kind == "int":
            value = self.random.choice([0, 1, 2, 3, -1, -128])
        value = value > 1 if kind == "bool" else value
        return make("full", shape=x.shape, dtype=x.dtype, value=value)

    def pointwise(self, op: str) -> Node:
        spec = OPS[op]
        x = self.pick(self.dtypes(op))
        operands = []
        for operand in spec.operands:
            if operand.types == "bool":
                condition = make("full", shape=x.shape, dtype="bool", value=True)
                operands.append(self.like(condition))
            else:
                operands.append(self.like(x) if x in operands else x)
        if len({operand.type for operand in operands}) == 1:
            self.random.shuffle(operands)
        attrs = {"dtype": self.random.choice(ALL_DTYPES)} if spec.attrs else {}
        return make(op, *operands, **attrs)

    def view(self, op: str) -> Node:
        x = self.pick(ALL_DTYPES)
        return make(op, x, **_VIEW_ATTRS[op](self, x.shape))

    def reduce(self, op: str) -> Node:
        x = self.pick(self.dtypes(op), rank=1)
        axis = self.random.randrange(x.type.rank)
        if x.shape[axis] == 0:
            return make("isnan", make("cast", x, dtype="f32"))
        if OPS[op].shape == "reduce_one":
            return make(op, x, axis=axis)
        other = self.random.randrange(x.type.rank)
        axes = tuple(sorted({axis, other}))
        return make(op, x, axes=axes if x.shape[other] else (axis,))

    def along(self, op: str) -> Node:
        x = self.pick(self.dtypes(op), rank=1)
        return make(op, x, axis=self.random.randrange(x.type.rank))

    def index(self, op: str) -> Node:
        x = self.pick(self.dtypes(op), rank=1)
        axis = self.random.randrange(x.type.rank)
        if op == "concat":
            return make(op, x, *[self.like(x) for _ in range(self.random.randint(0, 2))], axis=axis)
        if op == "pad":
            widths = [[self.random.randint(0, 2) for _ in x.shape] for _ in "lh"]
            value = self.constant(x).attrs["value"]
            return make(op, x, low=widths[0], high=widths[1], value=value)
        if x.shape[0] == 0:
            return x
        index = make("iota", shape=(2, 2), dtype="i64", axis=0)
        limit = make("full", shape=(2, 2), dtype="i64", value=x.shape[0] - 1)
        return make(op, x, make("minimum", index, limit))

    def product(self, op: str) -> Node:
        x = self.pick(self.dtypes(op), rank=2)
        perm = (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2)
        return make(op, x, make("transpose", self.like(x), perm=perm))


def _slice_attrs(grower: Grower, shape: tuple[int, ...]) -> dict[str, Any]:
    start, step, count = [], [], []
    for extent in shape:
        by = grower.random.choice([1, 1, 2, -1])
        first = grower.random.randrange(extent) if extent else 0
        room = (extent - 1 - first) // by if by > 0 else first // -by
        start.append(first)
        step.append(by)
        least = 0 if grower.random.random() < 0.1 else 1
        count.append(grower.random.randint(least, room + 1) if extent else 0)
    return {"start": start, "step": step, "shape": count}


def _reshaped(grower: Grower, shape: tuple[int, ...]) -> dict[str, Any]:
    factors = [e for e in shape if e != 1]
    joined = (*factors[:-2], math.prod(factors[-2:]))
    ways = [(math.prod(shape),), tuple(factors), (*shape, 1), (1, *shape), joined]
    return {"shape": grower.random.choice(ways)}


def _permuted(grower: Grower, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"perm": grower.random.sample(range(len(shape)), len(shape))}


def _repeated(grower: Grower, shape: tuple[int, ...]) -> dict[str, Any]:
    grown = tuple(grower.random.choice([1, 2, 3]) if e == 1 else e for e in shape)
    lead = (grower.random.randint(1, 3),) if len(shape) < 3 else ()
    return {"shape": lead + grown}


_VIEW_ATTRS = {
    "slice": _slice_attrs, "reshape": _reshaped, "transpose": _permuted, "broadcast": _repeated,
}  # fmt: skip
_GROW: dict[str, Any] = {
    "view": Grower.view, "reduce": Grower.reduce, "scan": Grower.along, "sort": Grower.along,
    "index": Grower.index, "contract": Grower.product,
}  # fmt: skip
_KINDS = ("pointwise", "view", "reduce", "scan", "sort", "index", "contract")
# operations that IEEE 754 rounds correctly
_IEEE = frozenset({"square", "sqrt", "reciprocal", "add", "sub", "mul", "div"})
# the sign of a NaN is not defined, and these show it
_SIGNS = frozenset({"signbit", "copysign"})
_GROWABLE = [n for n, spec in OPS.items() if spec.kind in _KINDS and n not in _SIGNS]
_GROWABLE += [name for name, spec in OPS.items() if spec.kind == "view"] * 5
_GROWABLE += ["add", "mul", "neg", "cast", "select", "sub"] * 3


def random_graph(seed: int, size: int = 16, *, exact: bool = False) -> Graph:
    """The graph of a seed; ``exact``: without ops whose bits depend on strides."""
    return Grower(seed, exact).graph(size)
