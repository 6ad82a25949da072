"""Common subexpressions: equal nodes once; ``a + b`` and ``b + a`` are equal."""

from __future__ import annotations

from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.rewrite import Builder, replaced
from ge2rt.ir.rules.arithmetic import COMMUTATIVE, EXTREMES

# which of two equal zeros an extreme takes depends on the order
_SWAPPED = COMMUTATIVE - EXTREMES


def run(graph: Graph) -> Graph:
    """The graph in which no two nodes compute the same."""
    builder = Builder()
    place = {node: i for i, node in enumerate(graph.inputs)}
    new: dict[Node, Node] = {node: node for node in graph.inputs}
    seen: dict[tuple[object, ...], Node] = {}
    for node in graph.nodes:
        operands = tuple(new[x] for x in node.inputs)
        same = all(a is b for a, b in zip(operands, node.inputs, strict=True))
        made = node if same else builder.like(node, operands)
        made = builder.keep(made)
        place.setdefault(made, len(place))
        key = made.key
        if made.op in _SWAPPED:
            first = tuple(sorted(operands, key=place.__getitem__))
            key = (made.op, tuple(map(id, first)), *made.key[2:])
        new[node] = seen.setdefault(key, made)
    return replaced(graph, new)
