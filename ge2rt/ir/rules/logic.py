"""Choices, comparisons and casts: constant conditions, casts that lose nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ge2rt.base.dtypes import DTYPES
from ge2rt.ir.constants import constant, folded, full, is_constant, is_false, is_true
from ge2rt.ir.graph import Node
from ge2rt.ir.rewrite import Builder, Rule

# dtype -> (bits of the mantissa, bits of the exponent) of floats
_FLOATS = {"f16": (11, 5), "bf16": (8, 8), "f32": (24, 8), "f64": (53, 11)}
_OPPOSITE = {"eq": "ne", "ne": "eq"}  # of floats only these two: NaN is neither < nor >=
_OPPOSITE_WHOLE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", **_OPPOSITE}


def holds(wide: str, narrow: str) -> bool:
    """Whether ``wide`` has every value of ``narrow``."""
    if wide == narrow or narrow == "bool":
        return True
    if wide == "bool":
        return False
    a, b = DTYPES[wide], DTYPES[narrow]
    if b.is_float:
        pairs = zip(_FLOATS.get(wide, (0, 0)), _FLOATS[narrow], strict=True)
        return all(have >= need for have, need in pairs)
    digits = b.itemsize * 8 - (b.kind == "int")
    if a.is_float:
        return _FLOATS[wide][0] >= digits
    return a.itemsize * 8 - (a.kind == "int") >= digits and (b.kind == "uint" or a.kind == "int")


def cast_of_cast(b: Builder, n: Node) -> Node | None:
    """A cast to the dtype at hand, and one of two where the inner loses nothing."""
    x = n.inputs[0]
    if x.dtype == n.dtype:
        return x
    if x.op != "cast" or not holds(x.dtype, x.inputs[0].dtype):
        return None
    first, middle, last = DTYPES[x.inputs[0].dtype], DTYPES[x.dtype], DTYPES[n.dtype]
    if middle.is_float and first.is_integer and last.is_integer and not holds(n.dtype, first.name):
        return None  # integers wrap, floats out of range do not
    return b.make("cast", x.inputs[0], dtype=n.dtype, where=n.where)


def select_known(b: Builder, n: Node) -> Node | None:
    """A select whose condition or whose answer is known."""
    c, yes, no = n.inputs
    if is_true(c) or yes is no:
        return yes
    if is_false(c):
        return no
    if c.op == "logical_not":
        return b.make("select", c.inputs[0], no, yes, where=n.where)
    if is_true(yes) and is_false(no):
        return c
    if is_false(yes) and is_true(no):
        return b.make("logical_not", c, where=n.where)
    return None


def select_of_select(b: Builder, n: Node) -> Node | None:
    """``where(c, where(c, x, y), z)`` as ``where(c, x, z)``."""
    c, yes, no = n.inputs
    if yes.op == "select" and yes.inputs[0] is c:
        return b.make("select", c, yes.inputs[1], no, where=n.where)
    if no.op == "select" and no.inputs[0] is c:
        return b.make("select", c, yes, no.inputs[2], where=n.where)
    return None


def through_choice(b: Builder, n: Node) -> Node | None:
    """``f(where(c, 1, 0), 2)`` as ``where(c, f(1, 2), f(0, 2))``, folded; a cast bool likewise."""
    found = [(i, x) for i, x in enumerate(n.inputs) if x.op != "full"]
    if len(found) != 1 or (n.op == "select" and found[0][0] == 0):
        return None
    at, x = found[0]
    if x.op == "cast" and x.inputs[0].dtype == "bool":
        c, answers = x.inputs[0], [full(b, x.type, value) for value in (1, 0)]
    elif x.op == "select":
        c, answers = x.inputs[0], list(x.inputs[1:])
    else:
        return None
    if any(answer.op != "full" for answer in answers):
        return None
    either = [folded(b, n, (*n.inputs[:at], answer, *n.inputs[at + 1 :])) for answer in answers]
    return b.make("select", c, *either, where=n.where)


def as_bool(b: Builder, n: Node) -> Node | None:
    """``cast(c) != 0`` and ``c == True`` as c."""
    x, other = n.inputs
    value = constant(other)
    if value is None or n.op not in ("eq", "ne") or value not in (0, 1):
        return None
    source = x.inputs[0] if x.op == "cast" and x.inputs[0].dtype == "bool" else x
    if source.dtype != "bool":
        return None
    same = (n.op == "eq") == (value == 1)
    return source if same else b.make("logical_not", source, where=n.where)


def not_compare(b: Builder, n: Node) -> Node | None:
    """``not (a == b)`` as ``a != b``; of integers also ``not (a < b)`` as ``a >= b``."""
    inner = n.inputs[0]
    if inner.op not in _OPPOSITE_WHOLE:
        return None
    table = _OPPOSITE if inner.inputs[0].type.element.is_float else _OPPOSITE_WHOLE
    op = table.get(inner.op)
    return b.make(op, *inner.inputs, where=n.where) if op else None


def compare_itself(b: Builder, n: Node) -> Node | None:
    """``x == x`` of integers as True."""
    if n.inputs[0] is not n.inputs[1] or n.inputs[0].type.element.is_float:
        return None
    return full(b, n.type, n.op in ("eq", "le", "ge"))


def clamp_open(b: Builder, n: Node) -> Node | None:
    """A clamp with one bound at infinity as a maximum or minimum."""
    x, low, high = n.inputs
    if is_constant(low, float("-inf")):
        return b.make("minimum", x, high, where=n.where)
    return b.make("maximum", x, low, where=n.where) if is_constant(high, float("inf")) else None


_COMPARE = dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), (as_bool, compare_itself))

TABLES: tuple[Mapping[str, tuple[Rule, ...]], ...] = (
    {
        "cast": (cast_of_cast,), "select": (select_known, select_of_select),
        "logical_not": (not_compare,), "clamp": (clamp_open,),
    },
    _COMPARE,
)  # fmt: skip
