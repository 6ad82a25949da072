"""Batched nodes against one example at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_cases import ATTRS, SHAPES

from ge2rt.autodiff.batch import batched
from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph
from ge2rt.ir.make import input_node, make
from ge2rt.ir.ops import OPS
from ge2rt.ir.rewrite import Builder
from ge2rt.ir.verify import verify

SIZE = 3
NAMES = [name for name, spec in OPS.items() if spec.kind not in ("leaf", "fused")]
MORE: dict[str, dict[str, Any]] = {
    "argmax": {"axis": 1}, "argmin": {"axis": 0}, "argsort": {"axis": 0}, "any": {"axes": (1,)},
    "all": {"axes": (0, 1)},
}  # fmt: skip


def examples(op: str, rng: np.random.Generator) -> list[Any]:
    spec = OPS[op]
    kind = "float" if "float" in spec.types else spec.types[0]
    shapes = SHAPES.get(op, tuple((3, 4) for _ in spec.operands))
    found = []
    for operand, shape in zip(spec.operands, shapes, strict=True):
        many = (SIZE, *shape)
        if operand.types == "index":
            found.append(rng.integers(0, 3, (SIZE, *(shape if op in SHAPES else (2, 2)))))
        elif operand.types == "bool" or kind == "bool":
            found.append(rng.random(many) < 0.5)
        elif kind in ("int", "uint"):
            found.append(rng.integers(0, 9, many))
        else:
            found.append(rng.uniform(0.2, 0.8, many))
    return found


KINDS = {"float64": "f64", "bool": "bool", "int64": "i64"}


@pytest.mark.parametrize("op", NAMES)
def test_every_op_with_each_choice_of_batched_operands(op: str) -> None:
    rng = np.random.default_rng(len(op))
    arrays = examples(op, rng)
    attrs = {**ATTRS.get(op, {}), **MORE.get(op, {})}
    inputs = [input_node(a.shape[1:], KINDS[str(a.dtype)]) for a in arrays]
    node = make(op, *inputs, **attrs)
    for choice in range(1, 2 ** len(inputs)):
        chosen = [i for i in range(len(inputs)) if choice >> i & 1]
        many = {inputs[i]: input_node(arrays[i].shape, inputs[i].dtype) for i in chosen}
        (found,) = batched(Builder(), [node], many, SIZE)
        assert found.shape == (SIZE, *node.shape)
        graph = verify(Graph("f", tuple(many.get(n, n) for n in inputs), (found,)))
        given = [a if i in chosen else a[0] for i, a in enumerate(arrays)]
        got = evaluate(graph, given)[0]
        one = Graph("f", tuple(inputs), (node,))
        for k in range(SIZE):
            alone = [a[k] if i in chosen else a[0] for i, a in enumerate(arrays)]
            np.testing.assert_array_equal(got[k], evaluate(one, alone)[0])


def test_what_depends_on_no_example_is_repeated() -> None:
    x, z = input_node((2,), "f64"), input_node((2,), "f64")
    many = input_node((SIZE, 2), "f64")
    found = batched(Builder(), [make("exp", z), make("exp", x)], {x: many}, SIZE)
    graph = verify(Graph("f", (many, z), tuple(found)))
    values = np.arange(6.0).reshape(SIZE, 2)
    got = evaluate(graph, [values, np.array([1.0, 2.0])])
    np.testing.assert_array_equal(got[0], np.tile(np.exp([1.0, 2.0]), (SIZE, 1)))
    np.testing.assert_array_equal(got[1], np.exp(values))
