"""The reference evaluator: a graph run node by node in NumPy. Slow, plain, and the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.meaning import MEANING, MOVES, Array

_NARROW = frozenset({"f16", "bf16"})


def evaluate(graph: Graph, arrays: Sequence[Any]) -> list[Array]:
    """The outputs for these inputs, as fresh contiguous arrays.

    Raises ``TypeError`` and ``ValueError`` where the arrays are not what the inputs declare, and
    ``ValueError`` ("outside") for a gather out of range.
    """
    if len(arrays) != len(graph.inputs):
        raise InvalidArgumentError(
            f"graph {graph.name}: {len(arrays)} arrays", expected=f"{len(graph.inputs)} arrays",
            next_step="give one array an input, in order",
        )  # fmt: skip
    values = {node: _checked(node, array) for node, array in zip(graph.inputs, arrays, strict=True)}
    last = _last_uses(graph)
    with np.errstate(all="ignore"):
        for step, node in enumerate(graph.nodes):
            values[node] = apply(node, [values[operand] for operand in node.inputs])
            for dead in last.get(step, ()):
                del values[dead]
    return [np.array(values[node], order="C") for node in graph.outputs]


def apply(node: Node, operands: Iterable[Array]) -> Array:
    """The value of one node. f16 and bf16 are computed in f32 and rounded."""
    attrs = node.attrs
    if node.op not in MOVES:
        operands = [x.astype(np.float32) if _is_narrow(x) else x for x in operands]
    with np.errstate(all="ignore"):
        result = np.asarray(MEANING[node.op](*operands, **attrs))
        wanted = node.type.element.numpy
        return result if result.dtype == wanted else result.astype(wanted)


def _is_narrow(x: Array) -> bool:
    return x.dtype.itemsize == 2 and dtype_of(x.dtype).name in _NARROW


def _checked(node: Node, array: Any) -> Array:
    value = np.asarray(array)
    if value.dtype != node.type.element.numpy:
        raise InvalidTypeError(
            "input has another dtype", argument=str(node.attrs.get("name", "")), detail="dtype",
            expected=node.dtype, got=str(value.dtype), next_step="cast the array first",
        )  # fmt: skip
    if value.shape != node.shape:
        raise InvalidArgumentError(
            "input has another shape", argument=str(node.attrs.get("name", "")), detail="shape",
            expected=str(node.shape), got=str(value.shape),
            next_step="build a graph for this shape",
        )  # fmt: skip
    return value


def _last_uses(graph: Graph) -> dict[int, list[Node]]:
    """For each step, the values that nothing reads after it."""
    last: dict[Node, int] = {}
    for step, node in enumerate(graph.nodes):
        last[node] = step
        for operand in node.inputs:
            last[operand] = step
    for node in graph.outputs:
        last.pop(node, None)
    freed: dict[int, list[Node]] = {}
    for node, step in last.items():
        freed.setdefault(step, []).append(node)
    return freed
