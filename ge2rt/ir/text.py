"""Graphs as text, and back. One node a line: number, op, operands, attributes, type, source.

graph mlp {
  %0 = input(name='x') : f32[4,8]
  %1 = full(shape=(4, 8), dtype='f32', value=2.0) : f32[4,8]
  %2 = mul(%0, %1) : f32[4,8]  # model.py:12
  return %2
}
"""

from __future__ import annotations

import ast
import re
from typing import Any, NoReturn

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import input_node, make

_HEAD = re.compile(r"graph (?P<name>\S+|'.*'|\".*\") \{$")
# texts in quotes, tuples, and all else but quotes and brackets
_INSIDE = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\([^()'\"]*\)|[^()'\"])*"
_LINE = re.compile(
    rf"%(?P<number>\d+) = (?P<op>\w+)\((?P<inside>{_INSIDE})\) : (?P<type>\w+\[[\d,]*\])"
    r"(  # (?P<where>.*))?$"
)
_RETURN = re.compile(r"return (?P<values>.*)$")
_OPERANDS = re.compile(r"(%\d+(, %\d+)*)?(, )?")
_PLAIN_NAME = re.compile(r"[\w.<>-]+$")
_WORDS = {"inf": float("inf"), "nan": float("nan")}


def print_graph(graph: Graph, *, where: bool = True) -> str:
    """The graph's text. ``where``: whether lines end with the user's ``file:line``."""
    order = (*graph.inputs, *graph.nodes)
    number = {node: i for i, node in enumerate(order)}
    name = graph.name if _PLAIN_NAME.match(graph.name) else repr(graph.name)
    lines = [f"graph {name} {{"]
    for node in order:
        inside = [f"%{number[operand]}" for operand in node.inputs]
        inside += [f"{key}={value!r}" for key, value in node.attrs.items()]
        source = f"  # {_printable(node.where)}" if where and node.where else ""
        lines.append(f"  %{number[node]} = {node.op}({', '.join(inside)}) : {node.type}{source}")
    returned = ", ".join(f"%{number[node]}" for node in graph.outputs)
    return "\n".join([*lines, f"  return {returned}".rstrip(), "}", ""])


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def parse_graph(text: str) -> Graph:
    """The graph of a text made by :func:`print_graph`.

    Raises :class:`InvalidArgumentError` with the line where the text is wrong: its form, an unknown
    operand, or a type that is not what the op gives.
    """
    lines = [(i, line.strip()) for i, line in enumerate(text.splitlines(), 1)]
    lines = [(i, line) for i, line in lines if line and not line.startswith("#")]
    head = _HEAD.match(lines[0][1]) if lines else None
    if head is None:
        _refuse(1, "a graph begins with 'graph NAME {'")
    nodes: dict[str, Node] = {}
    outputs: tuple[Node, ...] | None = None
    for i, line in lines[1:]:
        if outputs is not None:
            if line != "}":
                _refuse(i, "nothing but '}' follows 'return'")
            continue
        if line.startswith("return"):
            found = _RETURN.match(line)
            outputs = _operands(i, found["values"], nodes) if found else ()
            continue
        match = _LINE.match(line)
        if match is None:
            _refuse(i, "a node reads '%N = op(%A, %B, attr=value) : dtype[extents]'")
        if match["number"] in nodes:
            _refuse(i, f"%{match['number']} is defined twice")
        nodes[match["number"]] = _node(i, match, nodes)
    if outputs is None:
        _refuse(len(text.splitlines()), "the line 'return' is missing")
    inputs = tuple(node for node in nodes.values() if node.op == "input")
    name = head["name"]
    return Graph(ast.literal_eval(name) if name[0] in "'\"" else name, inputs, outputs)


def _node(line: int, match: re.Match[str], nodes: dict[str, Node]) -> Node:
    inside = match["inside"]
    split = _OPERANDS.match(inside)
    assert split is not None  # the pattern matches the empty text
    operands = _operands(line, (split[1] or ""), nodes)
    attrs = _attributes(line, inside[split.end() :])
    where = match["where"] or ""
    dtype, _, extents = match["type"].partition("[")
    shape = tuple(int(e) for e in extents.rstrip("]").split(",") if e)
    try:
        if match["op"] == "input":
            return input_node(shape, dtype, str(attrs.get("name", "")), where)
        node = make(match["op"], *operands, where=where, **attrs)
    except InvalidArgumentError as fault:
        _refuse(line, fault.record.message)
    if str(node.type) != match["type"]:
        _refuse(line, f"{node.op} gives {node.type}, not {match['type']}")
    return node


def _operands(line: int, text: str, nodes: dict[str, Node]) -> tuple[Node, ...]:
    found = []
    for word in text.split(", ") if text else ():
        if word[1:] not in nodes or word[:1] != "%":
            _refuse(line, f"{word} is not defined above")
        found.append(nodes[word[1:]])
    return tuple(found)


def _attributes(line: int, text: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args:
            raise ValueError("operands go before attributes")
        return {str(keyword.arg): _value(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as fault:
        _refuse(line, f"attributes {text!r}: {fault}")


def _value(tree: ast.expr) -> Any:
    if isinstance(tree, ast.Name) and tree.id in _WORDS:
        return _WORDS[tree.id]
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_value(tree.operand)
    if isinstance(tree, ast.Tuple):
        return tuple(map(_value, tree.elts))
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (bool, int, float, str)):
        return tree.value
    raise ValueError(f"{ast.unparse(tree)} is no plain value")


def _refuse(line: int, message: str) -> NoReturn:
    raise InvalidArgumentError(
        message, where=f"line {line}", next_step="print_graph() shows the form",
    )  # fmt: skip
