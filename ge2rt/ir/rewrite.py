"""Rebuilding graphs: a map from old nodes to new ones, equal nodes made once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ge2rt.ir.graph import Graph, Node, walk
from ge2rt.ir.make import make


class Builder:
    """Makes nodes and keeps them: asking twice for the same gives the same node."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], Node] = {}

    def keep(self, node: Node) -> Node:
        """The node that stands for all equal ones."""
        return self._kept.setdefault(node.key, node)

    def make(self, op: str, *inputs: Node, where: str = "", **attrs: Any) -> Node:
        """:func:`ge2rt.ir.make.make`, hash-consed."""
        return self.keep(make(op, *inputs, where=where, **attrs))

    def like(self, node: Node, inputs: Iterable[Node]) -> Node:
        """``node`` on other operands of the same types."""
        return self.keep(Node(node.op, tuple(inputs), node.type, node.attrs, node.where))


Rule = Callable[[Builder, Node], "Node | None"]


def rebuild(graph: Graph, rule: Rule, builder: Builder | None = None) -> Graph:
    """The graph with ``rule`` applied to each node, operands first.

    The rule gets a node on its new operands and returns what takes its place, or None to keep it.
    Inputs stay themselves. A graph that does not change is returned as it is.
    """
    builder = builder or Builder()
    new: dict[Node, Node] = {node: builder.keep(node) for node in graph.inputs}
    for node in graph.nodes:
        operands = tuple(map(new.__getitem__, node.inputs))
        same = all(map(_identical, operands, node.inputs))
        moved = builder.keep(node) if same else builder.like(node, operands)
        new[node] = rule(builder, moved) or moved
    return replaced(graph, new)


def replaced(graph: Graph, new: dict[Node, Node]) -> Graph:
    """The graph with its outputs mapped; itself where none changes."""
    outputs = tuple(map(new.__getitem__, graph.outputs))
    if all(map(_identical, outputs, graph.outputs)):
        return graph
    return Graph(graph.name, graph.inputs, outputs)


def _identical(a: Node, b: Node) -> bool:
    return a is b


def substituted(outputs: Iterable[Node], given: Mapping[Node, Node]) -> list[Node]:
    """The nodes with others of the same types in place of some that they read."""
    builder, wanted = Builder(), list(outputs)
    new = dict(given)
    for node in walk(tuple(wanted)):
        if node not in new:
            operands = tuple(new[operand] for operand in node.inputs)
            same = all(map(_identical, operands, node.inputs))
            new[node] = node if same else builder.like(node, operands)
    return [new[node] for node in wanted]
