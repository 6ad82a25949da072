"""The CUDA expression of each op, run on the CPU device, against the meaning of the op.

A few kernels a day; all of them with ``--full``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ir.samples import ALL_DTYPES, array, dtypes_of

from ge2rt.device.registry import get_device
from ge2rt.fuse.lower import lower
from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import input_node, make
from ge2rt.ir.ops import OPS
from ge2rt.run.program import Executable

SIZE, EACH, DAILY = 400, 12, 2


def nodes_of(dtype: str) -> tuple[tuple[Node, ...], list[Node]]:
    """Inputs and one node for each op (a cast: for each target) of this dtype."""
    values = tuple(input_node((SIZE,), dtype, name) for name in "abc")
    inputs = (*values, input_node((SIZE,), "bool", "d"))
    found = []
    for name, spec in OPS.items():
        if name == "cast":
            targets = [target for target in ALL_DTYPES if target != dtype]
            found += [make(name, values[0], dtype=target) for target in targets]
        elif spec.pointwise and dtype in dtypes_of(name):
            rest = iter(values)
            operands = [inputs[3] if o.types == "bool" and name == "select" else next(rest)
                        for o in spec.operands]  # fmt: skip
            found.append(make(name, *operands))
    return inputs, found


CHUNKS = [
    (dtype, start) for dtype in ALL_DTYPES for start in range(0, len(nodes_of(dtype)[1]), EACH)
]


def arrays_for(dtype: str) -> list[Any]:
    rng = np.random.default_rng(len(CHUNKS))
    given = [array(rng, (SIZE,), dtype) for _ in "abc"]
    if dtype[0] in "iu":
        given[1][:100] %= given[1].dtype.type(9)
        given[1][100:120] = 0
    return [*given, array(rng, (SIZE,), "bool")]


@pytest.mark.daily(DAILY)
@pytest.mark.parametrize("chunk", CHUNKS, ids=str)
def test_expressions(chunk: tuple[str, int]) -> None:
    dtype, start = chunk
    inputs, nodes = nodes_of(dtype)
    graph = Graph("column", inputs, tuple(nodes[start : start + EACH]))
    given = arrays_for(dtype)
    got = Executable(lower(graph), get_device("cpu")).run(given)
    wanted = evaluate(graph, given)
    for node, found, right in zip(graph.outputs, got, wanted, strict=True):
        if node.op == "cast" and node.dtype in ("u32", "u64") and inputs[0].type.element.is_float:
            inside = np.abs(given[0].astype(np.float64)) < 2**31
            found, right = found[inside], right[inside]
        check(node, found, right)


def check(node: Node, found: Any, right: Any) -> None:
    if right.dtype.kind in "biu":
        np.testing.assert_array_equal(found, right, err_msg=str(node))
        return
    relative, absolute = OPS[node.op].within(node.dtype)
    np.testing.assert_allclose(
        found.astype(np.float64), right.astype(np.float64), rtol=relative, atol=absolute,
        err_msg=str(node),
    )  # fmt: skip
