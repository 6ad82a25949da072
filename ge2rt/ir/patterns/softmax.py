"""Softmax along the last axis and the scores under it, as they are written by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ge2rt.ir.attrs import ints
from ge2rt.ir.constants import constant
from ge2rt.ir.graph import Node
from ge2rt.ir.patterns.causal import Triangle, triangle, unrepeated
from ge2rt.ir.rules.views import stripped

_MASKED = -1e4  # a score this low has the weight 0 beside any other
_DEPTH = 12


@dataclass(frozen=True)
class Mask:
    """What is added to scores, or (a bool) where they are kept; ``drops``: where they are not.

    ``minus``: it is subtracted. ``fill`` is the value of a score that is not kept, where that is
    finite.
    """

    node: Node
    drops: bool = False
    minus: bool = False
    fill: float | None = None


@dataclass
class Scores:
    """``matmul(q, kT) * scale``, masked; ``inner`` are the nodes nobody else may read.

    ``floor``: what a score becomes that ``causal`` does not keep.
    """

    product: Node
    scale: float = 1.0
    causal: Triangle | None = None
    floor: float = -math.inf
    mask: Mask | None = None
    inner: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Softmax:
    """The scores' node and every node from it to the weights."""

    scores: Node
    inner: tuple[Node, ...]


def through(node: Node, inner: list[Node]) -> Node:
    """What lies under casts between floats and reshapes that add or drop leading axes of 1."""
    while node.inputs and _passes(node):
        inner.append(node)
        node = node.inputs[0]
    return node


def _passes(node: Node) -> bool:
    x = node.inputs[0]
    if node.op == "cast":
        return {x.dtype, node.dtype} <= {"f16", "bf16", "f32"}
    return node.op == "reshape" and stripped(x.shape) == stripped(node.shape)


def spread(node: Node, rows: tuple[int, ...], inner: list[Node]) -> Node | None:
    """The values, one a row of ``rows``, that ``node`` repeats along the last axis."""
    if node.op != "broadcast" or node.shape[:-1] != rows:
        return None
    small = node.inputs[0]
    wanted = (*rows, 1)
    if (1,) * (len(wanted) - small.type.rank) + small.shape != wanted:
        return None
    inner.append(node)
    return _under(small, inner)


def _under(small: Node, inner: list[Node]) -> Node:
    """Values, one a row, before they took another shape."""
    while small.op in ("reshape", "cast"):
        inner.append(small)
        small = small.inputs[0]
    return small


def softmax(weights: Node) -> Softmax | None:
    """The softmax that ``weights`` is: ``exp(s - max s)`` over its sum."""
    inner: list[Node] = []
    weights = through(weights, inner)
    inner.append(weights)
    if weights.op == "div":
        top, below = weights.inputs
    elif weights.op == "mul":  # times the reciprocal of the sum, spread
        top, below = _product(weights)
    else:
        return None
    total = spread(below, weights.shape[:-1], inner)
    if total is not None and weights.op == "mul":
        inner.append(total)
        total = _under(total.inputs[0], inner) if total.op == "reciprocal" else None
    return numerator(top, total, inner)


def _product(node: Node) -> tuple[Node, Node]:
    left, right = node.inputs
    return (right, left) if left.op == "broadcast" else (left, right)


def numerator(top: Node, total: Node | None, inner: list[Node]) -> Softmax | None:
    """``top`` is ``exp(s - max s)`` and ``total`` its sum along the last axis."""
    if total is None or not _along_last(total, "sum"):
        return None
    inner.append(total)
    if through(total.inputs[0], inner) is not through(top, inner):
        return None
    top = through(top, inner)
    inner.append(top)
    shifted = through(top.inputs[0], inner) if top.op == "exp" else top
    if shifted.op != "sub":
        return None
    inner.append(shifted)
    scores, lifted = shifted.inputs
    top_score = spread(lifted, shifted.shape[:-1], inner)
    if top_score is None or not _along_last(top_score, "max"):
        return None
    inner.append(top_score)
    if through(top_score.inputs[0], inner) is not through(scores, inner):
        return None
    return Softmax(scores, tuple(inner))


def _along_last(node: Node, op: str) -> bool:
    return node.op == op and ints(node, "axes") == (node.inputs[0].type.rank - 1,)


def scores_of(node: Node, depth: int = _DEPTH) -> Scores | None:
    """The product under scaling and masks; None where it is something else."""
    inner: list[Node] = []
    node = through(node, inner)
    inner.append(node)
    found = None
    if node.op == "matmul":
        found = Scores(node)
    elif depth and node.op in _STEPS:
        found = _STEPS[node.op](node, depth - 1)
    if found is not None:
        found.inner += inner
    return found


def factor_of(node: Node) -> float | None:
    """The constant, neither 0 nor infinite, that a node multiplies its first operand with."""
    value = constant(node.inputs[1]) if node.op in ("mul", "div") else None
    if not value or not math.isfinite(value):
        return None
    return float(value) if node.op == "mul" else 1.0 / value


def _scaled(node: Node, depth: int) -> Scores | None:
    factor = factor_of(node)
    found = scores_of(node.inputs[0], depth) if factor is not None else None
    if found is None or factor is None or found.mask is not None:
        return None
    if found.causal is not None and not found.floor * factor <= _MASKED:
        return None  # what is not kept would have weight again
    found.scale *= factor
    found.floor *= factor
    return found


def _shifted(node: Node, depth: int) -> Scores | None:
    """Scores plus a mask."""
    for at in (0, 1):
        found = scores_of(node.inputs[at], depth)
        if found is not None:
            return _masked(found, node.inputs[1 - at])
    return None


def _lowered(node: Node, depth: int) -> Scores | None:
    """Scores minus a mask."""
    found = scores_of(node.inputs[0], depth)
    return _masked(found, node.inputs[1], minus=True) if found is not None else None


def _masked(found: Scores, mask: Node, minus: bool = False) -> Scores | None:
    sign = -1.0 if minus else 1.0
    corner, low = _low_corner(unrepeated(mask), sign)
    if corner is not None and found.causal is None:
        found.causal, found.floor = corner, sign * low
        return found
    if found.mask is not None:
        return None
    found.mask = Mask(mask, minus=minus)
    return found


def _low_corner(choice: Node, sign: float) -> tuple[Triangle | None, float]:
    """The triangle where a mask is 0; elsewhere it is the second result, which is very low."""
    if choice.op != "select":
        return None, 0.0
    values = [constant(x) for x in choice.inputs[1:]]
    if 0 not in values:
        return None, 0.0
    held = values[0] == 0
    low = values[1] if held else values[0]
    corner = triangle(choice.inputs[0])
    if low is None or sign * low > _MASKED or corner is None:
        return None, 0.0
    return (corner if _keeps_all_rows(corner, held, choice.shape) else None), float(low)


def _keeps_all_rows(corner: Triangle, held: bool, shape: tuple[int, ...]) -> bool:
    """Whether a triangle keeps (where it holds, if ``held``) at least one column of each row."""
    return corner.inverted != held and corner.diagonal >= 0 and shape[-1] > 0


def _chosen(node: Node, depth: int) -> Scores | None:
    """Scores where a condition holds, a very low number elsewhere."""
    c, yes, no = node.inputs
    held = constant(no) is not None
    fill = constant(no if held else yes)
    if fill is None or fill > _MASKED:
        return None
    found = scores_of(yes if held else no, depth)
    if found is None:
        return None
    corner = triangle(c)
    if corner is not None and found.causal is None and _keeps_all_rows(corner, held, node.shape):
        found.causal, found.floor = corner, float(fill)
        return found
    if found.mask is not None:
        return None
    found.mask = Mask(c, drops=not held, fill=None if fill == float("-inf") else float(fill))
    return found


_STEPS = {
    "mul": _scaled, "div": _scaled, "add": _shifted, "sub": _lowered, "select": _chosen,
}  # fmt: skip
