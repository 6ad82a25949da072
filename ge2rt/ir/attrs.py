"""Attributes of nodes with the types that the op table gives them."""

from __future__ import annotations

from typing import cast

from ge2rt.ir.graph import Node


def ints(node: Node, name: str) -> tuple[int, ...]:
    """A shape, permutation, axes..."""
    return cast("tuple[int, ...]", node.attrs[name])


def integer(node: Node, name: str) -> int:
    """An axis."""
    return cast("int", node.attrs[name])


def number(node: Node, name: str) -> bool | int | float:
    """The value of a constant or of a pad."""
    return cast("bool | int | float", node.attrs[name])
