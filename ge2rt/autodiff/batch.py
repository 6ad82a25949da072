"""Batching: nodes of one example to nodes of many, side by side along a new first axis.

A node that reads nothing batched stays as it is. The new axis of a batched value is always its
first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ge2rt.autodiff.functions import reshaped
from ge2rt.ir.graph import Node, walk
from ge2rt.ir.ops import OPS
from ge2rt.ir.rewrite import Builder


def batched(
    builder: Builder, outputs: Sequence[Node], given: Mapping[Node, Node], size: int
) -> list[Node]:
    """The outputs of ``size`` examples; ``given`` has inputs with all their examples.

    An output that depends on none of them is repeated.
    """
    many = dict(given)
    for node in walk(tuple(outputs)):
        if node not in many and any(operand in many for operand in node.inputs):
            many[node] = _Site(builder, node, many, size).run()
    return [many.get(node) or _repeated(builder, node, size) for node in outputs]


def _repeated(builder: Builder, node: Node, size: int) -> Node:
    line = builder.make("reshape", node, shape=(1, *node.shape))
    return builder.make("broadcast", line, shape=(size, *node.shape))


class _Site:
    """One node, with its operands of many examples."""

    def __init__(self, builder: Builder, node: Node, many: Mapping[Node, Node], size: int) -> None:
        self.builder, self.node, self.many, self.size = builder, node, many, size

    def run(self) -> Node:
        """The node of many examples."""
        rule = _BY_OP.get(self.node.op) or _BY_KIND[OPS[self.node.op].kind]
        return rule(self)

    def whole(self, node: Node) -> Node:
        """An operand of all examples, repeated where it is one for all."""
        return self.many.get(node) or _repeated(self.builder, node, self.size)

    def again(self, *operands: Node, **attrs: object) -> Node:
        """The node's op on other operands, with some attributes changed."""
        merged = {**self.node.attrs, **attrs}
        return self.builder.make(self.node.op, *operands, where=self.node.where, **merged)

    def all_whole(self) -> list[Node]:
        """All operands of all examples."""
        return [self.whole(operand) for operand in self.node.inputs]


def _axis_moved(site: _Site) -> Node:
    axis = site.node.attrs["axis"]
    assert isinstance(axis, int)
    return site.again(*site.all_whole(), axis=axis + 1)


def _reduced(site: _Site) -> Node:
    if "axis" in site.node.attrs:
        return _axis_moved(site)
    axes: tuple[int, ...] = site.node.attrs["axes"]  # type: ignore[assignment]
    return site.again(*site.all_whole(), axes=tuple(a + 1 for a in axes))


def _broadcast(site: _Site) -> Node:
    (x,) = site.node.inputs
    shape = site.node.shape
    aligned = (site.size, *(1,) * (len(shape) - x.type.rank), *x.shape)
    line = reshaped(site.builder, site.whole(x), aligned)
    return site.again(line, shape=(site.size, *shape))


def _transpose(site: _Site) -> Node:
    perm: tuple[int, ...] = site.node.attrs["perm"]  # type: ignore[assignment]
    return site.again(*site.all_whole(), perm=(0, *(a + 1 for a in perm)))


def _reshape(site: _Site) -> Node:
    return site.again(*site.all_whole(), shape=(site.size, *site.node.shape))


def _slice(site: _Site) -> Node:
    attrs = site.node.attrs
    start, step = (0, *attrs["start"]), (1, *attrs["step"])  # type: ignore[misc]
    return site.again(*site.all_whole(), start=start, step=step,
                      shape=(site.size, *site.node.shape))  # fmt: skip


def _pad(site: _Site) -> Node:
    attrs = site.node.attrs
    low, high = (0, *attrs["low"]), (0, *attrs["high"])  # type: ignore[misc]
    return site.again(*site.all_whole(), low=low, high=high)


def _gather(site: _Site) -> Node:
    """Batched indices of one array need no copies of it; a batched array needs its example's."""
    x, *indices = site.node.inputs
    whole = [site.whole(index) for index in indices]
    if x not in site.many:
        return site.again(x, *whole)
    example = site.builder.make("iota", shape=whole[0].shape, dtype=whole[0].dtype, axis=0)
    return site.again(site.many[x], example, *whole)


def _scatter_rows(site: _Site) -> Node:
    """Rows of all examples, numbered through."""
    x, index = site.all_whole()
    (rows, width), b = site.node.inputs[0].shape, site.builder
    count = site.node.shape[0]
    if index.dtype != "i64":
        index = b.make("cast", index, dtype="i64")
    example = b.make("iota", shape=index.shape, dtype="i64", axis=0)
    wide = b.make("full", shape=index.shape, dtype="i64", value=count)
    number = b.make("add", b.make("mul", example, wide), index)
    total = b.make(
        "scatter_rows", reshaped(b, x, (site.size * rows, width)),
        reshaped(b, number, (site.size * rows,)), count=site.size * count,
    )  # fmt: skip
    return reshaped(b, total, (site.size, count, width))


def _pointwise(site: _Site) -> Node:
    return site.again(*site.all_whole())


_BY_OP: Mapping[str, Callable[[_Site], Node]] = {
    "broadcast": _broadcast, "transpose": _transpose, "reshape": _reshape, "slice": _slice,
    "gather": _gather, "concat": _axis_moved, "pad": _pad,
}  # fmt: skip
_BY_KIND: Mapping[str, Callable[[_Site], Node]] = {
    "pointwise": _pointwise, "reduce": _reduced, "contract": _pointwise,
    "scatter": _scatter_rows, "scan": _axis_moved, "sort": _axis_moved,
}  # fmt: skip
