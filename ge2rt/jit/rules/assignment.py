"""``x[index] = value``: a new node for the same array, made of selects and joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.graph import Node
from ge2rt.jit.faults import not_covered
from ge2rt.jit.promote import broadcast, joint, lift, materialise, raise_shape, shape_of
from ge2rt.jit.rules.indexing import Parsed, Span, along, gather, parse
from ge2rt.jit.rules.joining import joined
from ge2rt.jit.rules.shapes import reshaped, sliced
from ge2rt.jit.scope import emit, where
from ge2rt.jit.traced import Traced


def set_item(x: Traced, index: Any, value: Any) -> None:
    """``x[index] = value`` for basic indices, masks and single traced integers."""
    if isinstance(value, Traced):
        _after_in_place(x, index, value)
    if getattr(index, "dtype", None) == np.bool_ and np.ndim(index):
        x.store(Traced(_masked(x, lift(index), value)))
        return
    parsed = parse(x, index)
    if any(array.shape for array in parsed.arrays.values()):
        raise not_covered(
            "assignment to an array of indices", where(),
            next_step="write it with numpy.where, or gather from the other side",
        )  # fmt: skip
    x.store(Traced(_placed(x, parsed, value)))


def _after_in_place(x: Traced, index: Any, value: Traced) -> None:
    """``x[i] += y`` writes through ``x[i]`` first: then ``x`` may be read to put it in place."""
    memory = x.memory
    if memory.last is value and x.version == memory.version - 1 and value.origin is not None:
        base, parsed = value.origin
        if base is x:
            x.version = memory.version
            if parse(x, index) != parsed:
                x.version -= 1


def _masked(x: Traced, mask: Traced, value: Any) -> Node:
    """Where the mask holds, the value; it must not need to know how many places hold."""
    rest = x.shape[mask.ndim :]
    if mask.shape != x.shape[: mask.ndim]:
        raise InvalidArgumentError(
            f"a mask of shape {mask.shape} for an array of shape {x.shape}", where=where(),
            next_step="the mask's axes must be the array's first ones",
        )  # fmt: skip
    if len(shape_of(value)) > len(rest):
        raise not_covered(
            "assignment of several values through a mask", where(),
            "their places depend on the mask's values", "use numpy.where(mask, a, b)",
        )  # fmt: skip
    wide = broadcast(reshaped(mask.node, (*mask.shape, *(1,) * len(rest))), x.shape)
    return emit("select", wide, broadcast(_like(value, x), x.shape), x.node)


def _like(value: Any, x: Traced) -> Node:
    return materialise(value, x.dtype, shape_of(value))


def _placed(x: Traced, parsed: Parsed, value: Any) -> Node:
    """The value at the places of a basic index, or of one with single traced integers."""
    seen = [
        1 if axis is None else parsed.spans[axis].count
        for axis in parsed.layout
        if axis is None or not (parsed.spans[axis].drop or axis in parsed.arrays)
    ]
    node = _like(value, x)
    if joint(node.shape, seen) != tuple(seen):
        raise_shape(node.shape, tuple(seen), "assignment")
    counts = [1 if a in parsed.arrays else s.count for a, s in enumerate(parsed.spans)]
    block = reshaped(broadcast(node, seen), counts)
    for axis in parsed.arrays:
        block = broadcast(block, [x.shape[a] if a == axis else e
                                  for a, e in enumerate(block.shape)])  # fmt: skip
    placed = _into(x.node, block, parsed.spans)
    for axis, index in parsed.arrays.items():
        placed = emit("select", _is_place(x, axis, index), placed, x.node)
    return placed


def _is_place(x: Traced, axis: int, index: Traced) -> Node:
    """Where the axis' coordinate is the index; looking it up tells one that is outside."""
    steps = emit("iota", shape=(x.shape[axis],), dtype=index.node.dtype, axis=0)
    known = gather(steps, [index])
    places = emit("iota", shape=x.shape, dtype=index.node.dtype, axis=axis)
    return emit("eq", places, broadcast(known, x.shape))


def _into(node: Node, block: Node, spans: Sequence[Span], axis: int = 0) -> Node:
    """``node`` with ``block`` in place of the spans: before, block, behind, axis by axis."""
    if axis == len(spans):
        return block
    each = spans[axis]
    extent = node.shape[axis]
    if each.count == 0:
        return node
    if abs(each.step) != 1 and each.count > 1:
        return _strided(node, block, spans, axis)
    if each.step < 0:
        block = sliced(block, axis, each.count - 1, each.count, -1)
    low = min(each.start, each.start + each.step * (each.count - 1))
    inner = _into(sliced(node, axis, low, each.count), block, spans, axis + 1)
    rest = extent - low - each.count
    parts = [sliced(node, axis, 0, low), inner, sliced(node, axis, low + each.count, rest)]
    return joined([part for part in parts if part.shape[axis]], axis)


def _strided(node: Node, block: Node, spans: Sequence[Span], axis: int) -> Node:
    """A span with a step: each coordinate knows whether it is hit, and by which element."""
    each, shape = spans[axis], node.shape
    steps = Traced(emit("iota", shape=(shape[axis],), dtype="i64", axis=0)) - each.start
    turn = (steps // each.step).clip(0, each.count - 1)
    hit = (turn * each.step) == steps
    wide = _taken(block, axis, turn)
    inner = _into(
        _taken(node, axis, turn * each.step + each.start),
        wide,
        _whole(spans, axis, shape),
        axis + 1,
    )
    line = reshaped(hit.node, [shape[axis] if a == axis else 1 for a in range(len(shape))])
    return emit("select", broadcast(line, shape), inner, node)


def _taken(node: Node, axis: int, index: Traced) -> Node:
    return along(Traced(node), axis, index).node


def _whole(spans: Sequence[Span], axis: int, shape: Sequence[int]) -> list[Span]:
    return [Span(0, 1, shape[axis]) if a == axis else span for a, span in enumerate(spans)]
