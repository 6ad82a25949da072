"""Attention is found however it is written, and only where nothing else reads its inside."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ir.samples import arrays
from ir.written import V, call, graph_of, iota, var, where

from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.passes import optimise
from ge2rt.ir.patterns.causal import Triangle, triangle
from ge2rt.ir.verify import verify

S, T, D, E = 5, 7, 8, 6
LOW = -math.inf


def softmax(s: V) -> V:
    e = call("exp", s - s.rows("max"))
    return e / e.rows("sum")


def qkv(*batch: int, dtype: str = "f32") -> tuple[V, V, V]:
    q, k, v = ((S, D), (T, D), (T, E))
    return var(*batch, *q, dtype=dtype), var(*batch, *k, dtype=dtype), var(*batch, *v, dtype=dtype)


def found(graph: Graph, beside: frozenset[str] = frozenset()) -> Node:
    after = optimise(graph, seen=lambda _, made: verify(made))
    left = {n.op for n in after.nodes} & {"matmul", "exp", "sum", "max", "gemm_bias_act"} - beside
    assert not left, after
    return next(n for n in after.nodes if n.op == "attention")


def check(graph: Graph, close: float = 1e-5, given: list[Any] | None = None) -> None:
    given = given or arrays(graph, 2, special=False)
    wanted, got = evaluate(graph, given)[0], evaluate(optimise(graph), given)[0]
    np.testing.assert_allclose(
        got.astype(np.float64), wanted.astype(np.float64), rtol=close, atol=close
    )


SCALED: list[Callable[[V, V], V]] = [
    lambda q, k: q @ k.T * 0.25,
    lambda q, k: 0.25 * (q @ k.T),
    lambda q, k: q @ k.T / 4,
    lambda q, k: (q * 0.25) @ k.T,
    lambda q, k: (q / 4) @ k.T,
    lambda q, k: q @ (k * 0.25).T,
    lambda q, k: q @ (0.25 * k.T),
    lambda q, k: (q * 0.5) @ (k * 0.5).T,
    lambda q, k: (q @ k.T * 0.5) * 0.5,
]


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (1,), (1, 1)])
@pytest.mark.parametrize("way", range(len(SCALED)))
def test_scales(way: int, batch: tuple[int, ...]) -> None:
    q, k, v = qkv(*batch)
    graph = graph_of(softmax(SCALED[way](q, k)) @ v)
    node = found(graph)
    assert node.attrs["scale"] == pytest.approx(0.25)
    assert not node.attrs["causal"]
    check(graph)


def test_the_sum_may_come_last() -> None:
    q, k, v = qkv(2)
    s = q @ k.T
    e = call("exp", s - s.rows("max"))
    for graph in (
        graph_of((e @ v) / e.rows("sum")),
        graph_of((e * (1 / e.rows("sum"))) @ v),
        graph_of((call("reciprocal", e.rows("sum")) * e) @ v),
    ):
        found(graph)
        check(graph)


ROWS, COLUMNS = iota((S, T), 0), iota((S, T), 1)
LINE, STAND = iota((T,), 0), iota((S, 1), 0)
# conditions that keep a score, and the diagonal that they mean
CAUSAL: list[tuple[V, int]] = [
    (COLUMNS <= ROWS, 0), (ROWS >= COLUMNS, 0), (LINE <= STAND, 0), (STAND >= LINE, 0),
    (COLUMNS < ROWS + 1, 0), (COLUMNS - ROWS <= 0, 0), (COLUMNS <= ROWS + 2, 2),
    (COLUMNS - 2 < ROWS + 1, 2), (V(call("logical_not", COLUMNS > ROWS).node), 0),
    (ROWS.cast("f32") >= COLUMNS.cast("f32"), 0),
]  # fmt: skip


@pytest.mark.parametrize("low", [LOW, -1e9, -1e4])
@pytest.mark.parametrize(("kept", "diagonal"), CAUSAL)
def test_causal_by_where(kept: V, diagonal: int, low: float) -> None:
    q, k, v = qkv(2)
    s = q @ k.T
    dropped = V(call("logical_not", kept).node)
    for masked in (where(kept, s, low), where(dropped, low, s)):
        graph = graph_of(softmax(masked) @ v)
        node = found(graph)
        assert (node.attrs["causal"], node.attrs["diagonal"]) == (True, diagonal)
        assert len(node.inputs) == 3
        check(graph)


def test_causal_by_a_sum() -> None:
    q, k, v = qkv(2)
    s = q @ k.T * 0.5
    tri = (COLUMNS <= ROWS).cast("f32")
    for mask in (
        (1 - tri) * -1e9,
        (tri - 1) * 1e9,
        where(COLUMNS <= ROWS, var(1).lift(0).to((S, T)), var(1).lift(LOW).to((S, T))),
    ):
        for total in (s + mask, mask + s):
            graph = graph_of(softmax(total) @ v)
            node = found(graph)
            assert node.attrs["causal"]
            assert len(node.inputs) == 3
            check(graph)


def test_masks_that_are_subtracted() -> None:
    q, k, v = qkv(2)
    s = q @ k.T
    tri = (COLUMNS <= ROWS).cast("f32")
    graph = graph_of(softmax(s - 1e9 * (1 - tri)) @ v)
    node = found(graph)
    assert node.attrs["causal"]
    assert len(node.inputs) == 3
    check(graph)
    graph = graph_of(softmax(s - 1e9 * (1 - var(2, 1, T))) @ v)
    assert found(graph).inputs[3].shape == (2, 1, T)
    given = arrays(graph, 3, special=False)
    for x, node in zip(given, graph.inputs, strict=True):
        if node.shape == (2, 1, T):
            x[...] = np.arange(T) % 3 != 1
    check(graph, given=given)
    assert not matched(graph_of(softmax(var(S, T) - q @ k.T) @ v))


def test_scaled_after_a_mask() -> None:
    q, k, v = qkv(2)
    for masked in (
        where(COLUMNS <= ROWS, q @ k.T, LOW) * 0.5,
        where(COLUMNS <= ROWS, q @ k.T, -1e9) / 8,
    ):
        graph = graph_of(softmax(masked) @ v)
        assert found(graph).attrs["causal"]
        check(graph)


def test_triangles_by_comparison_with_zero() -> None:
    q, k, v = qkv()
    tri = (COLUMNS <= ROWS).cast("f32")
    s = q @ k.T
    graph = graph_of(softmax(where(V(call("eq", tri, 0).node), LOW, s)) @ v)
    assert found(graph).attrs["causal"]
    check(graph)


def test_added_masks() -> None:
    q, k, v = qkv(2, 3)
    for shape in ((S, T), (T,), (2, 1, 1, T), (1, 3, S, 1), (2, 3, S, T)):
        graph = graph_of(softmax(q @ k.T * 0.5 + var(*shape)) @ v)
        node = found(graph)
        assert node.inputs[3].shape == (1,) * (4 - len(shape)) + shape
        check(graph)


def test_bool_masks() -> None:
    q, k, v = qkv(2)
    keep = var(S, T, dtype="bool")
    for low in (LOW, -1e9):
        for masked in (
            where(keep, q @ k.T, low),
            where(V(call("logical_not", keep).node), low, q @ k.T),
        ):
            graph = graph_of(softmax(masked) @ v)
            even = frozenset({"sum"} if low != LOW else ())  # the mean of rows that keep nothing
            assert found(graph, even).inputs[3].dtype == "bool"
            given = arrays(graph, 2, special=False)
            at = next(i for i, x in enumerate(graph.inputs) if x.dtype == "bool")
            given[at][:, 0] = True
            given[at][1] = low == LOW
            check(graph, given=given)


def test_causal_and_padding() -> None:
    q, k, v = qkv(2)
    s = q @ k.T
    padding = var(2, 1, T)
    for masked in (
        where(COLUMNS <= ROWS, s, LOW) + padding,
        where(COLUMNS <= ROWS, s + padding, LOW),
    ):
        graph = graph_of(softmax(masked) @ v)
        node = found(graph)
        assert node.attrs["causal"]
        assert node.inputs[3].shape == (2, 1, T)
        check(graph)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_narrow_floats(dtype: str) -> None:
    q, k, v = qkv(2, dtype=dtype)
    close = 5e-3 if dtype == "f16" else 5e-2
    straight = graph_of(softmax(q @ k.T * 0.25) @ v)
    in_f32 = graph_of(softmax((q @ k.T).cast("f32") * 0.25).cast(dtype) @ v)
    for graph in (straight, in_f32):
        found(graph)
        check(graph, close)


def test_heads_stay_views() -> None:
    x = [var(S, 3 * D) for _ in range(3)]
    q, k, v = (one.reshape(S, 3, D).transpose(1, 0, 2) for one in x)
    graph = graph_of(softmax(q @ k.T / math.sqrt(D)) @ v)
    node = found(graph)
    assert [n.op for n in node.inputs] == ["transpose"] * 3
    assert node.inputs[1].shape == (3, S, D)
    check(graph)


def matched(graph: Graph) -> bool:
    return any(n.op == "attention" for n in optimise(graph).nodes)


def test_others_may_not_read_the_inside() -> None:
    q, k, v = qkv(2)
    s = q @ k.T
    weights = softmax(s)
    assert matched(graph_of(weights @ v))
    for inside in (s, weights, s.rows("max"), call("exp", s)):
        graph = graph_of(weights @ v, inside)
        assert not matched(graph)
        check(graph)
    assert matched(graph_of(weights @ v, call("exp", q), v + 1.0))


def test_what_is_not_attention() -> None:
    q, k, v = qkv(2)
    s = q @ k.T
    e = call("exp", s - s.rows("max"))
    low = call("exp", s - s.rows("min"))
    for value in (
        (e / e.rows("max")) @ v,  # no sum
        (low / low.rows("sum")) @ v,
        (call("exp", s) / call("exp", s).rows("sum")) @ v,  # may overflow where the op does not
        softmax(call("tanh", s)) @ v,
        softmax(where(COLUMNS <= ROWS, s, -5.0)) @ v,  # the fill still has weight
        softmax(1e-4 * where(COLUMNS <= ROWS, s, -1e4)) @ v,
        softmax((s + (1 - (COLUMNS <= ROWS).cast("f32")) * -1e4) / 1e4) @ v,
        softmax(s * math.inf) @ v,
        softmax(-2.0 * where(COLUMNS <= ROWS, s, LOW)) @ v,
        softmax((s + var(S, T)) * 0.5) @ v,
        softmax(s + var(S, T) + var(T)) @ v,
    ):
        assert not matched(graph_of(value))
    q, k, v = qkv(dtype="f64")
    assert not matched(graph_of(softmax(q @ k.T) @ v))
    wide = graph_of(softmax(var(S, 300) @ var(T, 300).T) @ var(T, D))
    assert not matched(wide)


def test_rows_without_any_key_are_not_called_causal() -> None:
    q, k, v = qkv()
    graph = graph_of(softmax(where(COLUMNS <= ROWS - 1, q @ k.T, LOW)) @ v)
    node = found(graph)
    assert not node.attrs["causal"]
    assert node.inputs[3].dtype == "bool"


TRIANGLES: list[tuple[V, Triangle | None]] = [
    (COLUMNS > ROWS, Triangle(0, inverted=True)),
    (COLUMNS >= ROWS, Triangle(-1, inverted=True)),
    (COLUMNS < ROWS, Triangle(-1)),
    (ROWS < COLUMNS + 3, Triangle(-3, inverted=True)),
    (ROWS + 3 > COLUMNS, Triangle(2)),
    (ROWS + ROWS >= COLUMNS, None),
    (ROWS >= 2 * COLUMNS, None),
    (ROWS >= ROWS, None),
    (var(S, T) >= 0, None),
    (COLUMNS.cast("f32") <= ROWS.cast("f32") + 0.5, None),
]


@pytest.mark.parametrize(("condition", "wanted"), TRIANGLES)
def test_triangles(condition: V, wanted: Triangle | None) -> None:
    assert triangle(condition.node) == wanted
    if wanted is not None:
        mask = evaluate(graph_of(condition), [])[0]
        lower = np.tri(S, T, wanted.diagonal, dtype=bool)
        np.testing.assert_array_equal(mask, ~lower if wanted.inverted else lower)
