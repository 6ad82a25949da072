"""What a slice of work reads of the operands: the slices that the work can be done on instead."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ir.attrs import integer, ints
from ge2rt.ir.graph import Node
from ge2rt.ir.make import make

REDUCTIONS = frozenset({"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"})
PRODUCTS = frozenset({"matmul", "gemm_bias_act"})

_Range = tuple[int, int, int]  # start, step and extent along an axis
_ALL_OF_ONE: _Range = (0, 1, 1)


def can_slice(node: Node, view: Node) -> bool:
    """Whether a slice of ``node`` is the same work on slices of its operands."""
    if 0 in view.shape or node.type.rank == 0:
        return False
    if node.op == "reshape":
        return _long(node.shape) == _long(node.inputs[0].shape)
    return node.op == "broadcast" or node.op in REDUCTIONS | PRODUCTS


def _long(shape: Sequence[int]) -> list[int]:
    return [extent for extent in shape if extent != 1]


def sliced_operands(node: Node, view: Node) -> tuple[Node, ...]:
    """The slices of each operand of ``node`` that ``view``, a slice of it, needs."""
    ranges = list(zip(ints(view, "start"), ints(view, "step"), view.shape, strict=True))
    if node.op in PRODUCTS:
        return _of_product(node, ranges)
    x = node.inputs[0]
    if node.op == "broadcast":
        return (_narrowed(x, ranges),)
    if node.op == "reshape":
        kept = iter([r for r, extent in zip(ranges, node.shape, strict=True) if extent != 1])
        return (_cut(x, [next(kept) if extent != 1 else _ALL_OF_ONE for extent in x.shape]),)
    gone = {integer(node, "axis")} if "axis" in node.attrs else set(ints(node, "axes"))
    rows = iter(ranges)
    return (_cut(x, [(0, 1, e) if a in gone else next(rows) for a, e in enumerate(x.shape)]),)


def resliced(node: Node, view: Node) -> dict[str, object]:
    """The attributes of ``node`` on the sliced operands."""
    own = {"shape": view.shape} if node.op in ("broadcast", "reshape") else {}
    return {**node.attrs, **own}


def _of_product(node: Node, ranges: list[_Range]) -> tuple[Node, ...]:
    left, right = node.inputs[:2]
    batch, rows, columns = ranges[:-2], ranges[-2], ranges[-1]
    inner = (0, 1, left.shape[-1])
    sides = (_cut(left, [*batch, rows, inner]), _cut(right, [*batch, inner, columns]))
    return (*sides, *(_narrowed(bias, ranges) for bias in node.inputs[2:]))


def _narrowed(x: Node, ranges: list[_Range]) -> Node:
    """The part of something broadcast that belongs to the ranges: axes of extent 1 stay."""
    own = ranges[len(ranges) - x.type.rank :]
    return _cut(x, [_ALL_OF_ONE if e == 1 else r for e, r in zip(x.shape, own, strict=True)])


def _cut(x: Node, ranges: Sequence[_Range]) -> Node:
    start, step, shape = (tuple(r[i] for r in ranges) for i in range(3))
    return make("slice", x, start=start, step=step, shape=shape, where=x.where)
