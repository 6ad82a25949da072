"""Reductions, joins and products whose shapes make them simpler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ge2rt.ir.attrs import integer, ints, number
from ge2rt.ir.constants import constant, full
from ge2rt.ir.graph import Node
from ge2rt.ir.rewrite import Builder, Rule
from ge2rt.ir.rules.views import stripped

_REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
_REPEATABLE = frozenset({"max", "min", "any", "all"})  # f(x, x) = x, in any order


def reduce_ones(b: Builder, n: Node) -> Node | None:
    """A reduction over axes of extent 1."""
    x = n.inputs[0]
    long = tuple(a for a in ints(n, "axes") if x.shape[a] != 1)
    if long == ints(n, "axes") and long:
        return None
    kept = tuple(e for a, e in enumerate(x.shape) if a in long or a not in ints(n, "axes"))
    flat = b.make("reshape", x, shape=kept, where=n.where)
    if not long:
        return flat
    moved = tuple(a - sum(o < a and o not in long for o in ints(n, "axes")) for a in long)
    return b.make(n.op, flat, axes=moved, where=n.where)


def reduce_of_reduce(b: Builder, n: Node) -> Node | None:
    """Two reductions of one kind as one, where the order of the items never shows."""
    inner = n.inputs[0]
    exact = n.op in _REPEATABLE or not n.type.element.is_float
    if inner.op != n.op or not exact:
        return None
    kept = [a for a in range(inner.inputs[0].type.rank) if a not in ints(inner, "axes")]
    axes = tuple(sorted((*ints(inner, "axes"), *(kept[a] for a in ints(n, "axes")))))
    return b.make(n.op, inner.inputs[0], axes=axes, where=n.where)


def reduce_of_transpose(b: Builder, n: Node) -> Node | None:
    """A reduction of transposed values whose kept axes stay in order."""
    inner = n.inputs[0]
    if inner.op != "transpose":
        return None
    perm = ints(inner, "perm")
    if n.op.startswith("arg"):
        axis = integer(n, "axis")
        gone = {axis}
        attrs: dict[str, Any] = {"axis": perm[axis]}
    else:
        gone = set(ints(n, "axes"))
        attrs = {"axes": tuple(sorted(perm[a] for a in gone))}
    kept = [p for a, p in enumerate(perm) if a not in gone]
    if kept != sorted(kept):
        return None
    return b.make(n.op, inner.inputs[0], where=n.where, **attrs)


def arg_of_one(b: Builder, n: Node) -> Node | None:
    """The index of the extreme of one element."""
    axis = integer(n, "axis")
    return full(b, n.type, 0) if n.inputs[0].shape[axis] == 1 else None


def reduce_repeated(b: Builder, n: Node) -> Node | None:
    """The maximum of one value repeated."""
    x = n.inputs[0]
    if x.op == "full" and n.op in _REPEATABLE and x.type.size:
        value = constant(x)
        return full(b, n.type, value) if value is not None else None
    return None


def concat_flat(b: Builder, n: Node) -> Node | None:
    """A join of one operand, of empty ones, or of joins along the same axis and parts of these."""
    axis = integer(n, "axis")
    if len(n.inputs) == 1:
        return n.inputs[0]
    parts: list[Node] = []
    for x in n.inputs:
        parts += _joined(b, x, axis) or ([x] if x.shape[axis] else [])
    if tuple(parts) == n.inputs:
        return None
    return b.make("concat", *(parts or n.inputs[:1]), axis=axis, where=n.where)


def _joined(b: Builder, x: Node, axis: int) -> list[Node]:
    """What ``x`` is a join of, along the axis, where it is one or a run of one; else nothing."""
    join, low = x, 0
    if x.op == "slice":
        join = x.inputs[0]
        others = zip(x.shape, join.shape, strict=True)
        if set(ints(x, "step")) != {1} or any(
            have != whole for a, (have, whole) in enumerate(others) if a != axis
        ):
            return []
        low = ints(x, "start")[axis]
    if join.op != "concat" or join.attrs["axis"] != axis:
        return []
    found, at = [], 0
    for part in join.inputs:
        first, last = max(low, at), min(low + x.shape[axis], at + part.shape[axis])
        if first < last:
            start = tuple(first - at if a == axis else 0 for a in range(part.type.rank))
            shape = tuple(last - first if a == axis else e for a, e in enumerate(part.shape))
            found.append(b.make("slice", part, start=start, step=(1,) * part.type.rank,
                                shape=shape, where=x.where))  # fmt: skip
        at += part.shape[axis]
    return found


def pad_nothing(b: Builder, n: Node) -> Node | None:
    """A pad of width 0, or of a constant with itself."""
    x = n.inputs[0]
    if x.shape == n.shape:
        return x
    value = constant(x)
    rim = constant(full(b, x.type, number(n, "value")))
    if value is not None and repr(value) == repr(rim):
        return full(b, n.type, value)
    return None


def one_product(b: Builder, n: Node) -> Node | None:
    """A batch of products with one right side as one taller product.

    Not where the left side is a transpose or broadcast, which would have to be copied first.
    """
    left, right = n.inputs
    batch = n.shape[:-2]
    shared = right.op == "broadcast" and len(stripped(right.inputs[0].shape)) <= 2
    single = all(e == 1 for e in batch)
    if not batch or not (shared or single) or (not single and _moved(left)):
        return None
    rows, inner, columns = n.shape[-2], left.shape[-1], n.shape[-1]
    for extent in batch:
        rows *= extent
    tall = b.make("reshape", left, shape=(rows, inner), where=n.where)
    flat = right.inputs[0] if shared else right
    if shared and flat.shape[-2:] != right.shape[-2:]:
        return None  # the matrix itself is repeated along its rows or columns
    flat = b.make("reshape", flat, shape=(inner, columns), where=n.where)
    product = b.make("matmul", tall, flat, where=n.where)
    return b.make("reshape", product, shape=n.shape, where=n.where)


def _moved(x: Node) -> bool:
    """Whether the rows of ``x`` do not lie one after the other, as far as can be seen."""
    while x.op == "slice":
        if x.shape[1:] != x.inputs[0].shape[1:] or set(ints(x, "step")) != {1}:
            return True
        x = x.inputs[0]
    return x.op in ("transpose", "broadcast")


_REDUCE: Mapping[str, tuple[Rule, ...]] = dict.fromkeys(
    _REDUCTIONS, (reduce_ones, reduce_of_reduce, reduce_of_transpose, reduce_repeated)
)
TABLES: tuple[Mapping[str, tuple[Rule, ...]], ...] = (
    _REDUCE,
    {
        "argmax": (arg_of_one, reduce_of_transpose), "argmin": (arg_of_one, reduce_of_transpose),
        "concat": (concat_flat,), "pad": (pad_nothing,), "matmul": (one_product,),
    },
)  # fmt: skip
