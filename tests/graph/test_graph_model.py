"""Tensors, ops and graphs built by hand: order, names, refusals, text."""

from __future__ import annotations

import itertools

import pytest

from ge2rt.graph import Graph, Op, Tensor


def mlp():
    x, w, b = Tensor("x", (4, 8)), Tensor("w", (8, 6)), Tensor("b", (6,))
    h, s, y = (Tensor(name, (4, 6)) for name in "hsy")
    return [Op("MATMUL", [x, w], [h]), Op("BIAS_ADD", [h, b], [s]), Op("RELU", [s], [y])]


def test_text():
    assert str(Graph(mlp(), name="mlp")) == (
        "mlp(x: f32[4,8], w: f32[8,6], b: f32[6])\n"
        "  h: f32[4,6] = MATMUL(x, w)\n"
        "  s: f32[4,6] = BIAS_ADD(h, b)\n"
        "  y: f32[4,6] = RELU(s)\n"
        "  return y"
    )
    image = Tensor("i", (1, 3, 8, 8), "f16", "NHWC")
    op = Op("UNARY", [image, None], [Tensor("o", (1,))], {"op": "neg"})
    assert str(image) == "i: f16[1,3,8,8] NHWC"
    assert str(op) == "o: f32[1] = UNARY(i, -) {op='neg'}"


def test_ops_are_put_in_order():
    graph = Graph(mlp()[::-1])
    assert [op.op_type for op in graph.ops] == ["MATMUL", "BIAS_ADD", "RELU"]


def test_outputs_are_what_nobody_reads_unless_named():
    assert Graph(mlp()).outputs == ("y",)
    assert Graph(mlp(), outputs=["h", "y"]).outputs == ("h", "y")
    assert [t.name for t in Graph(mlp()).inputs] == ["x", "w", "b"]


def test_readers_and_producers():
    graph = Graph(mlp())
    assert graph.producers["s"].op_type == "BIAS_ADD"
    assert [op.op_type for op in graph.readers["h"]] == ["BIAS_ADD"]


def test_a_cycle_is_refused():
    a, b = Tensor("a", (3,)), Tensor("b", (3,))
    with pytest.raises(ValueError, match=r"wait for each other.*b: f32\[3\] = NEG\(a\)"):
        Graph([Op("NEG", [a], [b]), Op("NEG", [b], [a])])


def test_a_value_made_twice_is_refused():
    a, b = Tensor("a", (3,)), Tensor("b", (3,))
    with pytest.raises(ValueError, match="'b' is made twice"):
        Graph([Op("NEG", [a], [b]), Op("ABS", [a], [b])])


def test_a_name_with_two_meanings_is_refused():
    with pytest.raises(ValueError, match=r"'a' means two tensors.*f32\[3\].*f32\[4\]"):
        Graph([Op("ADD", [Tensor("a", (3,)), Tensor("a", (4,))], [Tensor("b", (3,))])])


def test_an_unknown_output_names_the_nearest():
    with pytest.raises(ValueError, match="no output 'yy'"):
        Graph(mlp(), outputs=["yy"])


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        (("", (3,)), ValueError, "needs a name"),
        (("x", (-1,)), ValueError, "'x': its shape cannot be used"),
        (("x", (2.0,)), ValueError, "whole numbers"),
        (("x", (True,)), ValueError, "whole numbers"),
        (("x", (3,), "float"), TypeError, "no such dtype"),
        (("x", (3,), "f23"), TypeError, "f32"),
        (("x", (3,), "f32", "CHWN"), ValueError, "rowmajor | NCHW | NHWC"),
    ],
)
def test_bad_tensors(arguments, kind, text):
    with pytest.raises(kind, match=text):
        Tensor(*arguments)


def test_bad_operands():
    with pytest.raises(TypeError, match="NEG: inputs must be tensors"):
        Op("NEG", [3], [Tensor("y", (3,))])
    with pytest.raises(TypeError, match="NEG: outputs must be tensors"):
        Op("NEG", [Tensor("x", (3,))], [None])
    assert Op("NEG", Tensor("x", (3,)), Tensor("y", (3,))).inputs[0].name == "x"


def test_hundreds_of_ops_in_the_worst_order_are_sorted():
    tensors = [Tensor(f"t{i}", (2,)) for i in range(400)]
    ops = [Op("NEG", [a], [b]) for a, b in itertools.pairwise(tensors)]
    assert [op.outputs[0].name for op in Graph(ops[::-1]).ops] == [t.name for t in tensors[1:]]
