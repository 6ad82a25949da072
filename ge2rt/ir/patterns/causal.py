"""Causal masks: conditions on row and column numbers, however they are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ge2rt.ir.attrs import integer
from ge2rt.ir.constants import constant
from ge2rt.ir.graph import Node

_DEPTH = 8


@dataclass(frozen=True)
class Triangle:
    """The condition ``column <= row + diagonal``, or where it does not hold (``inverted``)."""

    diagonal: int
    inverted: bool = False


def triangle(condition: Node) -> Triangle | None:
    """The triangle that a bool node over ``[.., rows, columns]`` means, if it is one."""
    condition = unrepeated(condition)
    if condition.op == "logical_not":
        found = triangle(condition.inputs[0])
        return found and Triangle(found.diagonal, not found.inverted)
    rule = _COMPARE.get(condition.op)
    if rule is None:
        return None
    left, right = (_linear(x, _DEPTH) for x in condition.inputs)
    if left is None or right is None:
        return None
    row, column, offset = (a - b for a, b in zip(left, right, strict=True))
    # row - column + offset >= 0 is column <= row + offset
    if (row, column) == (1, -1):
        return rule(offset, True)
    return rule(-offset, False) if (row, column) == (-1, 1) else None


def unrepeated(node: Node) -> Node:
    """A node before a broadcast that leaves the last two axes as they are."""
    if node.op == "broadcast" and node.inputs[0].shape[-2:] == node.shape[-2:]:
        return node.inputs[0]
    return node


def _at_least(offset: int, upright: bool) -> Triangle:
    """``d >= 0`` for d = row - column + offset, or for minus that."""
    return Triangle(offset) if upright else Triangle(offset - 1, inverted=True)


def _above(offset: int, upright: bool) -> Triangle:
    """``d > 0``."""
    return Triangle(offset - 1) if upright else Triangle(offset, inverted=True)


_COMPARE: Mapping[str, Callable[[int, bool], Triangle]] = {
    "ge": _at_least,
    "gt": _above,
    "le": lambda offset, upright: _at_least(offset, not upright),
    "lt": lambda offset, upright: _above(offset, not upright),
}

_Line = tuple[int, int, int]  # factors of row, of column, and the rest


def _linear(node: Node, depth: int) -> _Line | None:
    """A node as ``a * row + b * column + c`` over the last two axes."""
    value = constant(node)
    if value is not None:
        return (0, 0, int(value)) if float(value).is_integer() else None
    if node.op == "iota":
        from_end = node.type.rank - integer(node, "axis")
        return {1: (0, 1, 0), 2: (1, 0, 0)}.get(from_end)
    rule = _SIGNS.get(node.op)
    if rule is None or depth == 0:
        return None
    parts = [_linear(x, depth - 1) for x in node.inputs]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    total = [sum(sign * part[i] for sign, part in zip(rule, known, strict=True)) for i in range(3)]
    return total[0], total[1], total[2]


_SIGNS: Mapping[str, tuple[int, ...]] = {"add": (1, 1), "sub": (1, -1), "neg": (-1,), "cast": (1,)}
