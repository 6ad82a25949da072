"""How many kernels a function becomes, and of which kind; nothing is compiled here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fuse.builders import (
    causal,
    cross_entropy,
    flat,
    given,
    graph_of,
    index,
    kept,
    layernorm,
    log_softmax,
    logsumexp,
    mean,
    op,
    rmsnorm,
    softmax,
    turned,
    variance,
)

from ge2rt.fuse.lower import lower
from ge2rt.fuse.program import Choices, KernelStep, LibraryStep, Program
from ge2rt.ir.graph import Node
from ge2rt.ir.make import make

OWN = Choices(library=())


def kinds(program: Program) -> list[str]:
    """Kernel names without their digests."""
    return [
        step.name.rpartition("_")[0] if "fused" in step.name else step.name
        for step in program.steps
    ]


def steps_of(inputs: list[Node], *outputs: Node, choose: Choices = OWN) -> list[str]:
    return kinds(lower(graph_of(inputs, *outputs), choose=choose))


X = given(64, 48)
G, B = given(48), given(48)
LABELS = given(64, dtype="i64")

ONE_ROWS_KERNEL: dict[str, Callable[[], tuple[list[Node], Node]]] = {
    "softmax": lambda: ([X], softmax(X)),
    "softmax of columns": lambda: ([X], softmax(X, (0,))),
    "log-softmax": lambda: ([X], log_softmax(X)),
    "logsumexp": lambda: ([X], logsumexp(X)),
    "layernorm": lambda: ([X, G, B], layernorm(X, G, B)),
    "rmsnorm": lambda: ([X, G], rmsnorm(X, G)),
    "rmsnorm of a sum": lambda: ([X, G], rmsnorm(op("add", op("exp", X), X), G)),
    "variance": lambda: ([X], variance(X, (1,))),
    "variance over all": lambda: ([X], variance(X, (0, 1))),
    "cross entropy": lambda: ([X, LABELS], cross_entropy(X, LABELS)),
    "causal softmax": lambda: ([X], softmax(causal(X))),
    "softmax of a transposed view": lambda: ([X], softmax(turned(X))),
    "softmax, then pointwise": lambda: ([X, G], op("mul", op("tanh", softmax(X)), G)),
}


@pytest.mark.parametrize("name", ONE_ROWS_KERNEL)
def test_a_row_function_is_one_kernel(name):
    inputs, output = ONE_ROWS_KERNEL[name]()
    assert steps_of(inputs, output) == ["fused_rows"]


@pytest.mark.parametrize("reduction", ["sum", "max", "argmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_reduction_takes_what_is_before_and_behind_it(reduction, axis):
    before = op("exp", op("mul", X, X))
    key = {"axis": axis} if reduction == "argmax" else {"axes": (axis,)}
    after = op("add", make(reduction, before, **key), 1)
    assert steps_of([X], after) == ["fused_reduce"]


def test_reductions_of_the_same_values_are_one_kernel():
    assert steps_of([X], make("sum", X, axes=(1,)), make("max", X, axes=(1,))) == ["fused_reduce"]


def test_a_chain_of_any_length_is_one_kernel():
    y = X
    for number in range(300):
        y = op("add", op("mul", y, y), float(number))
    assert steps_of([X], y) == ["fused_pointwise"]


def test_a_very_long_chain_is_cut_sensibly():
    y = X
    for number in range(1500):
        y = op("add", op("mul", y, y), float(number))
    assert 2 < len(steps_of([X], y)) < 6


def test_gain_and_bias_is_one_kernel():
    assert steps_of([X, G, B], op("mul", op("add", op("mul", X, G), B), 0.5)) == ["fused_pointwise"]


def test_order_of_writing_does_not_matter():
    a, b = op("exp", X), op("tanh", X)
    one = op("add", a, b)
    b2, a2 = op("tanh", X), op("exp", X)
    two = op("add", a2, b2)
    first = lower(graph_of([X], one)).kernels[0].kernel
    assert first is lower(graph_of([X], two)).kernels[0].kernel


def test_views_cost_nothing():
    y = op("mul", turned(X), make("slice", turned(X), start=(0, 63), step=(1, -1), shape=(48, 64)))
    program = lower(graph_of([X], turned(y)))
    assert kinds(program) == ["fused_pointwise"]
    assert all(buffer.kind != "temp" for buffer in program.buffers)


def test_a_view_as_output_is_one_copy():
    assert steps_of([X], turned(X)) == ["fused_pointwise"]
    assert steps_of([X], X) == ["fused_pointwise"]


def test_outputs_that_read_the_same_are_one_kernel():
    assert steps_of([X], op("exp", X), op("tanh", X), op("exp", op("exp", X))) == [
        "fused_pointwise"
    ]


def test_row_values_are_written_beside_the_rows():
    assert steps_of([X], softmax(X), make("max", X, axes=(1,))) == ["fused_rows"]
    assert steps_of([X, G, B], layernorm(X, G, B), mean(X, (1,))) == ["fused_rows"]


def test_a_residual_is_stored_by_the_kernel_that_needs_it_first():
    left, right = given(64, 48), given(64, 48)
    x = op("add", left, right)
    w = given(48, 48)
    product = make("matmul", layernorm(x, G, B), w)
    out = op("add", x, product)
    assert steps_of([left, right, G, B, w], out) == [
        "fused_rows",
        "GEMM_BIAS_ACT",
        "fused_pointwise",
    ]


def test_nothing_is_stored_that_nobody_reads():
    x, w, b = given(2, 48), given(48, 32), given(32)
    y = make("gemm_bias_act", x, w, b, act="silu")
    turned_twice = op("mul", make("reshape", y, shape=(32, 2)), 2.0)
    program = lower(graph_of([x, w, b], turned_twice, softmax(y)), choose=OWN)
    written = {buffer for step in program.steps for buffer in step.writes}
    read = {buffer for step in program.steps for buffer in step.reads}
    assert written <= read | set(program.outputs)
    assert {b.id for b in program.buffers if b.kind == "temp"} <= read


def test_a_value_is_computed_where_the_only_reader_has_what_it_is_made_of():
    y = x = given(64, 48)
    for _ in range(20):  # so long that it is cut by size, which stores sines too
        back = make("slice", y, start=(63, 0), step=(-1, 1), shape=(64, 48))
        y = op("add", op("sin", y), back)
    program = lower(graph_of([x], y), choose=OWN)
    assert 10 <= len(program.steps) <= 20
    assert {len(set(step.reads)) for step in program.steps} == {1}  # seen by two views
    assert {len(step.writes) for step in program.steps} == {1}


def test_reductions_over_different_axes_are_apart():
    both = op("add", softmax(X), softmax(X, (0,)))
    assert sorted(steps_of([X], both)) == ["fused_rows", "fused_rows"]


def test_a_large_array_with_one_row_is_not_one_block():
    big = given(1 << 20)
    normed = op("sub", big, kept(make("max", big, axes=(0,)), big, (0,)))
    assert steps_of([big], normed) == ["fused_reduce", "fused_pointwise"]


def test_a_costly_value_that_is_broadcast_is_computed_once():
    row, large = given(1024), given(1024, 1024)
    assert len(steps_of([row, large], op("mul", large, op("exp", row)))) == 2
    assert len(steps_of([row, large], op("mul", large, op("neg", row)))) == 1


@pytest.mark.parametrize(
    ("name", "build"),
    {
        "tril": lambda: op(
            "select", op("ge", index((64, 48), 0), index((64, 48), 1)), X, op("neg", X)
        ),
        "concat": lambda: op("exp", make("concat", X, op("neg", X), axis=1)),
        "pad": lambda: make("pad", op("exp", X), low=(1, 0), high=(0, 2), value=0.0),
        "gather": lambda: op("exp", make("gather", X, LABELS)),
        "embedding": lambda: op("add", make("gather", X, LABELS), X),
        "many parts": lambda: make("concat", *([X] * 20), axis=0),
    }.items(),
)
def test_values_at_coordinates_are_one_kernel(name, build):
    assert steps_of([X, LABELS], build()) == ["fused_pointwise"]


def test_a_reshape_that_is_no_view_is_copied_once():
    y = op("exp", flat(op("add", turned(X), 1.0)))
    assert steps_of([X], y) == ["fused_pointwise", "fused_pointwise"]


def test_an_mlp_layer_is_one_kernel():
    w = given(48, 32)
    b = given(32)
    assert steps_of([X, w, b], make("gemm_bias_act", X, w, b, act="gelu")) == ["GEMM_BIAS_ACT"]


def test_a_large_product_goes_to_the_library_with_its_reason():
    a, w, b = given(256, 256), given(256, 256), given(256)
    program = lower(
        graph_of([a, w, b], make("gemm_bias_act", a, w, b, act="relu")), choose=Choices()
    )
    assert [type(s) for s in program.steps] == [LibraryStep, KernelStep]
    assert "256 x 256 x 256 = 16777216 >= 262144: NumPy's BLAS" in str(program)


def test_few_rows_are_a_reduction_with_its_epilogue():
    x, w, b = given(2, 48), given(48, 32), given(32)
    y = make("gemm_bias_act", x, w, b, act="silu")
    assert steps_of([x, w, b], y) == ["fused_reduce"]


def test_narrow_weights_are_read_narrow():
    x, w = given(1, 512), given(512, 1024, dtype="bf16")
    y = make("matmul", x, make("cast", w, dtype="f32"))
    program = lower(graph_of([x, w], y), choose=Choices())
    assert kinds(program) == ["fused_reduce"]
    assert all(buffer.kind != "temp" for buffer in program.buffers)


def test_operands_of_products_are_views():
    a, b = given(48, 64), given(32, 48)
    program = lower(graph_of([a, b], make("matmul", turned(a), turned(b))), choose=OWN)
    assert kinds(program) == ["GEMM_BIAS_ACT"]
    assert program.steps[0].views[0].strides == (1, 64)


def test_heads_are_merged_where_attention_writes():
    qkv = given(2, 16, 3, 4, 8)
    q, k, v = (
        make("transpose", make("reshape", make("slice", qkv, start=(0, 0, i, 0, 0), step=(1,) * 5,
             shape=(2, 16, 1, 4, 8)), shape=(2, 16, 4, 8)), perm=(0, 2, 1, 3))
        for i in range(3)
    )  # fmt: skip
    mixed = make("attention", q, k, v, scale=0.5, causal=True)
    merged = make("reshape", make("transpose", mixed, perm=(0, 2, 1, 3)), shape=(2, 16, 32))
    w = given(2, 32, 16)
    program = lower(graph_of([qkv, w], make("matmul", merged, w)), choose=OWN)
    assert kinds(program) == ["ATTENTION", "MATMUL"]


@pytest.mark.parametrize("dtype", ["f64", "i32", "f16", "bool"])
def test_products_of_other_dtypes_have_a_kernel(dtype):
    a, b = given(40, 50, dtype=dtype), given(50, 60, dtype=dtype)
    assert steps_of([a, b], make("matmul", a, b)) == ["MATMUL"]


def test_attention_of_doubles_is_written_out():
    q = given(2, 40, 16, dtype="f64")
    names = steps_of([q], make("attention", q, q, q, scale=1.0, causal=False))
    assert names == ["MATMUL", "fused_rows", "MATMUL"]


def test_scans_and_sorts_are_steps():
    assert steps_of([X], make("cumsum", X, axis=1)) == ["SCAN"]
    assert steps_of([X], make("sort", op("neg", X), axis=0)) == ["fused_pointwise", "SORT"]
    assert steps_of([X], make("argsort", X, axis=0)) == ["ARGSORT"]


def test_a_graph_of_layers_shares_its_kernels():
    x, inputs = X, [X]
    for _ in range(12):
        g, b, w, c = given(48), given(48), given(48, 48), given(48)
        inputs += [g, b, w, c]
        x = op("add", x, make("gemm_bias_act", layernorm(x, g, b), w, c, act="gelu"))
    program = lower(graph_of(inputs, x), choose=OWN)
    assert len(program.steps) == 12 * 2 + 1
    assert len({step.name for step in program.steps}) <= 4


def test_steps_stand_in_an_order_in_which_they_can_run():
    x = X
    for _ in range(5):
        x = op("add", softmax(x, (0,)), softmax(x, (1,)))
    program = lower(graph_of([X], x))
    ready = set(program.inputs)
    for step in program.steps:
        assert set(step.reads) <= ready
        ready |= set(step.writes)
    assert set(program.outputs) <= ready


def test_hundreds_of_operands_are_read_by_several_kernels():
    inputs = [given(8) for _ in range(700)]
    total = inputs[0]
    for each in inputs[1:]:
        total = op("add", total, each)
    program = lower(graph_of(inputs, total))
    assert max(len(step.views) for step in program.steps) <= 70
    assert len(program.steps) == 11


def test_thousands_of_nodes_deep():
    y = given(8)
    x = y
    for _ in range(1500):
        y = op("neg", turned(y))
    assert len(lower(graph_of([x], y)).steps) > 1


@pytest.mark.parametrize("shared", [False, True])
def test_long_functions_of_doubles_are_spread_over_kernels(shared):
    x = given(10, 100, dtype="f64")
    terms = [
        op("add", op("sin", x if shared else op("mul", x, 0.1 + i)), 1.0 * i) for i in range(7)
    ]
    rows = [make("reshape", term, shape=(1, 10, 100)) for term in terms]
    program = lower(graph_of([x], make("sum", make("concat", *rows, axis=0), axes=(0,))))
    sines = [step.kernel.attrs["body"].default.count("sin(") for step in program.steps
             if "body" in step.kernel.attrs]  # fmt: skip
    assert len(program.steps) == (2 if shared else 4)
    assert max(sines) <= 2


GELUS: dict[str, Callable[[Node], Node]] = {
    "half x first": lambda t: op("mul", op("mul", X, 0.5), t),
    "half last": lambda t: op("mul", op("mul", X, t), 0.5),
    "half the sum": lambda t: op("mul", X, op("mul", 0.5, t)),
    "half by division": lambda t: op("mul", op("div", X, 2.0), t),
}


@pytest.mark.parametrize("name", GELUS)
def test_gelu_is_one_exponential_however_it_is_halved(name):
    output = GELUS[name](op("add", op("tanh", op("mul", X, 0.7)), 1.0))
    (step,) = lower(graph_of([X], output)).kernels
    assert not isinstance(step.kernel, str)
    assert "tanh" not in step.kernel.attrs["body"].default
    assert list(step.attrs.values()) == [pytest.approx(-1.4)]
