"""``softmax(q k^T * scale + mask) v`` as one op, so that no score matrix is ever stored.

Matches where nobody else reads a value in between. Constants that scale q or k join the scale.
Masks: a triangle of row and column numbers becomes ``causal``; a condition with -inf stays a
condition; anything added stays added. A condition with a finite fill is one with -inf, but for rows
where nothing is kept: their weights are equal. (Under a causal triangle such a fill is added, and
these rows follow their scores.)
Sums are in f32 throughout, so f16 and bf16 round once instead of at each step.
"""

from __future__ import annotations

from dataclasses import dataclass

from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.passes.canonicalise import Simplifier
from ge2rt.ir.patterns.softmax import (
    Mask,
    Scores,
    factor_of,
    numerator,
    scores_of,
    softmax,
    spread,
    through,
)
from ge2rt.ir.rewrite import Builder, replaced
from ge2rt.ir.rules.views import stripped

_DTYPES = frozenset({"f32", "f16", "bf16"})
_WIDEST = 256  # elements of a head


@dataclass(frozen=True)
class Attention:
    """What goes into the op; ``root`` is the node that it replaces."""

    root: Node
    scores: Scores
    values: Node


def run(graph: Graph) -> Graph:
    """The graph with attention as one node each."""
    finder = _Finder(graph)
    found = {}
    for node in graph.nodes:
        match = finder.match(node)
        if match is not None:
            found[node] = match
    if not found:
        return graph
    builder = Simplifier()
    new: dict[Node, Node] = {node: builder.keep(node) for node in graph.inputs}
    for node in graph.nodes:
        if node in found:
            new[node] = _made(builder, found[node], new)
        else:
            new[node] = builder.like(node, map(new.__getitem__, node.inputs))
    return replaced(graph, new)


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self.users = graph.users
        self.outputs = set(graph.outputs)

    def match(self, root: Node) -> Attention | None:
        """The attention that ends in ``root``."""
        if root.op == "matmul":
            product, inner = root, []
            known = softmax(root.inputs[0])
        elif root.op == "div" and root.inputs[0].op == "matmul":  # divided by the sums at the end
            product = root.inputs[0]
            inner = [product]
            total = spread(root.inputs[1], root.shape[:-1], inner)
            known = numerator(product.inputs[0], total, inner)
        else:
            return None
        scores = scores_of(known.scores) if known is not None else None
        if known is None or scores is None:
            return None
        inside = {*inner, *known.inner, *scores.inner}
        if not self.private(inside - {root}, {*inside, root}):
            return None
        match = Attention(root, scores, product.inputs[1])
        return match if _fits(match) else None

    def private(self, nodes: set[Node], readers: set[Node]) -> bool:
        """Whether only ``readers`` read the nodes."""
        return all(
            node not in self.outputs and readers.issuperset(self.users[node]) for node in nodes
        )


def _fits(match: Attention) -> bool:
    """Whether the kernel can do it: dtype, sizes of heads, and equal batch axes."""
    q, k = match.scores.product.inputs
    v = match.values
    same = {q.dtype, k.dtype, v.dtype, match.root.dtype}
    return (
        len(same) == 1
        and same <= _DTYPES
        and 0 < q.shape[-1] <= _WIDEST
        and 0 < v.shape[-1] <= _WIDEST
        and v.shape[-2] > 0
        and stripped(q.shape[:-2]) == stripped(v.shape[:-2])
    )


def _made(builder: Builder, match: Attention, new: dict[Node, Node]) -> Node:
    root, scores = match.root, match.scores
    q, k = (new[x] for x in scores.product.inputs)
    v = new[match.values]
    q, by_query = _unscaled(builder, q)
    k, by_key = _unscaled(builder, k)
    last = k.type.rank - 1
    keys = builder.make("transpose", k, perm=(*range(last - 1), last, last - 1), where=k.where)
    values = builder.make("reshape", v, shape=(*q.shape[:-2], *v.shape[-2:]), where=v.where)
    added = scores.causal is not None
    mask = [_mask(builder, scores.mask, new, q.type.rank, added)] if scores.mask is not None else []
    made = builder.make(
        "attention", q, keys, values, *mask, scale=scores.scale * by_query * by_key,
        causal=scores.causal is not None,
        diagonal=scores.causal.diagonal if scores.causal is not None else 0, where=root.where,
    )  # fmt: skip
    if scores.mask is not None and scores.mask.fill is not None and not added:
        made = _evened(builder, made, mask[0], values)
    return builder.make("reshape", made, shape=root.shape, where=root.where)


def _unscaled(builder: Builder, x: Node) -> tuple[Node, float]:
    """``x`` without a constant factor, which may lie under transposes."""
    views: list[Node] = []
    inner = x
    while inner.op in ("transpose", "reshape"):
        views.append(inner)
        inner = inner.inputs[0]
    factor = factor_of(inner)
    if factor is None:
        return x, 1.0
    result = inner.inputs[0]
    for view in reversed(views):
        result = builder.make(view.op, result, where=view.where, **dict(view.attrs))
    return result, factor


def _evened(builder: Builder, made: Node, mask: Node, values: Node) -> Node:
    """The mean of the values in rows where the mask keeps nothing."""
    where, last = made.where, mask.type.rank - 1
    some = builder.make("any", mask, axes=(last,), where=where)
    some = builder.make("reshape", some, shape=(*mask.shape[:-1], 1), where=where)
    wide = builder.make("cast", values, dtype="f32", where=where)
    total = builder.make("sum", wide, axes=(last - 1,), where=where)
    count = builder.make("full", shape=total.shape, dtype="f32", value=float(values.shape[-2]))
    mean = builder.make("div", total, count, where=where)
    mean = builder.make("cast", mean, dtype=made.dtype, where=where)
    mean = builder.make("reshape", mean, shape=(*values.shape[:-2], 1, values.shape[-1]))
    sides = [builder.make("broadcast", x, shape=made.shape, where=where) for x in (some, mean)]
    return builder.make("select", sides[0], made, sides[1], where=where)


def _mask(
    builder: Builder, mask: Mask, new: dict[Node, Node], rank: int, added: bool
) -> Node:  # fmt: skip
    """The mask before its broadcast, of the scores' rank: f32 to be added, or a bool.

    ``added``: a finite fill is added where a condition does not hold.
    """
    node = through(mask.node, [])
    small = new[node.inputs[0] if node.op == "broadcast" else node]
    shape = stripped(small.shape)
    shape = (1,) * (rank - len(shape)) + shape
    small = builder.make("reshape", small, shape=shape, where=small.where)
    if mask.drops:
        small = builder.make("logical_not", small, where=small.where)
    if mask.fill is not None and added:
        zero = builder.make("full", shape=shape, dtype="f32", value=0.0)
        low = builder.make("full", shape=shape, dtype="f32", value=mask.fill)
        small = builder.make("select", small, zero, low, where=small.where)
    if mask.minus:
        small = builder.make("neg", small, where=small.where)
    if small.dtype != "bool":
        small = builder.make("cast", small, dtype="f32", where=small.where)
    return small
