"""Constants of a graph: ``full`` nodes, their values as the dtype holds them, and folding."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.dtypes import DTYPES
from ge2rt.ir.evaluate import apply
from ge2rt.ir.graph import Node, TensorType
from ge2rt.ir.rewrite import Builder

Scalar: TypeAlias = "bool | int | float"


def constant(node: Node) -> Scalar | None:
    """The one value of a ``full``, rounded to its dtype; None for any other node."""
    if node.op != "full":
        return None
    value: Any = node.attrs["value"]
    return _rounded(value, node.dtype, math.copysign(1.0, value)) if _is_float(node) else value


@lru_cache(maxsize=1024)
def _rounded(value: float, dtype: str, sign: float) -> float:
    # the sign is there to keep 0.0 and -0.0 apart in the cache
    if dtype == "f64":
        return value
    with np.errstate(all="ignore"):
        return float(np.asarray(value).astype(DTYPES[dtype].numpy))


def _is_float(node: Node) -> bool:
    return node.type.element.is_float


def is_constant(node: Node, *values: Scalar) -> bool:
    """Whether ``node`` is a constant equal to one of the values (0.0 and -0.0 are equal)."""
    found = constant(node)
    return found is not None and found in values


def is_zero(node: Node, sign: float) -> bool:
    """Whether ``node`` is a zero with this sign; an integer zero has either."""
    found = constant(node)
    if found is None or found != 0:
        return False
    return not _is_float(node) or math.copysign(1.0, found) == sign


def is_true(node: Node) -> bool:
    """Whether ``node`` is the constant True."""
    return node.op == "full" and node.dtype == "bool" and bool(node.attrs["value"])


def is_false(node: Node) -> bool:
    """Whether ``node`` is the constant False."""
    return node.op == "full" and node.dtype == "bool" and not node.attrs["value"]


def full(builder: Builder, type_: TensorType, value: Scalar) -> Node:
    """A constant of this type."""
    return builder.make("full", shape=type_.shape, dtype=type_.dtype, value=value)


def folded(builder: Builder, node: Node, operands: tuple[Node, ...]) -> Node:
    """The constant that a pointwise ``node`` gives on constant operands."""
    arrays = [apply(_point(operand), ()) for operand in operands]
    point = Node(node.op, (), TensorType((), node.dtype), node.attrs)
    return full(builder, node.type, plain(apply(point, arrays)))


def _point(node: Node) -> Node:
    attrs = {**node.attrs, "shape": ()}
    return Node("full", (), TensorType((), node.dtype), attrs)


def plain(array: Any) -> Scalar:
    """The Python number of a 0-d array."""
    kind = array.dtype.kind
    return bool(array) if kind == "b" else int(array) if kind in "iu" else float(array)
