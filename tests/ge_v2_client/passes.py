"""Passes over a graph: names in one spelling, and MATMUL -> BIAS_ADD -> activation as one op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ge_v2_client.ir import Graph, Op, Tensor

_NAMES = {"MM": "MATMUL", "GEMM": "MATMUL", "BIAS": "BIAS_ADD", "BIASADD": "BIAS_ADD"}
_ACTIVATIONS = {"RELU": "relu", "GELU": "gelu"}

Pass = Callable[[Graph], Graph]


def canonicalise(graph: Graph) -> Graph:
    """Op types in upper case, one name an op."""
    ops = [Op(o.op_type.upper(), o.inputs, o.outputs, dict(o.attrs)) for o in graph.ops]
    for op in ops:
        op.op_type = _NAMES.get(op.op_type, op.op_type)
    return Graph(ops)


def fuse_gemm(graph: Graph) -> Graph:
    """``GEMM_BIAS_ACT`` with ``{act, mnk}`` of a product and what follows it."""
    ops, rest = [], list(graph.ops)
    while rest:
        op = rest.pop(0)
        if op.op_type != "MATMUL":
            ops.append(op)
            continue
        chain = _chain(op, rest)
        rest = rest[len(chain) - 1 :]
        ops.append(_fused(chain))
    return Graph(ops)


def _chain(product: Op, rest: Sequence[Op]) -> list[Op]:
    """The product and the ops behind it that may be fused with it."""
    chain = [product]
    for wanted in (("BIAS_ADD",), tuple(_ACTIVATIONS)):
        following = rest[len(chain) - 1] if len(rest) >= len(chain) else None
        if following is None or following.op_type not in wanted:
            break
        if not _is_only_reader(chain[-1].outputs[0], following, rest):
            break
        chain.append(following)
    return chain


def _is_only_reader(value: Tensor, reader: Op, rest: Sequence[Op]) -> bool:
    readers = [op for op in rest if any(t is value for t in op.inputs)]
    return len(readers) == 1 and readers[0] is reader and reader.inputs[0] is value


def _fused(chain: Sequence[Op]) -> Op:
    a, b = chain[0].inputs
    bias = [op.inputs[1] for op in chain if op.op_type == "BIAS_ADD"]
    act = next((_ACTIVATIONS[o.op_type] for o in chain if o.op_type in _ACTIVATIONS), "none")
    mnk = (a.shape[0], b.shape[1], a.shape[1])
    return Op("GEMM_BIAS_ACT", [a, b, *bias], chain[-1].outputs, {"act": act, "mnk": mnk})


def run_passes(graph: Graph, passes: Sequence[Pass] = (canonicalise, fuse_gemm)) -> Graph:
    """Each pass in order."""
    for each in passes:
        graph = each(graph)
    return graph
