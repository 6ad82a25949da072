"""``numpy.pad``: constants by the op, the other modes by gathering from inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.graph import Node
from ge2rt.jit.faults import not_covered
from ge2rt.jit.promote import constant, lift, plain_number
from ge2rt.jit.rules.indexing import take
from ge2rt.jit.scope import emit, where
from ge2rt.jit.table import rule
from ge2rt.jit.traced import Traced

_FROM_INSIDE = ("edge", "reflect", "symmetric", "wrap")


@rule(np.pad)
def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0,
        reflect_type: str = "even") -> Traced:  # fmt: skip
    """``numpy.pad`` with mode constant, edge, reflect, symmetric or wrap; widths are known."""
    value = lift(array)
    widths = _pairs(pad_width, value.ndim, "widths")
    if any(min(pair) < 0 for pair in widths):
        raise InvalidArgumentError(
            "widths may not be negative", got=str(widths), where=where(), next_step="slice instead"
        )
    if mode in ("constant", "empty"):
        return Traced(_constants(value, widths, constant_values))
    if mode not in _FROM_INSIDE or reflect_type != "even":
        raise not_covered(f"numpy.pad(mode={mode!r}, reflect_type={reflect_type!r})", where())
    for axis, (low, high) in enumerate(widths):
        if low or high:
            places = np.pad(np.arange(value.shape[axis]), (low, high), mode=mode)  # type: ignore[call-overload]
            value = take(value, places, axis)
    return Traced(value.node)


def _pairs(given: Any, rank: int, what: str) -> list[tuple[Any, Any]]:
    if isinstance(given, dict):
        rows: list[tuple[Any, Any]] = [(0, 0)] * rank
        for axis, width in given.items():
            rows[axis] = tuple(np.broadcast_to(width, 2).tolist())
        return rows
    try:
        return [tuple(row) for row in np.broadcast_to(np.asarray(given), (rank, 2)).tolist()]
    except ValueError:
        raise InvalidArgumentError(
            f"{what} do not fit an array of {rank} axes", got=repr(given), where=where(),
            next_step="give one number, a pair, or a pair for each axis",
        ) from None  # fmt: skip


def _constants(value: Traced, widths: list[tuple[Any, Any]], constants: Any) -> Node:
    if plain_number(constants) is not None:
        return _padded(value.node, [w[0] for w in widths], [w[1] for w in widths], constants)
    node, rank = value.node, value.ndim
    zeros = [0] * rank
    for axis, row in enumerate(_pairs(constants, rank, "constants")):
        for side in (0, 1):
            width = [widths[axis][side] if a == axis else 0 for a in range(rank)]
            low, high = (width, zeros) if side == 0 else (zeros, width)
            node = _padded(node, low, high, row[side])
    return node


def _padded(node: Node, low: Any, high: Any, value: Any) -> Node:
    if not any((*low, *high)):
        return node
    number = constant(value, node.dtype)
    return emit("pad", node, low=tuple(low), high=tuple(high), value=number)
