"""C++ text of single values: ops from the ``cuda`` column of ``ops.yaml``, constants, casts.

A value of f16 or bf16 is kept in a float and rounded after each op, so that fused and unfused
programs agree bit for bit at every dtype boundary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from ge2rt.base.dtypes import DTYPES
from ge2rt.build.literals import literal
from ge2rt.fuse.access import Layout
from ge2rt.fuse.values import Value
from ge2rt.ir.graph import Node
from ge2rt.ir.ops import OPS

HALVES: Mapping[str, str] = {"f16": "as_f16", "bf16": "as_bf16"}
# Ops whose results need no rounding where their operands are rounded.
_EXACT = frozenset({
    "neg", "abs", "sign", "maximum", "minimum", "fmax", "fmin", "select", "clamp", "copysign",
    "floor", "ceil", "trunc", "round",
})  # fmt: skip
# Ops of integers that a known operand makes much cheaper.
LITERAL_OPS = frozenset({"floordiv", "mod", "fmod", "shl", "shr", "pow"})
_WORD = re.compile(r"[A-Za-z_]\w*")
_PLAIN_FLOATS = (0.0, 1.0, -1.0)


def calc_type(dtype: str) -> str:
    """The C type in which values of a dtype are computed."""
    return "float" if dtype in HALVES else DTYPES[dtype].ctype


def rounded(text: str, dtype: str) -> str:
    """An expression of :func:`calc_type`, rounded to the dtype."""
    return f"{HALVES[dtype]}({text})" if dtype in HALVES else text


def op_text(node: Node, names: Sequence[str]) -> str:
    """The expression of a pointwise node for operands with these names."""
    spec = OPS[node.op]
    operands = [operand.name for operand in spec.operands]
    typed = next(n for o, n in zip(spec.operands, node.inputs, strict=True) if o.types == "T")
    kinds = DTYPES[typed.dtype].kind, DTYPES[node.dtype].kind
    words = dict(zip(operands, names, strict=True))
    words["T"] = calc_type(typed.dtype)
    words["R"] = calc_type(node.dtype)
    words["D"] = DTYPES[node.dtype].ctype
    text = _WORD.sub(lambda m: words.get(m.group(), m.group()), spec.expression(*kinds))
    exact = node.op in _EXACT or (node.op == "cast" and kinds[0] == "float")
    return text if exact else rounded(text, node.dtype)


def loaded(text: str, dtype: str) -> str:
    """An element read from memory as a value."""
    return f"static_cast<float>({text})" if dtype in HALVES else text


def stored(text: str, dtype: str) -> str:
    """A value as an element for memory."""
    return f"static_cast<{DTYPES[dtype].ctype}>({text})" if dtype in HALVES else text


def constant_value(value: bool | int | float, dtype: str) -> bool | int | float:
    """The number as the dtype holds it."""
    if not DTYPES[dtype].is_float:
        return bool(value) if dtype == "bool" else int(value)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.float64(value).astype(DTYPES[dtype].numpy))


def constant_literal(value: bool | int | float, dtype: str) -> str:
    """A literal of the type in which values of the dtype are computed."""
    text = literal(value, DTYPES["f32" if dtype in HALVES else dtype])
    narrow = DTYPES[dtype].is_integer and DTYPES[dtype].itemsize < 4  # int, in C++
    return f"static_cast<{DTYPES[dtype].ctype}>({text})" if narrow else text


def is_literal(value: bool | int | float, dtype: str) -> bool:
    """Whether a constant is part of the text whatever its use: others are kernel arguments.

    Numbers of a program often follow from its shapes (``1 / n``): a kernel that takes them as
    arguments serves all shapes.
    """
    if dtype == "bool":
        return True
    if DTYPES[dtype].is_float:
        return value in _PLAIN_FLOATS or not np.isfinite(value)
    return -2 < value < 2 or value >= 2**63


def affine(layout: Layout, names: Sequence[str], number: Mapping[int, str]) -> str:
    """The address in a layout as an expression of coordinates; ``number`` names its constants."""
    terms = []
    for extent, step, name in zip(layout.shape, layout.strides, names, strict=True):
        if step == 0 or extent == 1:
            continue
        terms.append(
            name if step == 1 else f"-{name}" if step == -1 else f"{name} * {number[step]}"
        )
    if layout.offset:
        terms.append(number[layout.offset])
    return " + ".join(terms) or "0"


def numbers_of(layout: Layout) -> list[int]:
    """The constants that :func:`affine` asks for."""
    steps = zip(layout.shape, layout.strides, strict=True)
    found = [step for extent, step in steps if extent != 1 and step not in (0, 1, -1)]
    return [*found, layout.offset] if layout.offset else found


def needs_literal(values: Sequence[Value]) -> set[int]:
    """The ids of integer constants that are better known to the compiler."""
    found: set[int] = set()
    for value in values:
        if value.kind == "op" and value.node is not None and value.node.op in LITERAL_OPS:
            found |= {id(a) for a in value.args if not DTYPES[a.dtype].is_float}
    return found
