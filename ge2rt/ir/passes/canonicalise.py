"""Local rules until none applies: one spelling for each thing, nothing that does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.ops import OPS
from ge2rt.ir.rewrite import Builder, Rule, rebuild
from ge2rt.ir.rules import arithmetic, logic, shapes, views

_STEPS = 64  # rewrites of one node in a row; each rule makes its node simpler


class Simplifier(Builder):
    """A builder whose nodes come out simplified."""

    def make(self, op: str, *inputs: Node, where: str = "", **attrs: Any) -> Node:
        """The simplest node known for this operation."""
        return self.simplify(super().make(op, *inputs, where=where, **attrs))

    def simplify(self, node: Node) -> Node:
        """``node``, whose operands are simple, after all rules that apply."""
        table = rules()
        for _ in range(_STEPS):
            for rule in table.get(node.op, ()):
                better = rule(self, node)
                if better is not None and better is not node:
                    node = better
                    break
            else:
                return node
        return node


@lru_cache(maxsize=1)
def rules() -> Mapping[str, tuple[Rule, ...]]:
    """All local rules by op, in the order in which they are tried."""
    table: dict[str, tuple[Rule, ...]] = {}
    for part in (*views.TABLES, *shapes.TABLES, *arithmetic.TABLES, *logic.TABLES):
        for op, found in part.items():
            table[op] = table.get(op, ()) + found
    for name, spec in OPS.items():
        if spec.pointwise:
            table[name] = (*table.get(name, ()), logic.through_choice)
    return table


def run(graph: Graph) -> Graph:
    """The graph in canonical form."""
    simplifier = Simplifier()
    return rebuild(graph, lambda _, node: simplifier.simplify(node), simplifier)
