"""Every way of writing an epilogue becomes one product; what is not one stays."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from ir.samples import arrays
from ir.written import V, call, graph_of, var, where

from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.passes import optimise
from ge2rt.ir.verify import verify

C = math.sqrt(2 / math.pi)


def exp(x: V) -> V:
    return call("exp", x)


def tanh(x: V) -> V:
    return call("tanh", x)


def erf(x: V) -> V:
    return call("erf", x)


WAYS: list[tuple[str, Callable[[V], V]]] = [
    ("gelu", lambda z: 0.5 * z * (1 + tanh(C * (z + 0.044715 * z**3)))),
    ("gelu", lambda z: z * 0.5 * (tanh((z + 0.044715 * z * z * z) * C) + 1.0)),
    ("gelu", lambda z: (1.0 + tanh(np.float64(C) * (z + z * z * z * 0.044715))) * z / 2),
    ("gelu", lambda z: 0.5 * (z + z * tanh(C * z + C * 0.044715 * z**3))),
    ("gelu", lambda z: 0.5 * z + 0.5 * z * tanh(C * z * (1 + 0.044715 * z * z))),
    ("gelu", lambda z: 0.5 * z * (1 + tanh(0.7978845608 * (z + 0.044715 * call("pow", z, 3))))),
    ("gelu", lambda z: z * call("sigmoid", 2 * C * (z + 0.044715 * z**3))),
    ("gelu", lambda z: z / (1 + exp(-2 * C * (z + 0.044715 * z**3)))),
    ("gelu", lambda z: z - 0.5 * z * (1 - tanh(C * (z + 0.044715 * z**3)))),
    ("gelu_erf", lambda z: 0.5 * z * (1 + erf(z / math.sqrt(2)))),
    ("gelu_erf", lambda z: z * (erf(z * math.sqrt(0.5)) + 1) / 2),
    ("gelu_erf", lambda z: z * 0.5 * (1 + erf(z * 0.7071067811865476))),
    ("gelu_erf", lambda z: (z + z * erf(z / 1.4142135623730951)) * 0.5),
    ("relu", lambda z: call("maximum", z, 0)),
    ("relu", lambda z: V(call("maximum", z.lift(0), z).node)),
    ("relu", lambda z: where(z < 0, 0, z)),
    ("relu", lambda z: where(z <= 0, 0.0, z)),
    ("relu", lambda z: call("clamp", z, 0, math.inf)),
    ("relu_where", lambda z: where(z > 0, z, 0)),
    ("relu_where", lambda z: where(z >= 0, z, 0)),
    ("relu_where", lambda z: where(z.lift(0) < z, z, 0)),
    ("relu_where", lambda z: call("fmax", z, 0)),
    ("leaky_relu", lambda z: where(z > 0, z, 0.1 * z)),
    ("leaky_relu", lambda z: where(z < 0, z * 0.1, z)),
    ("leaky_relu", lambda z: where(z < 0, z / 10, z)),
    ("leaky_relu", lambda z: call("maximum", z, 0.1 * z)),
    ("sigmoid", lambda z: call("sigmoid", z)),
    ("sigmoid", lambda z: 1 / (1 + exp(-z))),
    ("sigmoid", lambda z: call("reciprocal", exp(-z) + 1)),
    ("sigmoid", lambda z: 0.5 * (1 + tanh(0.5 * z))),
    ("sigmoid", lambda z: 0.5 + tanh(z / 2) / 2),
    ("tanh", tanh),
    ("silu", lambda z: z * call("sigmoid", z)),
    ("silu", lambda z: z / (1 + exp(-z))),
    ("silu", lambda z: z * (1 / (exp(-z) + 1))),
    ("silu", lambda z: 1 / (1 + exp(-1 * z)) * z),
]


def product(graph: Graph) -> Node:
    """The one fused product, which does all the work."""
    after = optimise(graph, seen=lambda _, made: verify(made))
    work = [n for n in after.nodes if n.op not in ("reshape", "broadcast", "full", "transpose")]
    assert [n.op for n in work] == ["gemm_bias_act"], after
    return work[0]


def check_values(graph: Graph) -> None:
    given = arrays(graph, 1, special=False)
    wanted, found = evaluate(graph, given)[0], evaluate(optimise(graph), given)[0]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("act", "write"), WAYS)
def test_activations(act: str, write: Callable[[V], V]) -> None:
    graph = graph_of(write(var(4, 8) @ var(8, 16) + var(16)))
    fused = product(graph)
    assert fused.attrs["act"] == act
    if act == "leaky_relu":
        assert fused.attrs["slope"] == pytest.approx(0.1)
    assert [n.shape for n in fused.inputs] == [(4, 8), (8, 16), (16,)]
    check_values(graph)


@pytest.mark.parametrize(("act", "write"), WAYS[::5])
def test_without_a_bias(act: str, write: Callable[[V], V]) -> None:
    fused = product(graph_of(write(var(4, 8) @ var(8, 16))))
    assert (fused.attrs["act"], len(fused.inputs)) == (act, 2)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("way", [0, 3, 6, 9, 30])
def test_dtypes(dtype: str, way: int) -> None:
    act, write = WAYS[way]
    z = var(4, 8, dtype=dtype) @ var(8, 16, dtype=dtype) + var(16, dtype=dtype)
    assert product(graph_of(write(z))).attrs["act"] == act


@pytest.mark.parametrize(
    ("shape", "kept"),
    [((16,), (16,)), ((1, 16), (16,)), ((4, 1), (4, 1)), ((), ()), ((1, 1), ())],
)
def test_biases(shape: tuple[int, ...], kept: tuple[int, ...]) -> None:
    b = var(*shape)
    for z in (var(4, 8) @ var(8, 16) + b, b + var(4, 8) @ var(8, 16)):
        fused = product(graph_of(call("maximum", z, 0)))
        assert fused.inputs[2].shape == kept
        check_values(graph_of(call("maximum", z, 0)))


def test_a_number_as_bias() -> None:
    fused = product(graph_of(var(4, 8) @ var(8, 16) + 1.5))
    assert fused.inputs[2].op == "full"
    assert fused.attrs["act"] == "none"


def test_views_of_the_operands_stay_views() -> None:
    fused = product(graph_of(tanh(var(8, 4).T @ var(16, 8).T + var(16))))
    assert [n.op for n in fused.inputs] == ["transpose", "transpose", "input"]


def test_a_batch_with_one_matrix_is_one_tall_product() -> None:
    w = V(var(8, 16).to((2, 3, 8, 16)).node)
    graph = graph_of(tanh(var(2, 3, 4, 8) @ w + var(16)))
    fused = product(graph)
    assert [n.shape for n in fused.inputs] == [(24, 8), (8, 16), (16,)]
    check_values(graph)


def test_behind_a_reshape_a_bias_must_be_one_row() -> None:
    seen = (var(6, 8) @ var(8, 16)).reshape(2, 3, 16)
    assert product(graph_of(seen + var(16))).inputs[2].shape == (16,)
    for shape in ((3, 1), (2, 1, 1), (3, 16)):
        graph = graph_of(seen + var(*shape))
        assert unfused(graph) == ["matmul"]
        check_values(graph)


def test_batches_take_biases_too() -> None:
    graph = graph_of(tanh(var(3, 4, 8) @ var(3, 8, 16) + var(3, 1, 16)))
    assert product(graph).inputs[2].shape == (3, 1, 16)
    check_values(graph)


def unfused(graph: Graph) -> list[str]:
    return [n.op for n in optimise(graph).nodes if n.op in ("matmul", "gemm_bias_act")]


def test_others_may_not_read_what_is_fused() -> None:
    raw = var(4, 8) @ var(8, 16)
    z = raw + var(16)
    assert unfused(graph_of(tanh(z), raw)) == ["matmul"]
    assert unfused(graph_of(tanh(z), z)) == ["gemm_bias_act"]
    both = graph_of(tanh(z), z)
    assert "tanh" in [n.op for n in optimise(both).nodes]
    inner = exp(-z)
    assert unfused(graph_of(1 / (1 + inner), inner)) == ["gemm_bias_act"]
    check_values(graph_of(1 / (1 + inner), inner))
    assert unfused(graph_of(raw + raw)) == ["matmul"]


NEARLY: list[Callable[[V], V]] = [
    lambda z: 0.5 * z * (1 + tanh(C * (z + 0.0447 * z**3))),
    lambda z: 0.5 * z * (1 + tanh(0.8 * (z + 0.044715 * z**3))),
    lambda z: 0.6 * z * (1 + tanh(C * (z + 0.044715 * z**3))),
    lambda z: 0.5 * z * (1 + erf(z)),
    lambda z: call("maximum", z, 1),
    lambda z: where(z > 1, z, 0),
    lambda z: where(z > 0, z, 1),
    lambda z: where(z > 0, z, -0.1 * z),
    lambda z: call("maximum", z, 1.5 * z),
    lambda z: z * call("sigmoid", 1.702 * z),
    lambda z: 1 / (2 + exp(-z)),
    lambda z: 1 / (1 + exp(z)),
    lambda z: z * (z > 0).cast("f32"),
    lambda z: call("minimum", z, 0),
]


@pytest.mark.parametrize("write", NEARLY)
def test_other_formulas_stay_as_they_are(write: Callable[[V], V]) -> None:
    graph = graph_of(write(var(4, 8) @ var(8, 16) + var(16)))
    fused = next(n for n in optimise(graph).nodes if n.op == "gemm_bias_act")
    assert fused.attrs["act"] == "none"
    check_values(graph)


def test_nan_takes_the_way_that_was_written() -> None:
    for _, write in WAYS[13:22]:
        graph = graph_of(write(var(2, 3) @ var(3, 4)))
        given = arrays(graph, 0, special=False)
        given[0][0, 1] = np.nan
        wanted, found = evaluate(graph, given)[0], evaluate(optimise(graph), given)[0]
        np.testing.assert_array_equal(found, wanted)


def test_integers_have_no_epilogue() -> None:
    x = var(4, 8, dtype="i32") @ var(8, 16, dtype="i32") + var(16, dtype="i32")
    assert unfused(graph_of(x)) == ["matmul"]


def test_a_full_matrix_is_no_bias() -> None:
    graph = graph_of(var(4, 8) @ var(8, 16) + var(4, 16))
    assert unfused(graph) == ["matmul"]


def test_formulas_that_grow_are_given_up() -> None:
    z = var(4, 8) @ var(8, 16)
    for _ in range(40):
        z = z + z * z
    assert unfused(graph_of(z)) == ["matmul"]
