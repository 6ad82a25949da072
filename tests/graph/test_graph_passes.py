"""The passes of hand-built graphs, by the text of the graph after each."""

from __future__ import annotations

import pytest

from ge2rt.graph import Graph, Op, PassManager, Tensor
from ge2rt.graph.passes import bind, canonicalise, fuse_gemm_bias_act


def layer(*tail, bias=True, names=("MATMUL", "BIAS_ADD"), dtype="f32"):
    """x @ w (+ b), then ops of one operand."""
    x, w, b = Tensor("x", (4, 8), dtype), Tensor("w", (8, 6), dtype), Tensor("b", (6,), dtype)
    value = Tensor("h", (4, 6), dtype)
    ops = [Op(names[0], [x, w], [value])]
    if bias:
        ops.append(Op(names[1], [value, b], [Tensor("s", (4, 6), dtype)]))
    for number, item in enumerate(tail):
        name, attrs = item if isinstance(item, tuple) else (item, {})
        ops.append(Op(name, [ops[-1].outputs[0]], [Tensor(f"t{number}", (4, 6), dtype)], attrs))
    return ops


def kinds(graph):
    return [op.op_type for op in graph.ops]


@pytest.mark.parametrize(
    ("tail", "act"),
    [
        ((), "none"),
        (("RELU",), "relu"),
        (("GELU",), "gelu"),
        (("GELU_ERF",), "gelu_erf"),
        (("SIGMOID",), "sigmoid"),
        (("TANH",), "tanh"),
        (("SILU",), "silu"),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_one_op(tail, act, bias):
    graph = fuse_gemm_bias_act(Graph(layer(*tail, bias=bias)))
    (op,) = graph.ops
    assert (op.op_type, dict(op.attrs)) == ("GEMM_BIAS_ACT", {"act": act, "mnk": (4, 6, 8)})
    assert [t and t.name for t in op.inputs] == ["x", "w", "b" if bias else None]
    assert op.outputs[0].name == Graph(layer(*tail, bias=bias)).outputs[0]


def test_the_slope_of_leaky_relu_goes_along():
    (op,) = fuse_gemm_bias_act(Graph(layer(("LEAKY_RELU", {"alpha": 0.2})))).ops
    assert op.attrs["act"] == "leaky_relu"
    assert op.attrs["leaky_slope"] == 0.2


def test_an_activation_with_other_attributes_is_left_alone():
    graph = fuse_gemm_bias_act(Graph(layer(("RELU", {"alpha": 0.2}))))
    assert kinds(graph) == ["GEMM_BIAS_ACT", "RELU"]


def test_only_the_first_activation_is_taken():
    assert kinds(fuse_gemm_bias_act(Graph(layer("RELU", "GELU")))) == ["GEMM_BIAS_ACT", "GELU"]


@pytest.mark.parametrize(("wanted", "left"), [("h", 3), ("s", 2), ("t0", 1)])
def test_a_value_that_the_caller_wants_stays(wanted, left):
    graph = fuse_gemm_bias_act(Graph(layer("RELU"), outputs=[wanted, "t0"]))
    assert len(graph.ops) == left
    assert wanted in graph.producers


def test_a_value_that_another_op_reads_stays():
    ops = layer("RELU")
    ops.append(Op("NEG", [ops[0].outputs[0]], [Tensor("n", (4, 6))]))
    graph = fuse_gemm_bias_act(Graph(ops))
    assert kinds(graph) == ["GEMM_BIAS_ACT", "BIAS_ADD", "RELU", "NEG"]


@pytest.mark.parametrize("shape", [(4, 6), (1, 6), (4, 1), (1,)])
def test_only_a_vector_along_the_columns_is_a_bias(shape):
    ops = layer()
    ops[1] = Op("ADD", [ops[0].outputs[0], Tensor("b", shape)], ops[1].outputs)
    assert kinds(fuse_gemm_bias_act(Graph(ops))) == ["GEMM_BIAS_ACT", "ADD"]


def test_a_bias_may_stand_first():
    ops = layer()
    ops[1] = Op("ADD", [Tensor("b", (6,)), ops[0].outputs[0]], ops[1].outputs)
    (op,) = fuse_gemm_bias_act(Graph(ops)).ops
    assert [t.name for t in op.inputs] == ["x", "w", "b"]


def test_a_product_added_to_itself_is_no_bias():
    ops = layer(bias=False)
    h = ops[0].outputs[0]
    graph = fuse_gemm_bias_act(Graph([*ops, Op("ADD", [h, h], [Tensor("y", (4, 6))])]))
    assert kinds(graph) == ["GEMM_BIAS_ACT", "ADD"]


def test_products_of_more_axes_are_refused():
    x = Tensor("x", (2, 4, 8))
    with pytest.raises(ValueError, match="two matrices"):
        fuse_gemm_bias_act(
            Graph([Op("MATMUL", [x, Tensor("w", (8, 6))], [Tensor("y", (2, 4, 6))])])
        )


def test_spellings_become_one_and_dead_ops_go():
    ops = layer("relu", names=("gemm", "bias-add"))
    ops.append(Op("exp", [ops[0].outputs[0]], [Tensor("dead", (4, 6))]))
    graph = canonicalise(Graph(ops, outputs=["t0"]))
    assert kinds(graph) == ["MATMUL", "BIAS_ADD", "RELU"]


def test_cases_are_bound_to_op_types():
    x, y = Tensor("x", (3,)), Tensor("y", (3,))
    graph = bind(Graph([Op("RELU", [x], [y]), Op("MUL", [x, y], [Tensor("z", (3,))])]))
    assert [(op.op_type, op.attrs["op"]) for op in graph.ops] == [
        ("UNARY", "relu"),
        ("BINARY", "mul"),
    ]


def test_the_manager_keeps_each_stage():
    manager = PassManager()
    final = manager.run(Graph(layer("GELU")))
    assert [stage.name for stage in manager.stages] == [
        "canonicalise",
        "fuse_gemm_bias_act",
        "bind",
    ]
    assert [stage.changed for stage in manager.stages] == [False, True, False]
    assert manager.stages[-1].graph is final
    assert str(manager.stages[1]) == (
        "-- after fuse_gemm_bias_act\n"
        "graph(x: f32[4,8], w: f32[8,6], b: f32[6])\n"
        "  t0: f32[4,6] = GEMM_BIAS_ACT(x, w, b) {act='gelu', mnk=(4, 6, 8)}\n"
        "  return t0"
    )
    assert str(manager.stages[0]).startswith("-- after canonicalise (no change)\n")


def test_own_passes_go_where_they_are_put():
    seen = []

    def look(graph):
        seen.append(kinds(graph))
        return graph

    PassManager().add(look, before=bind).add(look).run(Graph(layer("RELU", "EXP")))
    assert seen == [["GEMM_BIAS_ACT", "EXP"], ["GEMM_BIAS_ACT", "UNARY"]]
    manager = PassManager().add(look, before="fuse_gemm_bias_act")
    assert [each.__name__ for each in manager.passes].index("look") == 1
    for wanted in ("fuse", look):
        with pytest.raises(ValueError, match=r"expected canonicalise, fuse_gemm.*, bind, got"):
            PassManager().add(look, before=wanted)
    assert PassManager([]).run(Graph(layer("RELU"))).ops[0].op_type == "MATMUL"


def test_a_pass_that_forgets_to_return_is_named():
    def forgets(graph):
        pass

    with pytest.raises(TypeError, match="pass forgets gave no graph"):
        PassManager([forgets]).run(Graph(layer()))
