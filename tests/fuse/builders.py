"""Functions as people write them, as graphs."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import input_node, make


def given(*shape: int, dtype: str = "f32") -> Node:
    return input_node(shape, dtype)


def graph_of(inputs: Sequence[Node], *outputs: Node) -> Graph:
    return Graph("f", tuple(inputs), tuple(outputs))


def op(name: str, *operands: Node | float) -> Node:
    """A pointwise op; numbers and smaller operands are broadcast."""
    nodes = [o for o in operands if isinstance(o, Node)]
    shape = max((n.shape for n in nodes), key=lambda s: (len(s), s))
    dtype = nodes[-1].dtype
    full = [
        o if isinstance(o, Node) else make("full", shape=(), dtype=dtype, value=o) for o in operands
    ]
    return make(name, *(o if o.shape == shape else make("broadcast", o, shape=shape) for o in full))


def kept(row: Node, x: Node, axes: tuple[int, ...]) -> Node:
    """A row value at every point of ``x``."""
    shape = tuple(1 if a in axes else e for a, e in enumerate(x.shape))
    return make("broadcast", make("reshape", row, shape=shape), shape=x.shape)


def last(x: Node) -> tuple[int, ...]:
    return (len(x.shape) - 1,)


def softmax(x: Node, axes: tuple[int, ...] | None = None) -> Node:
    axes = axes or last(x)
    e = op("exp", op("sub", x, kept(make("max", x, axes=axes), x, axes)))
    return op("div", e, kept(make("sum", e, axes=axes), x, axes))


def log_softmax(x: Node) -> Node:
    axes = last(x)
    shifted = op("sub", x, kept(make("max", x, axes=axes), x, axes))
    total = make("sum", op("exp", shifted), axes=axes)
    return op("sub", shifted, kept(op("log", total), x, axes))


def logsumexp(x: Node) -> Node:
    axes = last(x)
    peak = make("max", x, axes=axes)
    return op(
        "add", op("log", make("sum", op("exp", op("sub", x, kept(peak, x, axes))), axes=axes)), peak
    )


def mean(x: Node, axes: tuple[int, ...]) -> Node:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return op("div", make("sum", x, axes=axes), float(count))


def variance(x: Node, axes: tuple[int, ...]) -> Node:
    return mean(op("square", op("sub", x, kept(mean(x, axes), x, axes))), axes)


def layernorm(x: Node, gain: Node, bias: Node) -> Node:
    axes = last(x)
    centred = op("sub", x, kept(mean(x, axes), x, axes))
    spread = op("sqrt", op("add", mean(op("square", centred), axes), 1e-5))
    return op("add", op("mul", op("div", centred, kept(spread, x, axes)), gain), bias)


def rmsnorm(x: Node, gain: Node) -> Node:
    axes = last(x)
    rate = op("rsqrt", op("add", mean(op("mul", x, x), axes), 1e-6))
    return op("mul", op("mul", x, kept(rate, x, axes)), gain)


def gelu(x: Node) -> Node:
    cubed = op("mul", op("mul", op("mul", x, x), x), 0.044715)
    return op(
        "mul",
        op("mul", x, 0.5),
        op("add", op("tanh", op("mul", op("add", x, cubed), 0.79788)), 1.0),
    )


def cross_entropy(x: Node, labels: Node) -> Node:
    """One value a row: -log softmax(x)[label]."""
    rows = make("iota", shape=labels.shape, dtype="i64", axis=0)
    return op("sub", logsumexp(x), make("gather", x, rows, labels))


def index(shape: tuple[int, ...], axis: int) -> Node:
    return make("iota", shape=shape, dtype="i64", axis=axis)


def causal(x: Node) -> Node:
    rank = len(x.shape)
    seen = op("ge", index(x.shape, rank - 2), index(x.shape, rank - 1))
    return op(
        "select",
        seen,
        x,
        make(
            "broadcast", make("full", shape=(), dtype=x.dtype, value=float("-inf")), shape=x.shape
        ),
    )


def turned(x: Node) -> Node:
    return make("transpose", x, perm=tuple(reversed(range(len(x.shape)))))


def flat(x: Node) -> Node:
    return make("reshape", x, shape=(x.type.size,))


def cut(x: Node, start: Sequence[int], step: Sequence[int], shape: Sequence[int]) -> Node:
    return make("slice", x, start=tuple(start), step=tuple(step), shape=tuple(shape))
