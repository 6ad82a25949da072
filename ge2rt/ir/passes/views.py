"""Views toward the leaves, so that what computes has one shape and views fold into strides.

A transpose, slice or reshape of computed values becomes views of the operands.

A view moves only through a node whose one user it is, so nothing is computed twice, and never
through a broadcast. A reshape moves only where each leaf can be reshaped for nothing. A slice also
moves into sums and products, which then work on less; sums of floats may add up in another order.
"""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.base.shapes import size_of
from ge2rt.ir.attrs import integer, ints
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import make
from ge2rt.ir.ops import OPS
from ge2rt.ir.passes.canonicalise import Simplifier
from ge2rt.ir.rewrite import replaced
from ge2rt.ir.rules.views import stripped, suffix

_MOVING = frozenset({"transpose", "slice", "reshape"})
_REDUCTIONS = frozenset({"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"})
_LOOKS = frozenset({"transpose", "slice", "broadcast", "reshape", "iota"})
_PRODUCTS = frozenset({"matmul", "gemm_bias_act"})
_MOST = 4  # views in a row, and sizes of rows, that are worth keeping track of

Chain = tuple[Node, ...]  # views to apply, innermost first; their own operands do not matter


def run(graph: Graph) -> Graph:
    """The graph with views moved toward its inputs."""
    return replaced(graph, _Build(graph, _Plan(graph)).new)


class _Plan:
    """Which nodes come out already viewed: ``wanted[node]`` is the chain of views."""

    def __init__(self, graph: Graph) -> None:
        self.users = {node: set(readers) for node, readers in graph.users.items()}
        self.outputs = set(graph.outputs)
        self.rows = _row_sizes(graph, self)
        self.wanted: dict[Node, Chain] = {}
        self.cuts: dict[Node, tuple[Node, ...]] = {}  # slices of the operands of sliced work
        for node in reversed(graph.nodes):
            chain = self.wanted.get(node, ())
            if node.op in _MOVING:
                self.ask(node, node.inputs[0], (node, *chain))
            elif chain:
                if not OPS[node.op].pointwise:
                    self.cuts[node] = _cuts(chain[0], node)
                self.pass_on(node)

    def pass_on(self, node: Node) -> None:
        """Ask the operands of a viewed node; not one that it reads in two ways."""
        views = self.views(node)
        for operand, chain in zip(node.inputs, views, strict=True):
            if all(v == chain for x, v in zip(node.inputs, views, strict=True) if x is operand):
                self.ask(node, operand, chain)

    def views(self, node: Node) -> list[Chain]:
        """For each operand, the views that a viewed node reads it through."""
        cuts = self.cuts.get(node)
        return [(cut,) for cut in cuts] if cuts else [self.wanted[node]] * len(node.inputs)

    def single(self, node: Node, user: Node) -> bool:
        """Whether ``user`` alone reads ``node``."""
        return node not in self.outputs and self.users[node] == {user}

    def ask(self, user: Node, node: Node, chain: Chain) -> None:
        """Have ``node`` come out viewed, where that costs nothing."""
        if node.op == "input" or not self.single(node, user) or len(chain) > _MOST:
            return
        if self.fits(node, chain):
            self.wanted[node] = chain

    def fits(self, node: Node, chain: Chain) -> bool:
        """Whether ``node`` can take these views in."""
        if any(view.op == "reshape" for view in chain[1:]):
            return False
        if OPS[node.op].pointwise or node.op in _MOVING:
            rows = self.rows.get(node) if chain[0].op == "reshape" else frozenset()
            return rows is not None and all(suffix(chain[0].shape, row) is not None for row in rows)
        slices = len(chain) == 1 and chain[0].op == "slice" and node.type.rank > 0
        return slices and node.op in _REDUCTIONS | _PRODUCTS


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
        if node.op in _MOVING:
            return self.viewed(node.inputs[0], (node, *chain))
        if not chain:
            same = all(self.new[x] is x for x in node.inputs)
            moved = (
                node if same else self.builder.like(node, map(self.new.__getitem__, node.inputs))
            )
            return self.builder.keep(moved)
        views = self.plan.views(node)
        operands = [self.viewed(x, view) for x, view in zip(node.inputs, views, strict=True)]
        return self.builder.make(node.op, *operands, where=node.where, **dict(node.attrs))

    def viewed(self, node: Node, chain: Chain) -> Node:
        """The value of ``node`` after the views, which it may have taken in."""
        value = self.new[node]
        if self.plan.wanted.get(node) == chain:
            return value
        for view in chain:
            value = self.builder.make(view.op, value, where=view.where, **dict(view.attrs))
        return value


def _cuts(view: Node, node: Node) -> tuple[Node, ...]:
    """What a slice of a reduction or product reads of each operand, as slices."""
    start, step = ints(view, "start"), ints(view, "step")
    if node.op in _PRODUCTS:
        left, right = node.inputs[:2]
        inner = left.shape[-1]
        return (
            _cut(left, (*start[:-1], 0), (*step[:-1], 1), (*view.shape[:-1], inner)),
            _cut(
                right, (*start[:-2], 0, start[-1]), (*step[:-2], 1, step[-1]),
                (*view.shape[:-2], inner, view.shape[-1]),
            ),
            *(_cut(bias, *_narrowed(view, bias)) for bias in node.inputs[2:]),
        )  # fmt: skip
    gone = {integer(node, "axis")} if "axis" in node.attrs else set(ints(node, "axes"))
    rows = iter(zip(start, step, view.shape, strict=True))
    x = node.inputs[0]
    whole = [(0, 1, extent) if a in gone else next(rows) for a, extent in enumerate(x.shape)]
    first, by, shape = zip(*whole, strict=True)
    return (_cut(x, first, by, shape),)


def _cut(x: Node, start: Sequence[int], step: Sequence[int], shape: Sequence[int]) -> Node:
    return make("slice", x, start=tuple(start), step=tuple(step), shape=tuple(shape), where=x.where)


def _narrowed(view: Node, bias: Node) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The slice of a bias that belongs to a slice of the product: axes of extent 1 stay."""
    rank = bias.type.rank
    ends = [tuple(part[len(part) - rank :]) for part in (ints(view, "start"), ints(view, "step"))]
    rows = zip(bias.shape, *ends, view.shape[view.type.rank - rank :], strict=True)
    cut = [(0, 1, 1) if extent == 1 else (s, k, n) for extent, s, k, n in rows]
    start, step, shape = zip(*cut, strict=True) if cut else ((), (), ())
    return start, step, shape
