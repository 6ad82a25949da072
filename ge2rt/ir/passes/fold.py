"""Constant folding: pointwise ops on constants, and sums of them where the value is exact.

Only uniform constants (``full``) are folded, so a folded graph is never larger.
"""

from __future__ import annotations

from ge2rt.ir.constants import Scalar, constant, folded, full
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.ops import OPS
from ge2rt.ir.passes.canonicalise import Simplifier
from ge2rt.ir.rewrite import Builder, rebuild

# whole numbers up to here are exact, and so are their sums in f32
_EXACT = 1 << 24


def fold(builder: Builder, node: Node) -> Node | None:
    """The constant that a node on constants gives, or None."""
    if not node.inputs or any(x.op != "full" for x in node.inputs):
        return None
    if OPS[node.op].pointwise:
        return folded(builder, node, node.inputs)
    value = constant(node.inputs[0])
    if node.op == "sum" and value is not None:
        return _sum(builder, node, value)
    if node.op == "concat" and len({repr(constant(x)) for x in node.inputs}) == 1:
        return full(builder, node.type, value or 0)
    return node.inputs[0] if node.op == "sort" else None


def _sum(builder: Builder, node: Node, value: Scalar) -> Node | None:
    element = node.type.element
    count = node.inputs[0].type.size // max(node.type.size, 1)
    if element.is_float:
        # f16 and bf16 hold fewer whole numbers than their f32 sums
        limit = {"f16": 2048, "bf16": 256}.get(node.dtype, _EXACT)
        if (
            not float(value).is_integer()
            or abs(value) * count > limit
            or (value == 0 and count == 0)
        ):
            return None
        return full(builder, node.type, value * count)
    bits = element.itemsize * 8
    total = int(value) * count & ((1 << bits) - 1)
    if element.kind == "int" and total >> (bits - 1):
        total -= 1 << bits
    return full(builder, node.type, total)


def run(graph: Graph) -> Graph:
    """The graph with constants worked out."""
    return rebuild(graph, fold, Simplifier())
