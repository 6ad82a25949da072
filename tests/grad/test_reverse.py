"""Pullbacks and tangents against central differences of the reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_cases import DIFFERENTIABLE, sample

from ge2rt.autodiff.functions import FUNCTIONS
from ge2rt.autodiff.reverse import pullback, pushforward
from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import input_node, make
from ge2rt.ir.ops import OPS, derivative_functions
from ge2rt.ir.passes import optimise
from ge2rt.ir.rewrite import Builder
from ge2rt.ir.verify import verify

KINDS = {"float64": "f64", "bool": "bool", "int64": "i64", "float32": "f32"}
RNG = np.random.default_rng(3)


def inputs_for(arrays: list[Any]) -> list[Node]:
    return [input_node(a.shape, KINDS[str(a.dtype)]) for a in arrays]


def run(inputs: list[Node], outputs: list[Node], arrays: list[Any]) -> list[Any]:
    graph = verify(Graph("f", tuple(inputs), tuple(outputs)))
    return evaluate(graph, arrays)


def slope(output: Node, inputs: list[Node], arrays: list[Any], at: int, g: Any) -> Any:
    """Central differences of ``sum(g * output)`` by each element of one input."""
    found = np.zeros(arrays[at].shape)
    for place in np.ndindex(found.shape):
        sides = []
        for step in (1e-6, -1e-6):
            moved = [a.copy() for a in arrays]
            moved[at][place] += step
            sides.append((run(inputs, [output], moved)[0] * g).sum())
        found[place] = (sides[0] - sides[1]) / 2e-6
    return found


def check(output: Node, inputs: list[Node], arrays: list[Any]) -> None:
    """Pullback against differences; tangents against the pullback, which is their transpose."""
    floats = [i for i, node in enumerate(inputs) if node.type.element.is_float]
    wrt = [inputs[i] for i in floats]
    g = RNG.uniform(0.5, 1.5, output.shape)
    cotangent = input_node(output.shape, output.dtype)
    back = pullback(Builder(), [output], [cotangent], wrt)
    assert None not in back
    got = run([*inputs, cotangent], back, [*arrays, g])
    for value, node, i in zip(got, wrt, floats, strict=True):
        assert value.shape == node.shape
        np.testing.assert_allclose(value, slope(output, inputs, arrays, i, g), 1e-5, 1e-5)
    tangents = inputs_for([arrays[i] for i in floats])
    moves = [RNG.uniform(-1, 1, node.shape) for node in tangents]
    (forward,) = pushforward(Builder(), [output], wrt, tangents)
    if not output.type.size:
        assert forward is None
        return
    assert forward is not None
    (moved,) = run([*inputs, *tangents], [forward], [*arrays, *moves])
    total = sum((a * b).sum() for a, b in zip(got, moves, strict=True))
    np.testing.assert_allclose((moved * g).sum(), total, rtol=1e-9)


@pytest.mark.parametrize("op", sorted(set(DIFFERENTIABLE) - {"cast"}))
def test_every_op(op: str) -> None:
    arrays, attrs = sample(op)
    inputs = inputs_for(arrays)
    check(make(op, *inputs, **attrs), inputs, arrays)


def test_casts_carry_gradients_through_another_dtype() -> None:
    x = input_node((3,), "f64")
    y = make("cast", make("square", make("cast", x, dtype="f32")), dtype="f64")
    (back,) = pullback(Builder(), [y], [make("full", shape=(3,), dtype="f64", value=1.0)], [x])
    assert back is not None
    values = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(run([x], [back], [values])[0], [2.0, 4.0, 6.0])


@pytest.mark.parametrize(
    ("start", "step", "shape"),
    [((0, 0), (1, 1), (5, 7)), ((4, 6), (-1, -3), (5, 3)), ((1, 2), (2, 4), (2, 2)),
     ((3, 5), (-2, 1), (1, 1)), ((4, 0), (-4, 6), (2, 2)), ((2, 2), (1, 1), (0, 3))],
)  # fmt: skip
def test_slices(start: Any, step: Any, shape: Any) -> None:
    x = input_node((5, 7), "f64")
    y = make("slice", x, start=start, step=step, shape=shape)
    check(y, [x], [RNG.standard_normal((5, 7))])


def test_gather_with_several_indices_adds_up_what_is_read_twice() -> None:
    x = input_node((3, 4, 2), "f64")
    i, j = input_node((5,), "i32"), input_node((5,), "i32")
    y = make("gather", x, i, j)
    arrays = [RNG.standard_normal((3, 4, 2)), np.array([0, 2, 2, 0, 1]), np.array([1, 3, 3, 1, 0])]
    arrays[1:] = [a.astype(np.int32) for a in arrays[1:]]
    cotangent = input_node((5, 2), "f64")
    (back,) = pullback(Builder(), [y], [cotangent], [x])
    assert back is not None
    g = RNG.standard_normal((5, 2))
    wanted = np.zeros((3, 4, 2))
    np.add.at(wanted, (arrays[1], arrays[2]), g)
    got = run([x, i, j, cotangent], [back], [*arrays, g])[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-15)


def test_concat_of_one_array_twice() -> None:
    x, z = input_node((2, 3), "f64"), input_node((2, 2), "f64")
    y = make("square", make("concat", x, z, x, axis=1))
    check(y, [x, z], [RNG.standard_normal((2, 3)), RNG.standard_normal((2, 2))])


def test_what_is_used_often_adds_up_and_what_is_not_used_is_none() -> None:
    x, z = input_node((4,), "f64"), input_node((4,), "f64")
    y = make("mul", make("mul", x, make("sin", x)), make("exp", x))
    check(y, [x], [RNG.standard_normal(4)])
    back = pullback(Builder(), [y], [make("full", shape=(4,), dtype="f64", value=1.0)], [x, z])
    assert back[1] is None
    assert pushforward(Builder(), [y], [z], [z]) == [None]


def test_nothing_flows_through_a_detached_value_or_a_step() -> None:
    x = input_node((3,), "f64")
    y = make("mul", x, make("detach", x))
    one = make("full", shape=(3,), dtype="f64", value=1.0)
    (back,) = pullback(Builder(), [y], [one], [x])
    assert back is not None
    np.testing.assert_array_equal(run([x], [back], [np.array([1.0, 2, 3])])[0], [1, 2, 3])
    assert pullback(Builder(), [make("floor", x)], [one], [x]) == [None]
    kept = optimise(Graph("f", (x,), (y,)))
    assert "detach" not in [node.op for node in kept.nodes]


@pytest.mark.parametrize(
    "op",
    ["tanh", "sigmoid", "log1p", "rsqrt", "mul", "div", "matmul", "sum", "max", "cumsum", "gather",
     "sort", "prod", "scatter_rows"],
)  # fmt: skip
def test_gradients_of_gradients(op: str) -> None:
    arrays, attrs = sample(op)
    inputs = inputs_for(arrays)
    y = make(op, *inputs, **attrs)
    y = make("mul", y, y)
    cotangent = input_node(y.shape, "f64")
    builder = Builder()
    first = next(node for node in inputs if node.dtype == "f64")
    (back,) = pullback(builder, [y], [cotangent], [first])
    assert back is not None
    check(back, [*inputs, cotangent], [*arrays, RNG.uniform(0.5, 1.5, y.shape)])


def test_the_functions_are_those_of_the_table() -> None:
    assert set(FUNCTIONS) == set(derivative_functions())
    assert set(DIFFERENTIABLE) == {n for n, s in OPS.items() if "none" not in s.derivative}
