"""The checker: what must hold for every graph, before and after each pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ge2rt.base.errors import InternalError, InvalidArgumentError
from ge2rt.ir.graph import Graph, Node, walk
from ge2rt.ir.make import make

_PLAIN = (bool, int, float, str)


def verify(graph: Graph) -> Graph:
    """The same graph. Raises :class:`InternalError` naming every fault, node by node."""
    faults = list(_faults(graph))
    if faults:
        raise InternalError(
            f"graph {graph.name} is not valid:\n" + "\n".join(faults),
            next_step="print the graph before and after each pass to find the one that broke it",
        )
    return graph


def _faults(graph: Graph) -> Iterator[str]:
    declared = set(graph.inputs)
    if len(declared) != len(graph.inputs):
        yield "an input is listed twice"
    yield from (f"{node!r} is listed as an input" for node in declared if node.op != "input")
    for number, node in enumerate(walk(graph.outputs)):
        if node.op != "input":
            yield from (f"node {number}, {node!r}: {fault}" for fault in _node_faults(node))
        elif node not in declared:
            yield f"node {number}: input {node.attrs.get('name')!r} is not among the graph's inputs"


def _node_faults(node: Node) -> Iterator[str]:
    for name, value in node.attrs.items():
        parts = value if isinstance(value, tuple) else (value,)
        if any(type(part) not in _PLAIN for part in parts):
            yield f"attribute {name} is not plain: {value!r}"
    try:
        attrs: dict[str, Any] = dict(node.attrs)
        again = make(node.op, *node.inputs, **attrs)
    except InvalidArgumentError as fault:
        yield fault.record.message
        return
    if again.type != node.type:
        yield f"its operands give {again.type}"
    if again.key[2] != node.key[2]:
        yield f"attributes {dict(node.attrs)} are not in the plain form {dict(again.attrs)}"
