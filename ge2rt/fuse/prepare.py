"""Before the partition: ops without a kernel for their types and sizes are written out.

What stays has a kernel: products of matrices as ``matmul`` or ``gemm_bias_act``, attention, scans,
sorts. A product with few rows or columns is a reduction, which fuses with what is around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ge2rt.base.shapes import size_of
from ge2rt.fuse.products import choose_product
from ge2rt.fuse.program import Choices
from ge2rt.fuse.tanh import halved, one_plus_tanh
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.rewrite import Builder, rebuild

_HEAD = 256  # elements of a head that the attention kernels take
_MOST = 8  # operands of a join that one kernel tells apart


def prepared(graph: Graph, choices: Choices) -> Graph:
    """The graph with every op of it in a form that lowers."""

    def rule(builder: Builder, node: Node) -> Node | None:
        found = _RULES.get(node.op)
        return found(builder, node, choices) if found is not None else None

    return rebuild(graph, rule)


def library_of(node: Node, choices: Choices) -> str:
    """Why a product goes to a library, or "" where it does not."""
    a, b = node.inputs[:2]
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if "matmul" not in choices.library or 0 in a.shape or 0 in b.shape:
        return ""
    batch, least = size_of(a.shape[:-2]), choices.library_mnk
    verdict = choose_product(m, n, k, batch=batch, dtype=a.dtype, kind=choices.kind)
    if least < 0:
        return verdict.reason if verdict.library else ""
    return f"{batch * m * n * k} >= {least}, as asked" if batch * m * n * k >= least else ""


def _gemm(builder: Builder, node: Node, choices: Choices) -> Node | None:
    a, b = node.inputs[:2]
    thin = _is_thin(node, choices)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    plain = a.dtype == "f32" and len(a.shape) == 2 and (bias is None or len(bias.shape) <= 2)
    if plain and not thin and not library_of(node, choices) and 0 not in a.shape:
        return None
    product = builder.make("matmul", a, b, where=node.where)
    z = _thin(builder, product, choices) or product
    if bias is not None:
        z = _binary(builder, "add", z, bias)
    act = str(node.attrs["act"])
    slope = node.attrs["slope"]
    assert isinstance(slope, float)
    return _ACTIVATIONS[act](_Maker(builder, z, slope))


class _Maker:
    """Pointwise ops on one value and numbers."""

    def __init__(self, builder: Builder, z: Node, slope: float) -> None:
        self.builder, self.z, self.slope = builder, z, slope

    def number(self, value: float) -> Node:
        one = self.builder.make("full", shape=(), dtype=self.z.dtype, value=value)
        return self.builder.make("broadcast", one, shape=self.z.shape)

    def op(self, name: str, *operands: Node | float) -> Node:
        nodes = [o if isinstance(o, Node) else self.number(o) for o in operands]
        return self.builder.make(name, *nodes, where=self.z.where)


def _gelu(m: _Maker) -> Node:
    cubed = m.op("mul", m.op("mul", m.op("mul", m.z, m.z), m.z), 0.044715)
    inner = m.op("mul", m.op("add", m.z, cubed), -1.5957691216057308)  # -2 sqrt(2 / pi)
    return m.op("div", m.z, m.op("add", m.op("exp", inner), 1.0))


def _gelu_erf(m: _Maker) -> Node:
    tail = m.op("add", m.op("erf", m.op("mul", m.z, 0.7071067811865476)), 1.0)
    return m.op("mul", m.op("mul", m.z, 0.5), tail)


_ACTIVATIONS: Mapping[str, Callable[[_Maker], Node]] = {
    "none": lambda m: m.z,
    "relu": lambda m: m.op("maximum", m.z, 0.0),
    "relu_where": lambda m: m.op("select", m.op("gt", m.z, 0.0), m.z, 0.0),
    "leaky_relu": lambda m: m.op("select", m.op("lt", m.z, 0.0), m.op("mul", m.z, m.slope), m.z),
    "gelu": _gelu,
    "gelu_erf": _gelu_erf,
    "silu": lambda m: m.op("div", m.z, m.op("add", m.op("exp", m.op("neg", m.z)), 1.0)),
    "sigmoid": lambda m: m.op("sigmoid", m.z),
    "tanh": lambda m: m.op("tanh", m.z),
}


def _binary(builder: Builder, op: str, z: Node, other: Node) -> Node:
    spread = builder.make("broadcast", other, shape=z.shape) if other.shape != z.shape else other
    return builder.make(op, z, spread, where=z.where)


# -- products with few rows or columns -----------------------------------------------------------


def _is_thin(node: Node, choices: Choices) -> bool:
    a, b = node.inputs[:2]
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if 0 in (*a.shape, *b.shape) or k == 1:
        return True
    few = min(m, n) <= choices.thin_rows or k <= choices.thin_rows
    narrow = any(x.op == "cast" and x.inputs[0].type.nbytes < x.type.nbytes for x in (a, b))
    return few and (not library_of(node, choices) or (narrow and m <= choices.thin_rows))


def _thin(builder: Builder, node: Node, choices: Choices) -> Node | None:
    """A product as a sum over products, where that reads each matrix about once."""
    if node.op != "matmul" or not _is_thin(node, choices):
        return None
    a, b = (_wide(builder, x) for x in node.inputs)
    *lead, m, k = a.shape
    n = b.shape[-1]
    # the axis that is summed stands where b has it, so that b is read along its memory
    full = (*lead, m, k, n)
    rank = len(full)
    a = builder.make("reshape", a, shape=(*lead, m, k, 1))
    b = builder.make("reshape", b, shape=(*lead, 1, k, n))
    a, b = (builder.make("broadcast", x, shape=full) for x in (a, b))
    logic = node.dtype == "bool"
    product = builder.make("logical_and" if logic else "mul", a, b, where=node.where)
    total = builder.make("any" if logic else "sum", product, axes=(rank - 2,), where=node.where)
    return total if total.dtype == node.dtype else builder.make("cast", total, dtype=node.dtype)


def _wide(builder: Builder, node: Node) -> Node:
    """Halves as f32: their products are not rounded before they are added."""
    return builder.make("cast", node, dtype="f32") if node.dtype in ("f16", "bf16") else node


# -- attention, joins ----------------------------------------------------------------------------


def _attention(builder: Builder, node: Node, choices: Choices) -> Node | None:
    q, k, v = node.inputs[:3]
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    fits = q.dtype != "f64" and q.shape[-1] <= _HEAD and v.shape[-1] <= _HEAD
    if fits and size_of(q.shape) and size_of(v.shape):
        if mask is None or (len(mask.shape) == len(q.shape) and mask.dtype in ("f32", "bool")):
            return None
        if mask.dtype not in ("f32", "bool"):
            mask = builder.make("cast", mask, dtype="f32")
        lead = (1,) * (len(q.shape) - len(mask.shape))
        mask = builder.make("reshape", mask, shape=(*lead, *mask.shape))
        return builder.make("attention", q, k, v, mask, where=node.where, **dict(node.attrs))
    return _written_out(builder, node)


def _written_out(builder: Builder, node: Node) -> Node:
    """Attention by its definition."""
    q, k, v = node.inputs[:3]
    rank = len(q.shape)
    turned = (*range(rank - 2), rank - 1, rank - 2)
    raw = builder.make("matmul", q, builder.make("transpose", k, perm=turned))
    scale = node.attrs["scale"]
    assert isinstance(scale, float)
    m = _Maker(builder, raw, 0.0)
    scores = m.op("mul", raw, scale)
    low = m.number(float("-inf"))
    for mask in node.inputs[3:]:
        if mask.dtype == "bool":
            seen = builder.make("broadcast", mask, shape=raw.shape)
            scores = builder.make("select", seen, scores, low)
        else:
            scores = _binary(builder, "add", scores, mask)
    if node.attrs["causal"]:
        places = [
            builder.make("iota", shape=raw.shape, dtype="i64", axis=a) for a in (rank - 2, rank - 1)
        ]
        gap = builder.make("full", shape=raw.shape, dtype="i64", value=node.attrs["diagonal"])
        places[0] = builder.make("add", places[0], gap)
        scores = builder.make("select", builder.make("ge", *places), scores, low)
    axes = (rank - 1,)
    kept = (*raw.shape[:-1], 1)

    def along(row: Node) -> Node:
        return builder.make("broadcast", builder.make("reshape", row, shape=kept), shape=raw.shape)

    peak = along(builder.make("max", scores, axes=axes))
    e = builder.make("exp", builder.make("sub", scores, peak))
    share = builder.make("div", e, along(builder.make("sum", e, axes=axes)))
    return builder.make("matmul", share, v, where=node.where)


def _concat(builder: Builder, node: Node, choices: Choices) -> Node | None:
    """Many operands as joins of joins."""
    operands = list(node.inputs)
    if len(operands) <= _MOST:
        return None
    while len(operands) > _MOST:
        groups = [operands[i : i + _MOST] for i in range(0, len(operands), _MOST)]
        operands = [
            builder.make("concat", *g, axis=node.attrs["axis"]) if len(g) > 1 else g[0]
            for g in groups
        ]
    return builder.make("concat", *operands, axis=node.attrs["axis"], where=node.where)


_RULES: Mapping[str, Callable[[Builder, Node, Choices], Node | None]] = {
    "gemm_bias_act": _gemm, "matmul": _thin, "attention": _attention, "concat": _concat,
    "add": lambda builder, node, choices: one_plus_tanh(builder, node),
    "mul": lambda builder, node, choices: halved(builder, node),
}  # fmt: skip
