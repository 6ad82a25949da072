"""Graphs written as formulas: a value with Python's operators, broadcast as NumPy does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import input_node, make


class V:
    """A node with operators."""

    __array_priority__ = 100.0

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape

    def lift(self, other: Any) -> V:
        if isinstance(other, V):
            return other
        value = other.item() if isinstance(other, np.generic) else other
        return V(make("full", shape=self.shape, dtype=self.node.dtype, value=value))

    def to(self, shape: tuple[int, ...]) -> V:
        return self if shape == self.shape else V(make("broadcast", self.node, shape=shape))

    def pair(self, op: str, other: Any, swap: bool = False) -> V:
        left, right = self, self.lift(other)
        if swap:
            left, right = right, left
        shape = np.broadcast_shapes(left.shape, right.shape)
        return V(make(op, left.to(shape).node, right.to(shape).node))

    def __add__(self, other: Any) -> V:
        return self.pair("add", other)

    def __radd__(self, other: Any) -> V:
        return self.pair("add", other, True)

    def __sub__(self, other: Any) -> V:
        return self.pair("sub", other)

    def __rsub__(self, other: Any) -> V:
        return self.pair("sub", other, True)

    def __mul__(self, other: Any) -> V:
        return self.pair("mul", other)

    def __rmul__(self, other: Any) -> V:
        return self.pair("mul", other, True)

    def __truediv__(self, other: Any) -> V:
        return self.pair("div", other)

    def __rtruediv__(self, other: Any) -> V:
        return self.pair("div", other, True)

    def __pow__(self, other: Any) -> V:
        return self.pair("pow", other)

    def __neg__(self) -> V:
        return V(make("neg", self.node))

    def __matmul__(self, other: V) -> V:
        return V(make("matmul", self.node, other.node))

    def __gt__(self, other: Any) -> V:
        return self.pair("gt", other)

    def __ge__(self, other: Any) -> V:
        return self.pair("ge", other)

    def __lt__(self, other: Any) -> V:
        return self.pair("lt", other)

    def __le__(self, other: Any) -> V:
        return self.pair("le", other)

    def transpose(self, *perm: int) -> V:
        return V(make("transpose", self.node, perm=perm))

    @property
    def T(self) -> V:
        rank = len(self.shape)
        return self.transpose(*range(rank - 2), rank - 1, rank - 2)

    def reshape(self, *shape: int) -> V:
        return V(make("reshape", self.node, shape=shape))

    def cast(self, dtype: str) -> V:
        return V(make("cast", self.node, dtype=dtype))

    def rows(self, op: str) -> V:
        """A reduction along the last axis that keeps it."""
        reduced = make(op, self.node, axes=(len(self.shape) - 1,))
        return V(make("reshape", reduced, shape=(*self.shape[:-1], 1)))

    def __getitem__(self, cut: slice) -> V:
        """Rows of the first axis."""
        start, stop, step = cut.indices(self.shape[0])
        count = len(range(start, stop, step))
        rest = len(self.shape) - 1
        return V(make(
            "slice", self.node, start=(start, *[0] * rest), step=(step, *[1] * rest),
            shape=(count, *self.shape[1:]),
        ))  # fmt: skip


def var(*shape: int, dtype: str = "f32", name: str = "") -> V:
    """An input."""
    return V(input_node(shape, dtype, name))


def call(op: str, x: V, *others: Any) -> V:
    """An op by name, numbers lifted."""
    return V(make(op, x.node, *[x.lift(other).node for other in others]))


def where(c: V, a: Any, b: Any) -> V:
    """``numpy.where``; one answer may be a number."""
    like = a if isinstance(a, V) else b
    a, b = like.lift(a), like.lift(b)
    shape = np.broadcast_shapes(c.shape, a.shape, b.shape)
    return V(make("select", c.to(shape).node, a.to(shape).node, b.to(shape).node))


def iota(shape: tuple[int, ...], axis: int, dtype: str = "i64") -> V:
    """Indices along an axis."""
    return V(make("iota", shape=shape, dtype=dtype, axis=axis))


def graph_of(*outputs: V) -> Graph:
    """The graph of some values, its inputs in the order in which they are found."""
    from ge2rt.ir.graph import walk

    nodes = tuple(output.node for output in outputs)
    inputs = tuple(node for node in walk(nodes) if node.op == "input")
    return Graph("written", inputs, nodes)
