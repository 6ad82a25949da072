"""Making nodes: types inferred, operands that do not fit refused with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ge2rt.base.errors import InternalError, InvalidArgumentError, InvalidTypeError
from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph, Node, TensorType
from ge2rt.ir.make import ValueRangeError, input_node, make
from ge2rt.ir.verify import verify


def x(*shape: int, dtype: str = "f32") -> Node:
    return input_node(shape, dtype)


TYPES: list[tuple[Callable[[], Node], str]] = [
    (lambda: make("full", shape=(2, 3), dtype="bf16", value=1), "bf16[2,3]"),
    (lambda: make("iota", shape=(2, 3), dtype="i8", axis=1), "i8[2,3]"),
    (lambda: make("add", x(2, 3), x(2, 3)), "f32[2,3]"),
    (lambda: make("eq", x(2), x(2)), "bool[2]"),
    (lambda: make("select", x(2, dtype="bool"), x(2, dtype="u8"), x(2, dtype="u8")), "u8[2]"),
    (lambda: make("cast", x(2), dtype="i16"), "i16[2]"),
    (lambda: make("broadcast", x(3, 1), shape=(2, 3, 4)), "f32[2,3,4]"),
    (lambda: make("broadcast", x(), shape=(0,)), "f32[0]"),
    (lambda: make("transpose", x(1, 2, 3), perm=(2, 0, 1)), "f32[3,1,2]"),
    (lambda: make("reshape", x(2, 6), shape=(3, 4)), "f32[3,4]"),
    (lambda: make("reshape", x(), shape=(1, 1)), "f32[1,1]"),
    (lambda: make("slice", x(5), start=(4,), step=(-2,), shape=(3,)), "f32[3]"),
    (lambda: make("slice", x(0), start=(0,), step=(1,), shape=(0,)), "f32[0]"),
    (lambda: make("sum", x(2, 3, 4), axes=(0, 2)), "f32[3]"),
    (lambda: make("sum", x(), axes=()), "f32[]"),
    (lambda: make("sum", x(0, 3), axes=(0,)), "f32[3]"),
    (lambda: make("max", x(0, 3), axes=(1,)), "f32[0]"),
    (lambda: make("argmax", x(2, 3), axis=0), "i64[3]"),
    (lambda: make("matmul", x(2, 3), x(3, 4)), "f32[2,4]"),
    (lambda: make("matmul", x(5, 2, 0), x(5, 0, 4)), "f32[5,2,4]"),
    (lambda: make("gather", x(4, 5), x(2, 3, dtype="i32")), "f32[2,3,5]"),
    (lambda: make("gather", x(4, 5), x(2, dtype="u8"), x(2, dtype="u8")), "f32[2]"),
    (lambda: make("concat", x(2, 3), x(2, 1), x(2, 0), axis=1), "f32[2,4]"),
    (lambda: make("pad", x(2, 3), low=(1, 0), high=(0, 2), value=0), "f32[3,5]"),
    (lambda: make("cumsum", x(2, 3), axis=1), "f32[2,3]"),
    (lambda: make("argsort", x(2, 3), axis=1), "i64[2,3]"),
    (lambda: make("gemm_bias_act", x(2, 3), x(3, 4), act="gelu"), "f32[2,4]"),
    (lambda: make("gemm_bias_act", x(2, 3), x(3, 4), x(2, 1), act="none"), "f32[2,4]"),
    (lambda: make("attention", x(2, 3), x(4, 3), x(4, 6), scale=1), "f32[2,6]"),
    (lambda: make("attention", x(2, 3), x(4, 3), x(4, 6), x(4, dtype="bool"), scale=1), "f32[2,6]"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "wanted"), TYPES)
def test_types(build: Callable[[], Node], wanted: str) -> None:
    node = build()
    assert str(node.type) == wanted
    verify(Graph("g", node.inputs, (node,)))


V, T = InvalidArgumentError, InvalidTypeError
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: make("adds", x(2)), V, "unknown op 'adds'"),
    (lambda: make("add", x(2)), V, "add: 1 operands; expected a, b"),
    (lambda: make("exp", x(2), x(2)), V, "exp: 2 operands"),
    (lambda: make("gather", x(2)), V, "gather: 1 operands; expected x, i*"),
    (lambda: make("gather", x(2), *[x(2, dtype="i32")] * 2), V, "2 indices for f32[2]"),
    (lambda: make("concat", axis=0), V, "concat: 0 operands; expected x*"),
    (lambda: make("add", x(2), x(3)), V,
     "operands differ in shape; expected equal shapes, got f32[2], f32[3]. broadcast the operands"),
    (lambda: make("add", x(2), x(2, dtype="f64")), T,
     "operands differ in dtype; expected one dtype, got f32[2], f64[2]. cast the operands first"),
    (lambda: make("exp", x(2, dtype="i32")), T,
     "operand x cannot be i32; expected a dtype of class float. cast it first"),
    (lambda: make("exp", x(2, dtype="fp8_e4m3")), T, "attribute 'dtype' cannot be used"),
    (lambda: make("neg", x(2, dtype="bool")), T, "operand x cannot be bool"),
    (lambda: make("select", x(2), x(2), x(2)), T, "operand c cannot be f32; expected bool"),
    (lambda: make("gather", x(2), x(2)), T, "operand i cannot be f32; expected integers"),
    (lambda: make("gather", x(2, 2), x(2, dtype="i32"), x(2, dtype="i64")), T, "differ in dtype"),
    (lambda: make("gather", x(2, 2), x(2, dtype="i32"), x(3, dtype="i32")), V, "differ in shape"),
    (lambda: make("gather", x(0), x(2, dtype="i32")), V, "every index is outside"),
    (lambda: make("attention", x(2, 3), x(4, 3), x(4, 6), x(4, dtype="i32"), scale=1), T,
     "operand mask cannot be i32"),
    (lambda: make("attention", x(2, 3), x(4, 3), x(5, 6), scale=1), V, "operands do not fit"),
    (lambda: make("attention", x(2, 3), x(4, 3), x(4, 6), x(3), scale=1), V, "the mask f32[3]"),
    (lambda: make("gemm_bias_act", x(2, 3), x(3, 4), x(3), act="none"), V, "the bias f32[3]"),
    (lambda: make("gemm_bias_act", x(2, 3), x(3, 4), act="swish"), V, "unknown act 'swish'"),
    (lambda: make("broadcast", x(3), shape=(4,)), V, "f32[3] does not broadcast to (4,)"),
    (lambda: make("broadcast", x(2, 3), shape=(3,)), V, "does not broadcast"),
    (lambda: make("broadcast", x(3), shape=(1,)), V, "does not broadcast"),
    (lambda: make("broadcast", x(3), shape=(-1,)), V, "negative extent"),
    (lambda: make("reshape", x(6), shape=(4,)), V, "expected 6 elements, got 4"),
    (lambda: make("reshape", x(6), shape=(-1, 2)), V, "negative extent"),
    (lambda: make("transpose", x(2, 3), perm=(0, 0)), V, "no permutation"),
    (lambda: make("transpose", x(2, 3), perm=(0,)), V, "no permutation"),
    (lambda: make("transpose", x(2, 3), perm=(0.0, 1)), T, "attribute 'perm' cannot be used"),
    (lambda: make("transpose", x(2, 3), perm=1), T, "expected a tuple of ints, got 1"),
    (lambda: make("transpose", x(2, 3)), V, "attribute 'perm' is missing"),
    (lambda: make("transpose", x(2, 3), perm=(1, 0), axes=3), V, "unknown attribute 'axes'"),
    (lambda: make("slice", x(5), start=(0,), step=(0,), shape=(1,)), V, "lacks elements 0 + i*0"),
    (lambda: make("slice", x(5), start=(0,), step=(2,), shape=(4,)), V, "lacks elements"),
    (lambda: make("slice", x(5), start=(-1,), step=(1,), shape=(1,)), V, "lacks elements"),
    (lambda: make("slice", x(5), start=(0, 0), step=(1,), shape=(1,)), V, "an entry an axis"),
    (lambda: make("sum", x(2, 3), axes=(2,)), V, "axes must be sorted, unique and in range"),
    (lambda: make("sum", x(2, 3), axes=(1, 0)), V, "axes must be sorted"),
    (lambda: make("sum", x(2, 3), axes=(-1,)), V, "axes must be sorted"),
    (lambda: make("sum", x(2, 3), axes=()), V, "no axis is named"),
    (lambda: make("max", x(0, 3), axes=(0,)), V, "the extreme of nothing has no value"),
    (lambda: make("argmin", x(2, 0), axis=1), V, "the extreme of nothing has no index"),
    (lambda: make("argmin", x(), axis=0), V, "axis out of range"),
    (lambda: make("cumsum", x(2), axis=-1), V, "add the rank to a negative axis"),
    (lambda: make("iota", shape=(2,), dtype="i32", axis=1), V, "axis out of range"),
    (lambda: make("matmul", x(2, 3), x(4, 3)), V, "expected [B.., M, K] and [B.., K, N]"),
    (lambda: make("matmul", x(3), x(3)), V, "operands do not fit"),
    (lambda: make("matmul", x(2, 3, 4), x(4, 5)), V, "broadcast the batch axes"),
    (lambda: make("concat", x(2, 3), x(3, 3), axis=1), V, "differ beyond the axis"),
    (lambda: make("concat", x(2, 3), x(2), axis=1), V, "differ beyond the axis"),
    (lambda: make("pad", x(2), low=(-1,), high=(0,), value=0), V, "do not fit"),
    (lambda: make("full", shape=(2,), dtype="i8", value=128), ValueRangeError, "128 does not"),
    (lambda: make("full", shape=(2,), dtype="u8", value=-1), OverflowError, "does not fit u8"),
    (lambda: make("full", shape=(2,), dtype="f32", value=10**400), OverflowError, "does not"),
    (lambda: make("full", shape=(2,), dtype="i8", value=0.5), T, "expected a whole number"),
    (lambda: make("full", shape=(2,), dtype="i8", value=float("nan")), T, "nan is no value of i8"),
    (lambda: make("full", shape=(2,), dtype="f32", value="1"), T, "a Python bool, int or float"),
    (lambda: make("full", shape=(2,), dtype="f32", value=1j), T, "a Python bool, int or float"),
    (lambda: input_node((2, -1), "f32"), V, "negative extent"),
    (lambda: input_node((2,), "complex64"), T, "expected one of f16, bf16"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "kind", "message"), REFUSED)
def test_refusals(build: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        build()
    assert message in str(caught.value)
    assert caught.value.record.next_step  # type: ignore[attr-defined]


def test_shape_faults_are_value_errors_and_dtype_faults_type_errors() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        make("add", x(2), x(3))
    with pytest.raises(TypeError, match="cannot be bool"):
        make("sub", x(2, dtype="bool"), x(2, dtype="bool"))


def test_the_users_line_is_named() -> None:
    with pytest.raises(ValueError, match=r"model.py:3: add: operands differ"):
        make("add", x(2), x(3), where="model.py:3")


def test_values_are_plain_and_in_the_tables_order() -> None:
    node = make("full", value=np.float32(1).item(), shape=[np.int64(2)], dtype="f32")
    assert list(node.attrs.items()) == [("shape", (2,)), ("dtype", "f32"), ("value", 1.0)]
    assert type(node.attrs["shape"][0]) is int  # type: ignore[index]
    assert make("full", shape=(), dtype="bool", value=1).attrs["value"] is True
    assert make("full", shape=(), dtype="i8", value=True).attrs["value"] == 1
    assert type(make("full", shape=(), dtype="i8", value=2.0).attrs["value"]) is int
    with pytest.raises(TypeError):
        node.attrs["value"] = 2  # type: ignore[index]


def test_keys_keep_zeros_and_kinds_apart() -> None:
    def key(dtype: str, value: float) -> object:
        return make("full", shape=(), dtype=dtype, value=value).key

    assert key("f32", 0.0) == key("f32", 0.0)
    assert key("f32", 0.0) != key("f32", -0.0)
    assert key("f32", 1) != key("f64", 1)
    assert x(2).key != x(2).key


# ---- the checker ----


def broken(graph: Graph) -> str:
    with pytest.raises(InternalError) as caught:
        verify(graph)
    return str(caught.value)


def test_the_checker_names_every_fault() -> None:
    a, b = x(2), x(3)
    wrong_type = Node("exp", (a,), TensorType((3,), "f32"))
    wrong_shape = Node("add", (a, b), TensorType((2,), "f32"))
    listed = Node("transpose", (a,), TensorType((2,), "f32"), {"perm": [0]})  # type: ignore[dict-item]
    text = broken(Graph("g", (a,), (wrong_type, wrong_shape, listed)))
    assert "<exp : f32[3]>: its operands give f32[2]" in text
    assert "<add : f32[2]>: add: operands differ in shape" in text
    assert "attribute perm is not plain: [0]" in text
    assert "input '' is not among the graph's inputs" in text
    assert "find the one that broke it" in text


def test_the_checker_knows_inputs() -> None:
    a = x(2)
    assert "listed twice" in broken(Graph("g", (a, a), (a,)))
    assert "is listed as an input" in broken(Graph("g", (make("exp", a),), ()))
    assert "unknown op" in broken(Graph("g", (a,), (Node("zap", (a,), a.type),)))
    unused = Graph("g", (a, x(3)), (a,))
    assert verify(unused) is unused


def test_attributes_have_one_form() -> None:
    node = Node("full", (), TensorType((), "f32"), {"shape": (), "dtype": "f32", "value": 1})
    assert "not in the plain form" in broken(Graph("g", (), (node,)))


# ---- the evaluator ----


def test_arrays_must_be_what_the_inputs_say() -> None:
    graph = Graph("g", (input_node((2,), "f32", "left"),), ())
    with pytest.raises(ValueError, match="graph g: 0 arrays; expected 1 arrays"):
        evaluate(graph, [])
    with pytest.raises(TypeError, match=r"argument 'left': input has another dtype.*got float64"):
        evaluate(graph, [np.zeros(2)])
    with pytest.raises(ValueError, match=r"input has another shape.*\(2,\), got \(3,\)"):
        evaluate(graph, [np.zeros(3, np.float32)])


def test_results_are_fresh_and_contiguous() -> None:
    a = input_node((2, 3), "f32")
    graph = Graph("g", (a,), (a, make("transpose", a, perm=(1, 0)), a))
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = evaluate(graph, [given])
    assert all(f.flags.c_contiguous and f.flags.writeable for f in found)
    assert not any(np.shares_memory(f, given) for f in found)
    assert not np.shares_memory(found[0], found[2])


def test_empty_and_0d() -> None:
    a = input_node((0, 3), "f32")
    total = make("sum", a, axes=(0, 1))
    product = make("prod", a, axes=(0,))
    graph = Graph("g", (a,), (total, product, make("exp", a), make("max", a, axes=(1,))))
    found = evaluate(graph, [np.zeros((0, 3), np.float32)])
    assert found[0].shape == ()
    assert found[0] == 0
    assert found[1].tolist() == [1, 1, 1]
    assert [f.shape for f in found[2:]] == [(0, 3), (0,)]
