"""Reverse mode: cotangents of outputs to cotangents of inputs, and forward mode by doing it twice.

The derivative of a pullback by its cotangent is the tangent map (a pullback is linear), so one
column of the table serves both directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ge2rt.autodiff.formula import gradient, sites
from ge2rt.ir.graph import Node, walk
from ge2rt.ir.make import input_node
from ge2rt.ir.rewrite import Builder


def pullback(
    builder: Builder, outputs: Sequence[Node], cotangents: Sequence[Node], wrt: Sequence[Node]
) -> list[Node | None]:
    """Cotangents of ``wrt``, in order, for those of the outputs; None for what no output reads.

    Types of cotangents are those of their nodes. Only floats have any.
    """
    order = list(walk(tuple(outputs)))
    active = _depending(order, wrt)
    sums: dict[Node, Node] = {}
    for node, cotangent in zip(outputs, cotangents, strict=True):
        _accumulate(builder, sums, node, cotangent)
    sources = set(wrt)
    for node in reversed(order):
        if node in sums and node in active and node not in sources:
            for operand, added in _flows(builder, node, sums[node], active):
                _accumulate(builder, sums, operand, added)
    return [sums.get(node) for node in wrt]


def _flows(
    builder: Builder, node: Node, cotangent: Node, active: set[Node]
) -> Iterator[tuple[Node, Node]]:
    """The operands to which something flows, and what."""
    for site in sites(node):
        operand = node.inputs[site.at]
        if operand in active and operand.type.element.is_float:
            added = gradient(builder, site, cotangent)
            if added is not None:
                yield operand, added


def pushforward(
    builder: Builder, outputs: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Node]
) -> list[Node | None]:
    """Tangents of the outputs for those of ``wrt``; None for what depends on none of them."""
    cotangents = [input_node(node.shape, node.dtype) for node in outputs]
    back = pullback(builder, outputs, cotangents, wrt)
    used = [(node, tangent) for node, tangent in zip(back, tangents, strict=True) if node]
    if not used:
        return [None] * len(outputs)
    return pullback(builder, [n for n, _ in used], [t for _, t in used], cotangents)


def _depending(order: Iterable[Node], wrt: Iterable[Node]) -> set[Node]:
    """The nodes that read one of ``wrt``, and these."""
    active = set(wrt)
    for node in order:
        if not active.isdisjoint(node.inputs):
            active.add(node)
    return active


def _accumulate(builder: Builder, sums: dict[Node, Node], node: Node, added: Node) -> None:
    before = sums.get(node)
    sums[node] = added if before is None else builder.make("add", before, added)
