"""Views move where they cost nothing, and the values stay."""

from __future__ import annotations

import numpy as np
import pytest
from ir.samples import arrays
from ir.written import V, call, graph_of, var

from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph
from ge2rt.ir.make import make
from ge2rt.ir.passes import optimise
from ge2rt.ir.passes.canonicalise import run as canonicalise
from ge2rt.ir.passes.views import run
from ge2rt.ir.verify import verify


def moved(graph: Graph) -> Graph:
    after = verify(run(graph))
    given = arrays(graph, 3, special=False)
    for a, b in zip(evaluate(graph, given), evaluate(after, given), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)
    return after


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def exp(x: V) -> V:
    return call("exp", x)


def test_a_view_goes_through_a_chain_to_the_leaves() -> None:
    x, y = var(4, 6), var(4, 6)
    after = moved(graph_of((exp(x) * y).transpose(1, 0)[1:4]))
    assert ops(after) == ["transpose", "slice", "exp", "transpose", "slice", "mul"]


def test_a_transpose_does_not_part_what_shares_a_kernel() -> None:
    e = exp(var(4, 6))
    assert ops(moved(graph_of((e / e.rows("sum")).transpose(1, 0))))[-1] == "transpose"
    after = moved(graph_of((e / e.rows("sum")).transpose(1, 0) * 2))
    assert [op for op in ops(after) if op != "full"][-3:] == ["div", "transpose", "mul"]
    done = exp(var(4, 5) @ var(5, 6)) + var(6)
    assert ops(moved(graph_of(done.transpose(1, 0))))[-1] == "add"


def test_two_readers_keep_the_value_whole() -> None:
    z = exp(var(4, 6))
    assert ops(moved(graph_of(z.transpose(1, 0), z + 1)))[0] == "exp"
    assert ops(moved(graph_of(z[0:1], z[1:2]))) == ["exp", "slice", "slice"]
    assert ops(moved(graph_of(z[0:1], z))) == ["exp", "slice"]


def test_one_reader_may_read_twice() -> None:
    z = exp(var(4, 6))
    assert ops(moved(graph_of((z * z)[0:1]))) == ["slice", "exp", "square"]


def test_readers_that_agree_move_the_view() -> None:
    z = exp(var(4, 6))
    assert ops(moved(graph_of((z * z + z)[0:1]))) == ["slice", "exp", "square", "add"]
    assert ops(moved(graph_of((z + z.rows("sum"))[0:1])))[:2] == ["slice", "exp"]
    assert ops(moved(graph_of((z * z)[0:1] + z[1:2])))[0] == "exp"
    assert ops(moved(graph_of((z * z)[0:1] + z[0:1])))[:2] == ["slice", "exp"]


def test_a_broadcast_stops_a_view() -> None:
    after = moved(graph_of(exp(var(6)).to((4, 6)).transpose(1, 0)))
    assert ops(after) == ["exp", "broadcast", "transpose"]


def test_products_are_sliced_on_all_sides() -> None:
    x, w, b = var(2, 4, 5), var(2, 5, 6), var(2, 1, 6)
    whole = make("gemm_bias_act", exp(x).node, exp(w).node, b.node, act="tanh")
    view = make("slice", whole, start=(1, 3, 0), step=(-1, -2, 2), shape=(2, 2, 3))
    after = moved(Graph("g", (x.node, w.node, b.node), (view,)))
    shapes = [n.shape for n in after.nodes if n.op in ("exp", "gemm_bias_act")]
    assert shapes == [(2, 2, 5), (2, 5, 3), (2, 2, 3)]
    assert after.outputs[0].inputs[2].shape == (2, 1, 3)


def test_a_product_with_itself_is_not_mixed_up() -> None:
    z = exp(var(4, 4))
    after = moved(graph_of((z @ z)[1:2]))
    assert [n.shape for n in after.nodes if n.op == "matmul"] == [(1, 4)]
    assert [n.shape for n in after.nodes if n.op == "exp"] == [(4, 4)]


@pytest.mark.parametrize("op", ["sum", "max", "prod", "min", "argmax", "argmin"])
def test_reductions_are_sliced(op: str) -> None:
    x = exp(var(3, 4, 5))
    attrs = {"axis": 1} if op.startswith("arg") else {"axes": (1,)}
    after = moved(graph_of(V(make(op, x.node, **attrs))[2:3]))
    assert [n.shape for n in after.nodes if n.op == "exp"] == [(1, 4, 5)]


def test_reshapes_move_where_leaves_allow_it() -> None:
    x, row, column = var(4, 6), var(6), var(4, 1)
    assert ops(moved(graph_of((exp(x) * row).reshape(2, 2, 6))))[0] == "reshape"
    assert ops(moved(graph_of((exp(x) * row).reshape(4, 2, 3))))[0] == "reshape"
    for still in (
        (exp(x) * row).reshape(24 // 4, 4),  # rows of 6 do not fit into 4
        (exp(x) * column).reshape(24),
        exp(x.transpose(1, 0)).reshape(24),
        exp(x).transpose(1, 0).reshape(24),
        exp(x[1:3]).reshape(12),
    ):
        assert ops(moved(graph_of(still)))[-1] == "reshape"


def test_an_order_of_views_is_kept() -> None:
    x = var(4, 6)
    after = moved(graph_of(exp(exp(x).reshape(2, 12)).transpose(1, 0)[3:9]))
    assert ops(after) == ["reshape", "transpose", "slice", "exp", "exp"]


def test_the_last_token_alone_is_computed() -> None:
    x, w, table = var(9, 8), var(8, 8), var(50, 8)
    h = call("tanh", x @ w + var(8))
    after = optimise(graph_of((h @ table.T)[-1:]))
    products = [n.shape for n in after.nodes if n.op in ("matmul", "gemm_bias_act")]
    assert products == [(1, 8), (1, 50)]


def test_canonical_views_of_odd_shapes() -> None:
    x = var(1, 3, 1, 2)
    for value in (
        x.transpose(2, 1, 0, 3), x.transpose(2, 0, 3, 1), x.reshape(3, 2).reshape(1, 6),
        x.to((2, 1, 3, 1, 2)), x.to((1, 3, 4, 2)).reshape(3, 8), x.reshape(6).to((2, 6)),
    ):  # fmt: skip
        graph = graph_of(value)
        after = verify(canonicalise(graph))
        given = arrays(graph, 1)
        np.testing.assert_array_equal(evaluate(after, given)[0], evaluate(graph, given)[0])
        assert len(after.nodes) <= len(graph.nodes)


def test_a_row_of_a_normalised_matrix_is_normalised_alone() -> None:
    x = exp(var(5, 8))
    centred = x - x.rows("sum") / 8
    variance = (centred * centred).rows("sum") / 8
    after = moved(graph_of((centred / call("sqrt", variance + 1e-5))[4:5]))
    assert after.nodes[0].op == "slice"
    assert all(n.shape[:1] == (1,) for n in after.nodes if n.op != "full")


def test_slices_of_what_is_repeated() -> None:
    x = exp(var(4, 1, 6))
    after = moved(graph_of(x.to((2, 4, 3, 6))[1:2]))
    assert [n.shape for n in after.nodes] == [(4, 1, 6), (1, 4, 3, 6)]
    rows = V(make("slice", x.to((4, 3, 6)).node, start=(1, 0, 2), step=(2, 1, 2), shape=(2, 3, 2)))
    after = moved(graph_of(rows))
    assert [(n.op, n.shape) for n in after.nodes] == [
        ("slice", (2, 1, 2)), ("exp", (2, 1, 2)), ("broadcast", (2, 3, 2)),
    ]  # fmt: skip
