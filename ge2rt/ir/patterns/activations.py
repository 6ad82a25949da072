"""Activations, however they are written: which one ``root`` is of ``z``.

Formulas: gelu by Hendrycks and Gimpel, "Gaussian error linear units" (2016), in its tanh and erf
forms; silu is x times its sigmoid.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ge2rt.ir.constants import constant, is_constant
from ge2rt.ir.graph import Node
from ge2rt.ir.patterns.polynomial import Monomial, expand, matches

_C = math.sqrt(2 / math.pi)
_CUBE: Mapping[Monomial, float] = {("z",): _C, ("z", "z", "z"): _C * 0.044715}


@dataclass(frozen=True)
class Activation:
    """An activation of the fused product, and the slope of leaky_relu."""

    name: str
    slope: float = 0.01


def _scaled(inner: Mapping[Monomial, float], by: float) -> Mapping[Monomial, float]:
    return {key: value * by for key, value in inner.items()}


_HALF: Mapping[Monomial, float] = {("z",): 0.5, ("t", "z"): 0.5}
_GATED: Mapping[Monomial, float] = {("t", "z"): 1.0}
_ONE: Mapping[Monomial, float] = {("z",): 1.0}

# (kind of the inner function t, its argument, the whole as a polynomial in z and t, activation)
_FORMS: tuple[tuple[str, Mapping[Monomial, float], Mapping[Monomial, float], str], ...] = (
    ("tanh", _CUBE, _HALF, "gelu"),
    ("tanh", _scaled(_ONE, 0.5), _HALF, "silu"),
    ("tanh", _scaled(_ONE, 0.5), {(): 0.5, ("t",): 0.5}, "sigmoid"),
    ("tanh", _ONE, {("t",): 1.0}, "tanh"),
    ("erf", _scaled(_ONE, math.sqrt(0.5)), _HALF, "gelu_erf"),
    ("sigmoid", _ONE, {("t",): 1.0}, "sigmoid"),
    ("sigmoid", _ONE, _GATED, "silu"),
    ("sigmoid", _scaled(_CUBE, 2.0), _GATED, "gelu"),
)  # fmt: skip


def activation(root: Node, z: Node, region: Collection[Node]) -> Activation | None:
    """The activation that ``root`` is of ``z``; ``region``: the nodes from z to root, in order."""
    choice = _piecewise(root, z)
    if choice is not None:
        return choice
    smooth = [node for node in region if node.op in ("tanh", "erf", "sigmoid", "exp")]
    if len(smooth) != 1:
        return None
    inner = smooth[0]
    kind, sign, atoms = inner.op, 1.0, {z: "z", inner: "t"}
    if kind == "exp":  # t = 1 / (1 + exp(-u)) is sigmoid(u)
        whole = next((n for n in region if n is not inner and _is_one_plus(n, inner)), None)
        if whole is None:
            return None
        kind, sign, atoms = "sigmoid", -1.0, {z: "z", whole: "1/t"}
    argument = expand(inner.inputs[0], {z: "z"})
    value = expand(root, atoms)
    if argument is None or value is None:
        return None
    argument = {key: sign * v for key, v in argument.items()}
    value = {tuple(sorted(a.removeprefix("1/") for a in key)): v for key, v in value.items()}
    for form, inside, outside, name in _FORMS:
        if form == kind and matches(argument, inside, z.dtype) and matches(value, outside, z.dtype):
            return Activation(name)
    return None


def _is_one_plus(node: Node, inner: Node) -> bool:
    return matches(expand(node, {inner: "e"}), {(): 1.0, ("e",): 1.0}, node.dtype)


def _piecewise(root: Node, z: Node) -> Activation | None:
    rule = _PIECEWISE.get(root.op)
    return rule(root, z) if rule else None


def _maximum(root: Node, z: Node) -> Activation | None:
    """``max(z, 0)``, ``max(z, slope * z)``."""
    other = next((x for x in root.inputs if x is not z), None)
    if other is None or z not in root.inputs:
        return None
    if is_constant(other, 0):
        return Activation("relu")
    slope = _slope(other, z)
    return Activation("leaky_relu", slope) if slope is not None and 0 < slope < 1 else None


def _fmax(root: Node, z: Node) -> Activation | None:
    """``fmax(z, 0)``, which makes 0 of NaN."""
    if z in root.inputs and any(is_constant(x, 0) for x in root.inputs):
        return Activation("relu_where")
    return None


def _select(root: Node, z: Node) -> Activation | None:
    """``where(z > 0, z, 0)``, ``where(z < 0, slope * z, z)`` and their mirror images."""
    c, yes, no = root.inputs
    if len(c.inputs) != 2 or c.inputs[0] is not z or not is_constant(c.inputs[1], 0):
        return None
    above = c.op in ("gt", "ge")
    if c.op not in ("gt", "ge", "lt", "le"):
        return None
    high, low = (yes, no) if above else (no, yes)
    if high is not z:
        return None
    if is_constant(low, 0):
        # NaN compares false: it takes the second answer
        return Activation("relu_where" if above else "relu")
    slope = _slope(low, z)
    return Activation("leaky_relu", slope) if slope is not None and slope >= 0 else None


def _slope(node: Node, z: Node) -> float | None:
    """The constant that ``node`` multiplies ``z`` with."""
    if node.op not in ("mul", "div") or node.inputs[0] is not z:
        return None
    value = constant(node.inputs[1])
    if not value:
        return None
    return float(value) if node.op == "mul" else 1.0 / value


_PIECEWISE = {"maximum": _maximum, "fmax": _fmax, "select": _select}
