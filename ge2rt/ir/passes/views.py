"""Views toward the leaves, so that what computes has one shape and views fold into strides.

A transpose, slice or reshape of computed values becomes views of the operands.

A view moves only into a node that all readers want viewed the same, so nothing is computed twice.
A transpose moves only where it does not part a reduction from what it shares a kernel with, a
reshape only where each leaf can be reshaped for nothing. A slice alone also moves through
broadcasts, sums and products, which then work on less; sums of floats may add up in another order.
"""

from __future__ import annotations

from ge2rt.base.shapes import size_of
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.ops import OPS
from ge2rt.ir.passes.canonicalise import Simplifier
from ge2rt.ir.rewrite import replaced
from ge2rt.ir.rules.slicing import can_slice, resliced, sliced_operands
from ge2rt.ir.rules.views import stripped, suffix

_MOVING = frozenset({"transpose", "slice", "reshape"})
_LOOKS = frozenset({"transpose", "slice", "broadcast", "reshape", "iota"})
_MOST = 4  # views in a row, and sizes of rows, that are worth keeping track of

Chain = tuple[Node, ...]  # views to apply, innermost first; their own operands do not matter


def run(graph: Graph) -> Graph:
    """The graph with views moved toward its inputs."""
    return replaced(graph, _Build(graph, _Plan(graph)).new)


class _Plan:
    """Which nodes come out already viewed: ``wanted[node]`` is the chain of views."""

    def __init__(self, graph: Graph) -> None:
        self.users = graph.users
        self.outputs = set(graph.outputs)
        self.asked: dict[Node, list[Chain]] = {}
        self.rows = _row_sizes(graph, self)
        self.loose = _loose(graph, self)
        self.wanted: dict[Node, Chain] = {}
        self.cuts: dict[Node, tuple[Node, ...]] = {}  # slices of the operands of sliced work
        for node in reversed(graph.nodes):
            chain = self.agreed(node)
            if chain:
                self.wanted[node] = chain
            if _takes_slice(node, chain):
                self.cuts[node] = sliced_operands(node, chain[0])
            if node.op in _MOVING and node not in self.cuts:
                self.ask(node.inputs[0], (node, *chain))
            elif chain:
                for operand, inner in zip(node.inputs, self.views(node), strict=True):
                    self.ask(operand, inner)

    def ask(self, node: Node, chain: Chain) -> None:
        """Note that a reader of ``node`` would have it viewed."""
        self.asked.setdefault(node, []).append(chain)

    def agreed(self, node: Node) -> Chain:
        """The views in which all readers want ``node``, where it can take them in."""
        chains = self.asked.get(node, ())
        if not chains or node in self.outputs or len(chains) < len(self.users[node]):
            return ()
        chain = chains[0]
        known = _key(chain)
        same = all(other is chain or _key(other) == known for other in chains)
        return chain if same and len(chain) <= _MOST and self.fits(node, chain) else ()

    def views(self, node: Node) -> list[Chain]:
        """For each operand, the views that a viewed node reads it through."""
        cuts = self.cuts.get(node)
        return [(cut,) for cut in cuts] if cuts else [self.wanted[node]] * len(node.inputs)

    def single(self, node: Node, user: Node) -> bool:
        """Whether ``user`` alone reads ``node``."""
        return node not in self.outputs and set(self.users[node]) == {user}

    def fits(self, node: Node, chain: Chain) -> bool:
        """Whether ``node`` can take these views in."""
        if OPS[node.op].pointwise or node.op in _MOVING:
            if node not in self.loose and any(view.op == "transpose" for view in chain):
                return False
            shapes = [view.shape for view in chain if view.op == "reshape"]
            rows = self.rows.get(node) if shapes else frozenset()
            return rows is not None and all(
                suffix(shape, row) is not None for shape in shapes for row in rows
            )
        return _takes_slice(node, chain)


def _takes_slice(node: Node, chain: Chain) -> bool:
    return len(chain) == 1 and chain[0].op == "slice" and can_slice(node, chain[0])


def _key(chain: Chain) -> tuple[tuple[str, tuple[object, ...]], ...]:
    """What makes two chains the same views."""
    return tuple((view.op, tuple(view.attrs.values())) for view in chain)


def _loose(graph: Graph, plan: _Plan) -> set[Node]:
    """Nodes whose operands can all be transposed: none is half of a kernel with a reduction."""
    found: set[Node] = set(graph.inputs)
    for node in graph.nodes:
        kind = OPS[node.op].kind
        if kind == "reduce":
            continue
        if kind not in ("pointwise", "view") or all(
            x in found and (not OPS[x.op].pointwise or plan.single(x, node))
            for x in node.inputs
            if x.op != "input"
        ):
            found.add(node)
    return found


def _row_sizes(graph: Graph, plan: _Plan) -> dict[Node, frozenset[int]]:
    """Nodes that can be reshaped for nothing, and the sizes of the rows that repeat in them.

    A value of rows repeated along leading axes can take a new shape that ends in one row.
    """
    found: dict[Node, frozenset[int]] = {node: frozenset() for node in graph.inputs}
    for node in graph.nodes:
        if node.op == "broadcast":
            row = stripped(node.inputs[0].shape)
            if tuple(node.shape[node.type.rank - len(row) :]) == row:
                found[node] = frozenset({size_of(row)})
        elif node.op == "reshape":
            if node.inputs[0] in found:
                found[node] = found[node.inputs[0]]
        elif OPS[node.op].pointwise:
            # what others read as well stands in memory, in row-major order
            inside = [
                found.get(x) if x.op in _LOOKS or plan.single(x, node) else frozenset[int]()
                for x in node.inputs
            ]
            known = [rows for rows in inside if rows is not None]
            together = frozenset[int]().union(*known)
            if len(known) == len(inside) and len(together) <= _MOST:
                found[node] = together
        elif node.op not in ("transpose", "slice", "iota"):
            found[node] = frozenset()
    return found


class _Build:
    """The new nodes: ``new[node]`` is the value of ``node`` after its wanted views."""

    def __init__(self, graph: Graph, plan: _Plan) -> None:
        self.plan = plan
        self.builder = Simplifier()
        self.new: dict[Node, Node] = {node: self.builder.keep(node) for node in graph.inputs}
        for node in graph.nodes:
            self.new[node] = self.made(node)

    def made(self, node: Node) -> Node:
        chain = self.plan.wanted.get(node, ())
        cut = node in self.plan.cuts
        if node.op in _MOVING and not cut:
            return self.viewed(node.inputs[0], (node, *chain))
        if not chain:
            same = all(self.new[x] is x for x in node.inputs)
            moved = (
                node if same else self.builder.like(node, map(self.new.__getitem__, node.inputs))
            )
            return self.builder.keep(moved)
        views = self.plan.views(node)
        operands = [self.viewed(x, view) for x, view in zip(node.inputs, views, strict=True)]
        attrs = resliced(node, chain[0]) if cut else dict(node.attrs)
        return self.builder.make(node.op, *operands, where=node.where, **attrs)

    def viewed(self, node: Node, chain: Chain) -> Node:
        """The value of ``node`` after the views, which it may have taken in."""
        value = self.new[node]
        if node in self.plan.wanted:
            return value  # in the views that all its readers want
        for view in chain:
            value = self.builder.make(view.op, value, where=view.where, **dict(view.attrs))
        return value
