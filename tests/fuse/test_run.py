"""Values of generated kernels on the CPU device against the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuse.builders import (
    causal,
    cross_entropy,
    cut,
    flat,
    given,
    graph_of,
    index,
    layernorm,
    log_softmax,
    mean,
    op,
    rmsnorm,
    softmax,
    turned,
    variance,
)
from fuse.random_graphs import Maker, difference
from fuse.runner import NO_LIBRARY, compute

from ge2rt.fuse.lower import lower
from ge2rt.fuse.program import Choices
from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import make

TOLERANCE = {"f64": 1e-10, "f32": 5e-5, "f16": 2e-2, "bf16": 1e-1}


def numbers(node: Node, seed: int = 0) -> np.ndarray[Any, Any]:
    maker = Maker(seed)
    if node.dtype == "i64":
        return maker.numbers.integers(0, 5, size=node.shape)
    return maker.array(node.shape, node.dtype)


def check(graph: Graph, arrays: list[Any] | None = None, choices: Choices = NO_LIBRARY) -> None:
    if arrays is None:
        arrays = [numbers(node, seed) for seed, node in enumerate(graph.inputs)]
    got = compute(graph, arrays, choices)
    limit = max((TOLERANCE.get(n.dtype, 0.0) for n in (*graph.inputs, *graph.nodes)), default=0.0)
    for value, want in zip(got, evaluate(graph, arrays), strict=True):
        assert difference(value, want) <= limit


X = given(9, 70)
G, B = given(70), given(70)
LABELS = given(9, dtype="i64")

ROWS: dict[str, Callable[[], tuple[list[Node], list[Node]]]] = {
    "softmax": lambda: ([X], [softmax(X)]),
    "softmax of columns": lambda: ([X], [softmax(X, (0,))]),
    "log-softmax and maximum": lambda: ([X], [log_softmax(X), make("max", X, axes=(1,))]),
    "layernorm": lambda: ([X, G, B], [layernorm(X, G, B)]),
    "rmsnorm of exp": lambda: ([X, G], [rmsnorm(op("exp", X), G)]),
    "variance": lambda: ([X], [variance(X, (1,)), variance(X, (0, 1))]),
    "cross entropy": lambda: ([X, LABELS], [cross_entropy(X, LABELS)]),
    "causal": lambda: ([X], [softmax(causal(X))]),
    "mean of two axes": lambda: ([X], [mean(X, (0, 1)), op("sub", X, 1.0)]),
    "arg": lambda: ([X], [make("argmax", X, axis=1), make("argmin", X, axis=0)]),
}


@pytest.mark.daily(4)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    inputs, outputs = ROWS[name]()
    check(graph_of(inputs, *outputs))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_rows_of_other_floats(dtype):
    x = given(5, 33, dtype=dtype)
    check(graph_of([x], softmax(x), make("sum", x, axes=(1,))))


@pytest.mark.daily(2)
@pytest.mark.parametrize("columns", [1, 31, 128, 129, 1000])
def test_held_and_reread_rows(columns):
    x = given(300, columns)
    check(graph_of([x], softmax(x)))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((4096, 3), (1,)), ((3, 5000), (1,)), ((70, 40, 6), (0, 2)), ((5000, 40), (0,))],
)
def test_sums(shape, axes):
    x = given(*shape)
    check(graph_of([x], make("sum", op("mul", x, x), axes=axes)))


def test_many_sums_of_columns_fit_into_shared_memory():
    x = given(100, 300, dtype="f64")
    outputs = [make(name, x, axis=0) for name in ("argmax", "argmin")]
    outputs += [make(name, x, axes=(0,)) for name in ("sum", "max", "min", "prod")]
    graph = graph_of([x], *outputs)
    assert len(lower(graph).steps) == 1
    check(graph)


def test_nan_infinity_and_signed_zero():
    x = given(4, 3)
    values = np.array(
        [[1, np.nan, 3], [np.inf, 1, -np.inf], [-0.0, -0.0, -0.0], [np.nan, 5, np.nan]], np.float32
    )
    rows = [make(name, x, axes=(1,)) for name in ("max", "min", "sum")]
    rows.append(make("argmax", x, axis=1))
    points = [op("maximum", x, 0.0), op("sign", x), op("neg", x)]
    got, want = [], []
    for graph in (graph_of([x], *rows), graph_of([x], *points)):
        got += compute(graph, [values])
        want += evaluate(graph, [values])
    for value, right in zip(got, want, strict=True):
        np.testing.assert_array_equal(value, right)
    for value, right in zip(got[3:], want[3:], strict=True):
        if value.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(value), np.signbit(right))


COORDINATES: dict[str, Callable[[], Node]] = {
    "tril": lambda: op("select", op("ge", index((9, 70), 0), index((9, 70), 1)), X, op("neg", X)),
    "iota as a view": lambda: flat(turned(index((4, 5), 1))),
    "concat": lambda: op(
        "exp", make("concat", cut(X, (0, 3), (1, 2), (9, 5)), op("neg", X), axis=1)
    ),
    "concat of rows": lambda: make("concat", X, cut(X, (8, 0), (-3, 1), (3, 70)), axis=0),
    "rotated halves": lambda: make(
        "concat",
        op("neg", cut(X, (0, 35), (1, 1), (9, 35))),
        cut(X, (0, 0), (1, 1), (9, 35)),
        axis=1,
    ),
    "pad": lambda: make("pad", op("exp", X), low=(1, 0), high=(0, 2), value=7.0),
    "gather": lambda: op("exp", make("gather", X, LABELS)),
    "gather of pairs": lambda: make("gather", X, LABELS, LABELS),
    "gather of a view": lambda: make("gather", turned(X), LABELS),
    "transposed copy": lambda: op("exp", flat(op("add", turned(X), 1.0))),
}


@pytest.mark.daily(4)
@pytest.mark.parametrize("name", COORDINATES)
def test_coordinates(name):
    check(graph_of([X, LABELS], COORDINATES[name]()))


@pytest.mark.parametrize("label", [-1, 9, 2**40, -(2**63)])
def test_an_index_outside_raises_the_flag(label):
    x = given(9, 4)
    graph = graph_of([x, LABELS], make("gather", x, LABELS))
    labels = np.zeros(9, np.int64)
    labels[3] = label
    with pytest.raises(ValueError, match="outside"):
        compute(graph, [numbers(x), labels])


def test_a_gather_from_nothing_raises_the_flag():
    x = given(0, 4)
    with pytest.raises(ValueError, match="outside"):
        compute(
            graph_of([x, LABELS], make("gather", x, LABELS)), [numbers(x), np.zeros(9, np.int64)]
        )


PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "f32": ((20, 30), (30, 17), "f32"),
    "batch": ((3, 20, 30), (3, 30, 17), "f32"),
    "f64": ((40, 33), (33, 35), "f64"),
    "f16": ((20, 30), (30, 17), "f16"),
    "i8": ((20, 30), (30, 17), "i8"),
    "i64": ((20, 30), (30, 17), "i64"),
    "bool": ((20, 30), (30, 17), "bool"),
    "one row": ((1, 300), (300, 65), "f32"),
    "one column": ((65, 300), (300, 1), "bf16"),
    "nothing summed": ((20, 0), (0, 17), "f32"),
    "no rows": ((0, 4), (4, 17), "f32"),
}


@pytest.mark.daily(3)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    left, right, dtype = PRODUCTS[name]
    a, b = given(*left, dtype=dtype), given(*right, dtype=dtype)
    check(graph_of([a, b], make("matmul", a, b)))


@pytest.mark.daily(3)
@pytest.mark.parametrize(
    "act", ["relu", "relu_where", "gelu", "gelu_erf", "silu", "sigmoid", "tanh", "leaky_relu"]
)
def test_an_epilogue_is_the_same_written_out(act):
    x, w, b = given(2, 20), given(20, 24), given(24)
    check(graph_of([x, w, b], make("gemm_bias_act", x, w, b, act=act)))


def test_a_library_product_with_its_epilogue():
    x, w, b = given(10, 20), given(20, 24), given(24)
    graph = graph_of([x, w, b], make("gemm_bias_act", turned(turned(x)), w, b, act="gelu"))
    check(graph, choices=Choices(library_mnk=1))


@pytest.mark.daily(1)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("mask", [None, "bool", "f32"])
def test_attention(dtype, mask):
    q, k, v = (
        given(2, 8, 16, dtype=dtype),
        given(2, 12, 16, dtype=dtype),
        given(2, 12, 5, dtype=dtype),
    )
    inputs = [q, k, v]
    if mask is not None:
        inputs.append(given(8, 12, dtype=dtype if mask == "f32" else mask))
    check(graph_of(inputs, make("attention", *inputs, scale=0.3, causal=mask is None)))


def test_scans_and_sorts():
    x = given(7, 33)
    check(
        graph_of(
            [x],
            make("cumsum", x, axis=1),
            make("sort", x, axis=0),
            make("argsort", turned(x), axis=0),
        )
    )


def test_empty_and_scalar():
    empty, scalar = given(0, 5), given()
    check(
        graph_of(
            [empty], op("exp", empty), make("sum", empty, axes=(0,)), make("prod", empty, axes=(1,))
        )
    )
    check(graph_of([scalar], op("exp", scalar), make("sum", scalar, axes=())))


def test_an_array_of_any_strides_is_read_in_place():
    x = given(6, 10)
    base = np.arange(240, dtype=np.float32).reshape(12, 20)
    check(graph_of([x], op("mul", x, turned(turned(x)))), [base[::-2, 1::2]])


def test_outputs_are_fresh_and_dense():
    x = given(6, 10)
    values = numbers(x)
    same, again, view = compute(graph_of([x], x, x, turned(x)), [values])
    assert not np.shares_memory(same, values)
    assert not np.shares_memory(same, again)
    np.testing.assert_array_equal(same, values)
    np.testing.assert_array_equal(view, values.T)
    assert view.flags.c_contiguous


def test_64_shapes_need_few_compilations():
    from ge2rt.base import events

    before = events.counts().get("compile", 0)
    for n in range(1, 65):
        x = given(n)
        y = op("sub", x, make("broadcast", make("reshape", mean(x, (0,)), shape=(1,)), shape=(n,)))
        check(graph_of([x], y))
    assert events.counts().get("compile", 0) - before <= 8


@pytest.mark.daily(2)
@pytest.mark.parametrize("seed", range(64))
def test_random_graphs(seed):
    maker = Maker(seed)
    graph = maker.graph(8)
    check(graph, maker.arrays)


@pytest.mark.daily(1)
@pytest.mark.parametrize("seed", range(100, 300))
def test_larger_random_graphs(seed):
    maker = Maker(seed)
    graph = maker.graph(16)
    check(graph, maker.arrays)


def test_the_program_prints():
    text = str(lower(graph_of([X], softmax(X))))
    assert "%1: f32[9,70] output 0" in text
    assert "fused_rows_" in text
