"""Formulas of ``ops.yaml``: which names a derivative uses, and whether its text is well formed.

The language is a small part of Python's expressions: names, numbers, texts, ``+ - * /``, unary
minus, comparisons of two things and calls by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

# operator -> op
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.USub: "neg",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip


@lru_cache(maxsize=512)
def parse(text: str) -> ast.expr:
    """The tree of a formula. Raises :class:`ValueError` for what is not in the language."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as fault:
        raise ValueError(f"{text!r} is no formula: {fault.msg}") from None
    for _ in names(tree):
        pass
    return tree


def names(tree: ast.expr) -> Iterator[tuple[str, bool]]:
    """Every name in a formula and whether it is called."""
    found: list[ast.expr] = [tree]
    while found:
        node = found.pop()
        if isinstance(node, ast.Name):
            yield node.id, False
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, True
            found += node.args
            found += [keyword.value for keyword in node.keywords]
        elif not isinstance(node, ast.Constant):
            found += _operands(node)


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        return [node.operand]
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
        return [node.left, node.comparators[0]]
    raise ValueError(f"{ast.unparse(node)!r} cannot be used in a formula")
