"""Arithmetic that can be left out or done cheaper, with the same bits unless a rule says more.

Signed zeros, NaN and infinities keep their rules: ``x + 0.0`` stays (it makes 0.0 of -0.0),
``x - 0.0`` goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ge2rt.base.dtypes import DTYPES
from ge2rt.ir.constants import (
    Scalar,
    constant,
    folded,
    full,
    is_constant,
    is_false,
    is_true,
    is_zero,
)
from ge2rt.ir.graph import Node
from ge2rt.ir.rewrite import Builder, Rule

COMMUTATIVE = frozenset({
    "add", "mul", "maximum", "minimum", "fmax", "fmin", "hypot", "logaddexp", "bitand", "bitor",
    "bitxor", "eq", "ne", "logical_and", "logical_or", "logical_xor",
})  # fmt: skip
EXTREMES = frozenset({"maximum", "minimum", "fmax", "fmin"})
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_IDEMPOTENT = frozenset({
    "maximum", "minimum", "fmax", "fmin", "bitand", "bitor", "logical_and", "logical_or",
})  # fmt: skip
_WHOLE = frozenset({"floor", "ceil", "trunc", "round"})  # results are whole numbers
_EVEN = frozenset({"abs", "square", "cos", "cosh"})  # f(-x) = f(x)


def _lowest(dtype: str) -> Scalar:
    element = DTYPES[dtype]
    bits = element.itemsize * 8
    return {"float": -math.inf, "int": -(1 << bits - 1)}.get(element.kind, 0)


def _highest(dtype: str) -> Scalar:
    element = DTYPES[dtype]
    bits = element.itemsize * 8
    known = {"float": math.inf, "int": (1 << bits - 1) - 1, "uint": (1 << bits) - 1}
    return known.get(element.kind, 1)


def _is(value: Scalar) -> Callable[[Node], bool]:
    return lambda b: is_constant(b, value)


def _all_ones(b: Node) -> bool:
    return is_constant(b, -1 if b.type.element.kind == "int" else _highest(b.dtype))


# op -> whether x op b is x for this b
_NEUTRAL: Mapping[str, Callable[[Node], bool]] = {
    "add": lambda b: is_zero(b, -1.0),
    "sub": lambda b: is_zero(b, 1.0),
    "mul": _is(1), "div": _is(1), "pow": _is(1), "shl": _is(0), "shr": _is(0), "bitor": _is(0),
    "bitxor": _is(0), "bitand": _all_ones, "logical_and": is_true, "logical_or": is_false,
    "logical_xor": is_false,
    "maximum": lambda b: is_constant(b, _lowest(b.dtype)),
    "minimum": lambda b: is_constant(b, _highest(b.dtype)),
    "floordiv": lambda b: b.type.element.is_integer and is_constant(b, 1),
}  # fmt: skip
# op -> whether x op b is b for this b
_ABSORBING: Mapping[str, Callable[[Node], bool]] = {
    "mul": lambda b: not b.type.element.is_float and is_constant(b, 0),
    "bitand": _is(0), "bitor": _all_ones, "logical_and": is_false, "logical_or": is_true,
    "maximum": lambda b: not b.type.element.is_float and is_constant(b, _highest(b.dtype)),
    "minimum": lambda b: not b.type.element.is_float and is_constant(b, _lowest(b.dtype)),
}  # fmt: skip


def constants_right(b: Builder, n: Node) -> Node | None:
    """``2 * x`` as ``x * 2``, ``0 < x`` as ``x > 0``."""
    left, right = n.inputs
    if left.op != "full" or right.op == "full":
        return None
    if n.op in EXTREMES and left.type.element.is_float:
        return None  # of 0.0 and -0.0, which are equal, one operand is taken
    op = n.op if n.op in COMMUTATIVE else _MIRRORED[n.op]
    return b.make(op, right, left, where=n.where)


def neutral(b: Builder, n: Node) -> Node | None:
    """``x * 1``, ``x - 0``, ``x & True``... as x, and what absorbs: ``x * 0`` of integers."""
    x, other = n.inputs
    if n.op in _NEUTRAL and _NEUTRAL[n.op](other):
        return x
    return other if n.op in _ABSORBING and _ABSORBING[n.op](other) else None


def same_operands(b: Builder, n: Node) -> Node | None:
    """``max(x, x)`` as x; ``x * x`` as a square; ``x - x`` of integers as 0."""
    if n.inputs[0] is not n.inputs[1]:
        return None
    x = n.inputs[0]
    if n.op in _IDEMPOTENT:
        return x
    if n.op == "mul" and x.dtype != "bool":
        return b.make("square", x, where=n.where)
    if n.op in ("sub", "bitxor", "logical_xor") and not x.type.element.is_float:
        return full(b, n.type, False if x.dtype == "bool" else 0)
    return None


def neg_in_sum(b: Builder, n: Node) -> Node | None:
    """``a + -b`` as ``a - b``, ``a - -b`` as ``a + b``, ``-a + b`` as ``b - a``."""
    left, right = n.inputs
    if right.op == "neg":
        return b.make("sub" if n.op == "add" else "add", left, right.inputs[0], where=n.where)
    if n.op == "add" and left.op == "neg":
        return b.make("sub", right, left.inputs[0], where=n.where)
    return None


def merge_integers(b: Builder, n: Node) -> Node | None:
    """``(x + 1) + 2`` of integers as ``x + 3``; the same for products and bits."""
    inner, c = n.inputs
    if inner.op != n.op or c.op != "full" or n.type.element.is_float:
        return None
    x, k = inner.inputs
    if k.op != "full":
        return None
    return b.make(n.op, x, folded(b, n, (k, c)), where=n.where)


def minus_one(b: Builder, n: Node) -> Node | None:
    """``x * -1`` as ``-x``."""
    if is_constant(n.inputs[1], -1) and n.dtype != "bool":
        return b.make("neg", n.inputs[0], where=n.where)
    return None


def divide_by_power(b: Builder, n: Node) -> Node | None:
    """``x / 8`` as ``x * 0.125``: a power of two divides and multiplies to the same bits."""
    value = constant(n.inputs[1])
    if value is None or value == 0 or not math.isfinite(value):
        return None
    mantissa, exponent = math.frexp(value)
    # both numbers far from the ends of f16, the dtype with the least range
    if abs(mantissa) != 0.5 or not -12 <= exponent <= 12:
        return None
    return b.make("mul", n.inputs[0], full(b, n.type, 1 / value), where=n.where)


def small_power(b: Builder, n: Node) -> Node | None:
    """``x ** 2`` and ``x ** 3`` as products, ``x ** -1`` as a reciprocal, ``x ** 0`` as 1.

    Of floats, the product may differ from ``pow`` in the last place.
    """
    x, power = n.inputs[0], constant(n.inputs[1])
    if power == 0:
        return full(b, n.type, 1)
    if power == 2:
        return b.make("square", x, where=n.where)
    if power == 3:
        return _cube(b, n, x)
    if power == -1 and n.type.element.is_float:
        return b.make("reciprocal", x, where=n.where)
    return None


def _cube(b: Builder, n: Node, x: Node) -> Node:
    # f16 and bf16 round once, as pow does
    wide = b.make("cast", x, dtype="f32", where=n.where) if n.dtype in ("f16", "bf16") else x
    cube = b.make("mul", b.make("square", wide, where=n.where), wide, where=n.where)
    return cube if wide is x else b.make("cast", cube, dtype=n.dtype, where=n.where)


def one_over(b: Builder, n: Node) -> Node | None:
    """``1 / x`` as a reciprocal."""
    if is_constant(n.inputs[0], 1):
        return b.make("reciprocal", n.inputs[1], where=n.where)
    return None


def reciprocal_of_root(b: Builder, n: Node) -> Node | None:
    """``1 / sqrt(x)`` as ``rsqrt(x)``, where no rounding lies between."""
    inner = n.inputs[0]
    if inner.op == "sqrt" and n.dtype in ("f32", "f64"):
        return b.make("rsqrt", inner.inputs[0], where=n.where)
    return None


def undetached(b: Builder, n: Node) -> Node:
    """A constant to derivatives, which were taken before: the value itself."""
    return n.inputs[0]


def twice(b: Builder, n: Node) -> Node | None:
    """``-(-x)``, ``~~x``, ``not not x`` as x; ``abs(abs(x))`` as ``abs(x)``."""
    inner = n.inputs[0]
    if inner.op != n.op:
        return None
    return inner if n.op in ("abs", "sign") else inner.inputs[0]


def magnitude(b: Builder, n: Node) -> Node | None:
    """The magnitude of an unsigned number."""
    return n.inputs[0] if n.type.element.kind == "uint" else None


def already_whole(b: Builder, n: Node) -> Node | None:
    """``floor(round(x))`` as ``round(x)``."""
    return n.inputs[0] if n.inputs[0].op in _WHOLE else None


def even_function(b: Builder, n: Node) -> Node | None:
    """``abs(-x)``, ``square(abs(x))``, ``cos(-x)``... without the inner sign."""
    inner = n.inputs[0]
    if inner.op in ("neg", "abs") and n.type.element.kind != "uint":
        return b.make(n.op, inner.inputs[0], where=n.where)
    return None


def neg_of_difference(b: Builder, n: Node) -> Node | None:
    """``-(a - b)`` of integers as ``b - a``."""
    inner = n.inputs[0]
    if inner.op == "sub" and n.type.element.is_integer:
        return b.make("sub", inner.inputs[1], inner.inputs[0], where=n.where)
    return None


_ORDER = dict.fromkeys((*sorted(COMMUTATIVE), *_MIRRORED), (constants_right,))
_UNITS = dict.fromkeys(sorted({*_NEUTRAL, *_ABSORBING}), (neutral,))
_SAME = dict.fromkeys((*sorted(_IDEMPOTENT), "mul", "sub", "bitxor"), (same_operands,))
_MERGED = dict.fromkeys(("add", "mul", "bitand", "bitor", "bitxor"), (merge_integers,))
_WHOLES = dict.fromkeys(sorted(_WHOLE), (already_whole,))
_EVENS = dict.fromkeys(sorted(_EVEN), (even_function,))

TABLES: tuple[Mapping[str, tuple[Rule, ...]], ...] = (
    _ORDER, _UNITS, _SAME, _MERGED, _WHOLES, _EVENS,
    {
        "add": (neg_in_sum,), "sub": (neg_in_sum,), "mul": (minus_one,),
        "div": (one_over, divide_by_power), "pow": (small_power,),
        "reciprocal": (reciprocal_of_root,), "neg": (twice, neg_of_difference),
        "detach": (undetached,), "invert": (twice,), "logical_not": (twice,),
        "abs": (magnitude, twice), "sign": (twice,),
    },
)  # fmt: skip
