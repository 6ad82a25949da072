"""Expressions as polynomials, so that every order of writing a formula looks the same.

``0.5 * x * (1 + t)`` and ``x * (t / 2 + 0.5)`` are both ``{x: 0.5, x t: 0.5}``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ge2rt.ir.constants import constant
from ge2rt.ir.graph import Node

Monomial: TypeAlias = "tuple[str, ...]"  # names of atoms, sorted, one entry a factor
Polynomial: TypeAlias = "dict[Monomial, float]"

_TERMS = 12  # more terms than any known formula has
_DEPTH = 24

# relative error of constants that still means the same formula
_CLOSE = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-6, "f64": 1e-11}


@dataclass(frozen=True)
class _Reader:
    """Reads each node once, however often it is used."""

    atoms: Mapping[Node, str]
    known: dict[Node, Polynomial | None] = field(default_factory=dict)

    def read(self, node: Node, depth: int) -> Polynomial | None:
        if node not in self.known:
            self.known[node] = self._new(node, depth)
        return self.known[node]

    def _new(self, node: Node, depth: int) -> Polynomial | None:
        name = self.atoms.get(node)
        if name is not None and not name.startswith("1/"):
            return {(name,): 1.0}
        value = constant(node)
        if value is not None:
            return {(): float(value)}
        rule = _RULES.get(node.op)
        return rule(node, self, depth - 1) if rule and depth else None


def expand(node: Node, atoms: Mapping[Node, str]) -> Polynomial | None:
    """``node`` as a polynomial in the atoms; None where it is none, or a large one.

    An atom whose name begins with ``1/`` stands for the inverse of its node.
    """
    return _Reader(atoms).read(node, _DEPTH)


def matches(found: Polynomial | None, wanted: Mapping[Monomial, float], dtype: str) -> bool:
    """Whether the polynomials are the same but for rounding of constants."""
    if found is None:
        return False
    terms = {key: value for key, value in found.items() if value != 0}
    close = _CLOSE[dtype]
    return terms.keys() == wanted.keys() and all(
        math.isclose(value, wanted[key], rel_tol=close) for key, value in terms.items()
    )


def _sum(sign: float) -> Callable[[Node, _Reader, int], Polynomial | None]:
    def rule(node: Node, reader: _Reader, depth: int) -> Polynomial | None:
        left, right = (reader.read(x, depth) for x in node.inputs)
        if left is None or right is None:
            return None
        total = dict(left)
        for key, value in right.items():
            total[key] = total.get(key, 0.0) + sign * value
        return total if len(total) <= _TERMS else None

    return rule


def _times(left: Polynomial | None, right: Polynomial | None) -> Polynomial | None:
    if left is None or right is None or len(left) * len(right) > _TERMS:
        return None
    product: Polynomial = {}
    for a, x in left.items():
        for b, y in right.items():
            key = tuple(sorted(a + b))
            product[key] = product.get(key, 0.0) + x * y
    return product


def _product(node: Node, reader: _Reader, depth: int) -> Polynomial | None:
    left, right = node.inputs
    return _times(reader.read(left, depth), reader.read(right, depth))


def _inverse(node: Node, reader: _Reader) -> Polynomial | None:
    name = reader.atoms.get(node, "")
    if name.startswith("1/"):
        return {(name,): 1.0}
    value = constant(node)
    return {(): 1.0 / value} if value else None


def _quotient(node: Node, reader: _Reader, depth: int) -> Polynomial | None:
    return _times(reader.read(node.inputs[0], depth), _inverse(node.inputs[1], reader))


def _reciprocal(node: Node, reader: _Reader, depth: int) -> Polynomial | None:
    return _inverse(node.inputs[0], reader)


def _negative(node: Node, reader: _Reader, depth: int) -> Polynomial | None:
    return _times({(): -1.0}, reader.read(node.inputs[0], depth))


def _square(node: Node, reader: _Reader, depth: int) -> Polynomial | None:
    one = reader.read(node.inputs[0], depth)
    return _times(one, one)


def _power(node: Node, reader: _Reader, depth: int) -> Polynomial | None:
    power = constant(node.inputs[1])
    if power not in (1, 2, 3):
        return None
    one = reader.read(node.inputs[0], depth)
    result = one
    for _ in range(int(power) - 1):
        result = _times(result, one)
    return result


def _cast(node: Node, reader: _Reader, depth: int) -> Polynomial | None:
    x = node.inputs[0]
    both_float = x.type.element.is_float and node.type.element.is_float
    return reader.read(x, depth) if both_float else None


_RULES: Mapping[str, Callable[[Node, _Reader, int], Polynomial | None]] = {
    "add": _sum(1.0), "sub": _sum(-1.0), "mul": _product, "div": _quotient, "neg": _negative,
    "square": _square, "pow": _power, "reciprocal": _reciprocal, "cast": _cast,
}  # fmt: skip
