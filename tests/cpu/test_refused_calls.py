"""Mistakes in attributes and in what is wanted: -1, with the argument's name, before a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt

F = np.float32
X = np.ones((2, 3), F)
IMAGE, WEIGHT = np.ones((1, 1, 4, 4), F), np.ones((1, 1, 3, 3), F)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("REDUCE", [X], {"op": "sum", "axes": [5]}, "'axes, keepdim'.*-2 <= axis < 2, got"),
        ("REDUCE", [X], {"op": "argmax", "axes": [5]}, "reduce_arg, argument 'axes.*axis < 2"),
        ("REDUCE", [X], {"op": "sum", "axes": [0, 0]}, "axis named twice"),
        ("REDUCE", [X], {"op": "sum", "axes": [True]}, "'axes'.*whole numbers, got"),
        ("REDUCE", [X], {"op": "sum", "axes": "0"}, "'axes'.*whole numbers, got '0'"),
        ("REDUCE", [X], {"op": "sum", "keepdim": 1}, "'keepdim'.*expected bool, got 1"),
        ("REDUCE", [X], {"op": "summ"}, "'op'.*sum .* or argmax | argmin, got 'summ'"),
        ("SORT", [X], {"axis": 2}, "sort, argument 'axis'.*axis out of range.*axis < 2, got .2,"),
        ("ARGSORT", [X], {"axis": -3}, "argument 'axis'.*axis out of range.*axis < 2, got .-3,"),
        ("SOFTMAX", [X], {"axis": 2}, "softmax, argument 'axis'.*axis out of range"),
        ("SCAN", [X], {"op": "cumsum", "axis": 2}, "scan, argument 'axis'.*axis out of range"),
        ("GATHER", [X, np.zeros((2, 3), np.int32)], {"axis": 5}, "gather, argument 'axis'"),
        ("SLICE", [X], {"starts": [5, 0], "sizes": [1, 1]}, "'starts, sizes, steps'.*2 elements"),
        ("CONV2D", [IMAGE, WEIGHT], {"stride": []}, "'stride, pad, dilation'.*out of range"),
        ("CONV2D", [IMAGE, WEIGHT], {"pad": []}, "'stride, pad, dilation'.*out of range"),
        ("DROPOUT", [X], {"seed": 2**64}, r"'seed'.*-2\*\*63 to 2\*\*64 - 1, got"),
        ("DROPOUT", [X], {"seed": -(2**63) - 1}, r"'seed'.*-2\*\*63 to 2\*\*64 - 1, got"),
        ("ATTENTION", [X[None]] * 3, {"diagonal": 2**63}, r"'diagonal'.*2\*\*63 - 1, got"),
        ("SLICE", [X], {"starts": [2**63, 0], "sizes": [1, 1]}, r"'starts'.*2\*\*63 - 1"),
        ("UNARY", [X], {"op": "elu", "alpha": 2**53 + 1}, "'alpha'.*53 bits"),
        ("CONV2D_BWD", [IMAGE, IMAGE, WEIGHT], {"pad": [1, 1]}, "no output is wanted.*gX, gW"),
        ("BINARY_BWD", [X, X, X], {"op": "mul"}, "no output is wanted.*one of gA, gB"),
        ("LAYERNORM_BWD", [X, X], {}, "no output is wanted"),
        ("RMSNORM_BWD", [X, X], {}, "no output is wanted"),
        ("SDPA_BWD", [X[None]] * 3 + [None] * 3 + [X[None]], {}, "no output is wanted"),
    ],
)  # fmt: skip
def test_a_mistake_is_invalid_and_named(op: str, inputs: Any, attrs: Any, message: str) -> None:
    with pytest.raises(ge2rt.InvalidArgumentError, match=message):
        ge2rt.launch(op, *inputs, device="cpu", **attrs)


def test_one_wanted_gradient_is_enough() -> None:
    got = ge2rt.launch("BINARY_BWD", X * 3, X * 2, X, op="mul", out=[np.zeros_like(X), None])
    np.testing.assert_array_equal(got[0], X * 3)
    assert got[1] is None


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1])
def test_a_whole_number_that_fill_cannot_hold_is_refused(number: int) -> None:
    y = np.zeros(3, np.int64)
    with pytest.raises(ge2rt.InvalidArgumentError, match="53 bits"):
        ge2rt.launch("FILL", out=y, value=number)
    assert not y.any()
    ge2rt.launch("FILL", out=y, value=2**60)
    assert (y == 2**60).all()


def test_an_unknown_kernel_cannot_be_excluded() -> None:
    wrong = ["gemm_bias_act_f23"]
    with pytest.raises(ge2rt.InvalidArgumentError, match=r"exclude.*mean 'gemm_bias_act_f32'"):
        ge2rt.launch("GEMM_BIAS_ACT", X, X.T, exclude=wrong)
    with pytest.raises(ge2rt.InvalidArgumentError, match=r"exclude.*mean 'gemm_bias_act_f32'"):
        ge2rt.choice("GEMM_BIAS_ACT", X, X.T, exclude=wrong)


def desc(*shape: int, dtype: str = "f32") -> dict[str, Any]:
    return {"shape": list(shape), "dtype": dtype}


@pytest.mark.parametrize(
    ("op", "inputs", "output", "kernels"),
    [
        ("UNARY", [desc(6)], desc(6), {"elementwise_unary": 60}),
        ("UNARY", [desc(6)], desc(6, dtype="f16"), {}),
        ("BINARY", [desc(6), desc(6)], desc(6), {"elementwise_binary": 60}),
        ("REDUCE", [desc(6)], desc(), {"reduce": 60}),
        ("SCAN", [desc(6)], desc(6), {"scan": 60}),
        ("CAST", [desc(6)], desc(6, dtype="f16"), {"cast": 60}),
        ("SLICE", [desc(6, 4)], desc(3, 2), {"slice": 60}),
        ("PAD", [desc(6, 4)], desc(8, 4), {"pad": 60}),
        ("POOL2D", [desc(1, 1, 4, 4)], desc(1, 1, 2, 2), {"pool2d": 60}),
        ("BINARY_BWD", [desc(6)] * 3, None, {"binary_bwd": 60}),
    ],
)
def test_a_query_without_attributes_lists_what_could_run(
    op: str, inputs: Any, output: Any, kernels: dict[str, int]
) -> None:
    assert ge2rt.query_capability(op, inputs, [output] if output else None) == kernels


def test_a_repeated_launch_refuses_pointers_of_more_than_64_bits() -> None:
    x, y = np.ones(8, F), np.zeros(8, F)
    descs = {"buffers": [{"shape": [8], "dtype": "f32", "strides": [1]}] * 2}
    for pointer, code in ((y.ctypes.data, 0), (2**70, -1), (2**64, -1), (y.ctypes.data, 0)):
        assert ge2rt.launch_kernel("copy", [x.ctypes.data, pointer], descs, 0) == code
        if code:
            assert "'buffers[1]': pointer out of range" in str(ge2rt.last_error())
    assert (y == 1).all()
