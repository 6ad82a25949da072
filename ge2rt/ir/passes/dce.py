"""Dead work: values without elements, and parts of joins that a slice never reads.

Nodes that no output needs are not in a graph to begin with. A gather whose result is dead is not
checked for indices outside, as its result is never read.
"""

from __future__ import annotations

from ge2rt.base.shapes import size_of
from ge2rt.ir.attrs import integer, ints, number
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


def unread(builder: Builder, node: Node) -> Node | None:
    """A slice that reads one operand of a concat, or only what lies inside a pad."""
    x = node.inputs[0]
    if x.op not in ("concat", "pad"):
        return None
    start = ints(node, "start")
    step = ints(node, "step")
    ends = [sorted((s, s + k * (n - 1))) for s, k, n in zip(start, step, node.shape, strict=True)]
    for part, origin in _parts(x):
        rows = zip(ends, origin, part.shape, strict=True)
        if all(low >= at and high < at + extent for (low, high), at, extent in rows):
            moved = tuple(s - at for s, at in zip(start, origin, strict=True))
            return builder.make("slice", part, start=moved, step=step, shape=node.shape,
                                where=node.where)  # fmt: skip
    return None


def _parts(x: Node) -> list[tuple[Node, tuple[int, ...]]]:
    """What a join is made of, and where each part begins."""
    if x.op == "pad":
        low = ints(x, "low")
        return [(x.inputs[0], low)]
    axis = integer(x, "axis")
    parts, at = [], 0
    for part in x.inputs:
        parts.append((part, tuple(at if a == axis else 0 for a in range(x.type.rank))))
        at += part.shape[axis]
    return parts


def _rule(builder: Builder, node: Node) -> Node | None:
    gone = empty(builder, node)
    if gone is None and node.op == "slice" and size_of(node.shape):
        return unread(builder, node)
    return gone


def run(graph: Graph) -> Graph:
    """The graph without work that nobody reads."""
    return rebuild(graph, _rule, Simplifier())
