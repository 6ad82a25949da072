"""Dead work: values without elements.

Nodes that no output needs are not in a graph to begin with. A gather whose result is dead is not
checked for indices outside, as its result is never read.
"""

from __future__ import annotations

from ge2rt.ir.attrs import number
from ge2rt.ir.constants import full
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.passes.canonicalise import Simplifier
from ge2rt.ir.rewrite import Builder, rebuild


def empty(builder: Builder, node: Node) -> Node | None:
    """A constant in place of work on no elements, and of sums over nothing."""
    if node.op == "full" or not node.inputs:
        return None
    if node.type.size == 0:
        return full(builder, node.type, False if node.dtype == "bool" else 0)
    nothing = node.inputs[0].type.size == 0
    start = {"sum": 0, "prod": 1, "any": False, "all": True, "matmul": 0, "pad": None}
    if not nothing or node.op not in start:
        return None
    value = start[node.op]
    return full(builder, node.type, number(node, "value") if value is None else value)


def run(graph: Graph) -> Graph:
    """The graph without work that nobody reads."""
    return rebuild(graph, empty, Simplifier())
