"""A derivative's text as nodes: ``g * cos(x)`` for the operands of one node."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ge2rt.autodiff.functions import FUNCTIONS
from ge2rt.ir.formula import OPERATORS, parse
from ge2rt.ir.graph import Node
from ge2rt.ir.ops import OPS, OpSpec
from ge2rt.ir.rewrite import Builder

# A node, several (operands of one name), or a plain value: an attribute, a number.
Value: TypeAlias = Any


@dataclass(frozen=True)
class Site:
    """One use of an operand: operand number ``at`` of ``node``, which is called ``name`` there."""

    node: Node
    at: int
    name: str


def sites(node: Node) -> list[Site]:
    """The operands of a node, with their names in the table."""
    return [Site(node, at, name) for at, name in enumerate(_names(OPS[node.op], len(node.inputs)))]


def _names(spec: OpSpec, count: int) -> list[str]:
    names = [operand.name for operand in spec.operands][:count]
    return names + names[-1:] * (count - len(names))


def gradient(builder: Builder, site: Site, cotangent: Node) -> Node | None:
    """What the cotangent of a node adds to that of one operand; None where nothing flows."""
    text = OPS[site.node.op].derivative.get(site.name)
    if text is None:
        return None
    operand = site.node.inputs[site.at]
    found = _Writer(builder, site, cotangent).value(parse(text), operand)
    assert found.type == operand.type, (site.node.op, text, found.type, operand.type)
    return found


class _Writer:
    """Writes one text down."""

    def __init__(self, builder: Builder, site: Site, cotangent: Node) -> None:
        self._builder, self._site = builder, site
        self._values: dict[str, Value] = {**site.node.attrs, **_operands(site)}
        self._values |= {"g": cotangent, "y": site.node}

    def value(self, tree: ast.expr, near: Node) -> Node:
        """A tree as a node; a bare number takes the type of ``near``."""
        found = self._eval(tree)
        return found if isinstance(found, Node) else self._number(found, near)

    def _eval(self, tree: ast.expr) -> Value:
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.Name):
            return self._values[tree.id]
        op, operands, attrs = _call(tree)
        values = [self._eval(operand) for operand in operands]
        named = {name: self._eval(value) for name, value in attrs.items()}
        function = FUNCTIONS.get(op)
        if function is not None:
            return function(self._builder, self._site, *values, **named)
        return self._op(op, values, named)

    def _op(self, op: str, values: Sequence[Value], attrs: Mapping[str, Any]) -> Value:
        near = next((v for v in reversed(values) if isinstance(v, Node)), None)
        if near is None:  # the only such texts are negative numbers
            assert op == "neg"
            return -values[0]
        nodes = [v if isinstance(v, Node) else self._number(v, near) for v in values]
        return self._builder.make(op, *nodes, where=self._site.node.where, **attrs)

    def _number(self, value: float, near: Node) -> Node:
        return self._builder.make("full", shape=near.shape, dtype=near.dtype, value=value)


def _operands(site: Site) -> dict[str, Value]:
    """The operands by name: the one in question, or all of another name that repeats."""
    found: dict[str, Value] = {}
    spec = OPS[site.node.op]
    for operand in spec.operands:
        same = [s.node.inputs[s.at] for s in sites(site.node) if s.name == operand.name]
        found[operand.name] = tuple(same) if operand.many else next(iter(same), None)
    found[site.name] = site.node.inputs[site.at]
    return found


def _call(tree: ast.expr) -> tuple[str, list[ast.expr], dict[str, ast.expr]]:
    """Op or function, operands and attributes of an expression that is no name and no number."""
    if isinstance(tree, ast.BinOp):
        return OPERATORS[type(tree.op)], [tree.left, tree.right], {}
    if isinstance(tree, ast.UnaryOp):
        return OPERATORS[type(tree.op)], [tree.operand], {}
    if isinstance(tree, ast.Compare):
        return OPERATORS[type(tree.ops[0])], [tree.left, tree.comparators[0]], {}
    assert isinstance(tree, ast.Call)
    assert isinstance(tree.func, ast.Name)
    return tree.func.id, tree.args, {str(k.arg): k.value for k in tree.keywords}
