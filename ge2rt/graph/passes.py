"""Passes over graphs built by hand, in ge_v2's order: canonicalise, fuse, bind to op types.

A pass is a function ``graph -> graph``. :class:`PassManager` runs a list of them and keeps what
each one made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.text import show
from ge2rt.graph.model import Graph, Op, Tensor

Pass: TypeAlias = Callable[[Graph], Graph]

# other spellings of a graph's ops
SPELLINGS = {
    "MM": "MATMUL", "GEMM": "MATMUL", "DOT": "MATMUL", "BIASADD": "BIAS_ADD",
    "ADD_BIAS": "BIAS_ADD", "DIVIDE": "DIV", "SUBTRACT": "SUB", "MULTIPLY": "MUL",
    "MAXIMUM": "MAX", "MINIMUM": "MIN", "LAYER_NORM": "LAYERNORM",
    "RMS_NORM": "RMSNORM", "SDPA": "ATTENTION",
}  # fmt: skip

# activation -> the `act` of GEMM_BIAS_ACT, and the `op` of UNARY
ACTIVATIONS = {
    "RELU": "relu", "GELU": "gelu", "GELU_ERF": "gelu_erf", "SIGMOID": "sigmoid", "TANH": "tanh",
    "SILU": "silu", "LEAKY_RELU": "leaky_relu",
}  # fmt: skip

# ops that are one case of a kernel's op type: op -> (op type, value of its `op` attribute)
CASES = {
    **{name: ("UNARY", op) for name, op in ACTIVATIONS.items()},
    **{name: ("UNARY", name.lower()) for name in (
        "IDENTITY", "EXP", "LOG", "SQRT", "RSQRT", "NEG", "ABS", "SQUARE", "SIN", "COS", "ERF",
        "CLIP", "SOFTPLUS", "RECIPROCAL",
    )},
    **{name: ("BINARY", name.lower()) for name in (
        "ADD", "SUB", "MUL", "DIV", "MAX", "MIN", "POW", "MOD",
    )},
    "BIAS_ADD": ("BINARY", "add"),
}  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One pass that was run, and the graph after it."""

    name: str
    graph: Graph
    changed: bool

    def __str__(self) -> str:
        return f"-- after {self.name}{'' if self.changed else ' (no change)'}\n{self.graph}"


class PassManager:
    """Runs passes in order; ``stages`` keeps the last run's graphs."""

    def __init__(self, passes: Sequence[Pass] | None = None) -> None:
        self.passes: list[Pass] = list(DEFAULT_PASSES if passes is None else passes)
        self.stages: tuple[Stage, ...] = ()

    def add(self, one: Pass, *, before: Pass | str | None = None) -> PassManager:
        """Put a pass at the end, or before another one (itself or its name); returns the manager.

        InvalidArgumentError where there is no such pass.
        """
        self.passes.insert(len(self.passes) if before is None else self._place(before), one)
        return self

    def _place(self, wanted: Pass | str) -> int:
        for at, each in enumerate(self.passes):
            if wanted == each or wanted == _name(each):
                return at
        raise InvalidArgumentError(
            "no such pass to put another one before", argument="before",
            expected=", ".join(map(_name, self.passes)) or "no pass: there is none yet",
            got=wanted if isinstance(wanted, str) else _name(wanted),
        )  # fmt: skip

    def run(self, graph: Graph) -> Graph:
        """The graph after all passes. InvalidTypeError where one gives no graph."""
        stages = []
        for one in self.passes:
            name = _name(one)
            after = one(graph)
            if not isinstance(after, Graph):
                raise InvalidTypeError(
                    f"pass {name} gave no graph", expected="a ge2rt.graph.Graph", got=show(after),
                    next_step="return the graph it was given where nothing changes",
                )  # fmt: skip
            stages.append(Stage(name, after, str(after) != str(graph)))
            graph = after
        self.stages = tuple(stages)
        return graph


def _name(one: Pass) -> str:
    return getattr(one, "__name__", type(one).__name__)


def canonicalise(graph: Graph) -> Graph:
    """Upper-case op types, one spelling each; ops whose results nobody wants are left out."""
    ops = []
    wanted = set(graph.outputs)
    for op in reversed(graph.ops):
        if any(tensor.name in wanted for tensor in op.outputs):
            wanted |= {tensor.name for tensor in op.inputs if tensor is not None}
            name = op.op_type.upper().replace("-", "_")
            ops.append(_changed(op, op_type=SPELLINGS.get(name, name)))
    return _rebuilt(graph, ops[::-1])


def fuse_gemm_bias_act(graph: Graph) -> Graph:
    """``MATMUL -> BIAS_ADD -> activation`` becomes ``GEMM_BIAS_ACT`` with ``{act, mnk}``.

    Bias and activation are both optional. What else is read, or wanted by the caller, stays. The
    activation is sent as it was written (ge_v2's own fusion sends gelu as relu).
    """
    gone: set[int] = set()
    made: dict[int, Op] = {}
    for op in graph.ops:
        if op.op_type == "MATMUL" and _is_plain(op):
            chain = _chain(graph, op)
            gone.update(id(part) for part in chain[:-1])
            made[id(chain[-1])] = _fused(chain)
    ops = [made.get(id(op), op) for op in graph.ops if id(op) not in gone]
    return _rebuilt(graph, ops)


def bind(graph: Graph) -> Graph:
    """Ops that are one case of an op type (``RELU``: ``UNARY`` with ``op="relu"``)."""
    ops = []
    for op in graph.ops:
        if op.op_type in CASES:
            op_type, case = CASES[op.op_type]
            op = _changed(op, op_type=op_type, attrs={**op.attrs, "op": case})
        ops.append(op)
    return _rebuilt(graph, ops)


DEFAULT_PASSES: tuple[Pass, ...] = (canonicalise, fuse_gemm_bias_act, bind)


def _changed(op: Op, **parts: Any) -> Op:
    given = {"op_type": op.op_type, "inputs": op.inputs, "outputs": op.outputs, "attrs": op.attrs}
    return Op(**{**given, **parts})


def _rebuilt(graph: Graph, ops: Sequence[Op]) -> Graph:
    return Graph(ops, graph.outputs, graph.name)


def _is_plain(op: Op) -> bool:
    """Whether a product is one of two matrices, without attributes."""
    ranks = [len(t.shape) for t in op.inputs if t is not None]
    if len(op.inputs) != 2 or ranks != [2, 2] or len(op.outputs) != 1:
        raise InvalidArgumentError(
            f"MATMUL multiplies two matrices into one; got {op}", detail="shape",
            next_step="reshape the operands to two axes",
        )  # fmt: skip
    return not op.attrs


def _only_reader(graph: Graph, tensor: Tensor) -> Op | None:
    readers = graph.readers.get(tensor.name, ())
    return readers[0] if len(readers) == 1 and tensor.name not in graph.outputs else None


def _chain(graph: Graph, product: Op) -> list[Op]:
    """The product and what can be computed with it: a bias, then an activation."""
    chain = [product]
    for follows in (_is_bias, _is_activation):
        reader = _only_reader(graph, chain[-1].outputs[0])
        if reader is not None and follows(reader, chain[-1].outputs[0]):
            chain.append(reader)
    return chain


def _is_bias(op: Op, value: Tensor) -> bool:
    """Whether an op adds a vector to every row of ``value``."""
    others = [t for t in op.inputs if t is not None and t.name != value.name]
    return (
        op.op_type in ("BIAS_ADD", "ADD")
        and not op.attrs
        and len(op.inputs) == 2
        and [t.shape for t in others] == [value.shape[1:]]
        and others[0].dtype in (value.dtype, "f32")
        and op.outputs[0].dtype == value.dtype
    )


def _is_activation(op: Op, value: Tensor) -> bool:
    slope = {"alpha"} if op.op_type == "LEAKY_RELU" else set()
    return (
        op.op_type in ACTIVATIONS and set(op.attrs) <= slope and op.outputs[0].dtype == value.dtype
    )


def _fused(chain: Sequence[Op]) -> Op:
    product, result = chain[0], chain[-1].outputs[0]
    a, b = product.inputs
    assert a is not None
    assert b is not None
    attrs: dict[str, Any] = {"act": "none", "mnk": (*product.outputs[0].shape, a.shape[1])}
    inputs: list[Tensor | None] = [a, b, None]
    for op in chain[1:]:
        if op.op_type in ACTIVATIONS:
            attrs["act"] = ACTIVATIONS[op.op_type]
            if "alpha" in op.attrs:
                attrs["leaky_slope"] = op.attrs["alpha"]
        else:
            made = {part.outputs[0].name for part in chain}
            inputs[2] = next(t for t in op.inputs if t is not None and t.name not in made)
    return Op("GEMM_BIAS_ACT", inputs, (result,), attrs)
