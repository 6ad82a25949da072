"""References: numbers against NumPy and mathematics, dtypes, absent operands."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from spec_files import GEMM, one_kernel, write_file

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec import numeric
from ge2rt.spec.descs import desc_of
from ge2rt.spec.match import match
from ge2rt.spec.model import Bound, KernelSpec
from ge2rt.spec.reference import evaluate_reference
from ge2rt.spec.registry import Registry

RNG = np.random.default_rng(7)


def run(kernel: KernelSpec, arrays: list[Any], out: Any, **attrs: Any) -> Any:
    descs = [None if a is None else desc_of(a.shape, a.dtype) for a in arrays]
    found = match(kernel, [*descs, out], attrs)
    assert isinstance(found, Bound), found
    (result,) = evaluate_reference(found, arrays)
    return result


@pytest.fixture
def gemm(tmp_path: Path) -> KernelSpec:
    registry = Registry()
    registry.add_file(write_file(tmp_path, GEMM))
    return registry.get("gemm")


def test_gemm_with_and_without_bias(gemm: KernelSpec) -> None:
    a, b = RNG.normal(size=(3, 4)).astype("f2"), RNG.normal(size=(4, 5)).astype("f2")
    bias = RNG.normal(size=5).astype("f4")
    out = desc_of((3, 5), "f16")
    exact = a.astype("f8") @ b.astype("f8")
    np.testing.assert_array_equal(run(gemm, [a, b, None], out), exact.astype("f2"))
    relu = np.maximum(exact + bias, 0).astype("f2")
    np.testing.assert_array_equal(run(gemm, [a, b, bias], out, act="relu"), relu)


def test_an_absent_operand_is_left_out_on_either_side(tmp_path: Path) -> None:
    inputs = (
        "[{name: X, dtype: T, shape: ['*S']}, {name: b, dtype: T, shape: ['*S'], optional: true}]"
    )
    x = np.array([3.0], "f4")
    for text in ("X + b", "b + X", "X * b", "X - b", "b * X", "X / b"):
        kernel = one_kernel(tmp_path, inputs=inputs, reference=f'"{text}"')
        assert run(kernel, [x, None], desc_of((1,), "f32")).tolist() == [3.0]


def test_several_outputs_and_absent_ones(tmp_path: Path) -> None:
    kernel = one_kernel(
        tmp_path,
        outputs="[{name: Y, dtype: T, shape: ['*S']},"
        " {name: Z, dtype: T, shape: ['*S'], optional: true}]",
        reference='"(X + 1, X * 2)"',
    )
    x = np.array([1.0, 2.0], "f4")
    desc = desc_of((2,), "f32")
    both = match(kernel, [desc, desc, desc])
    one = match(kernel, [desc, desc])
    assert isinstance(both, Bound)
    assert isinstance(one, Bound)
    assert [r.tolist() for r in evaluate_reference(both, [x])] == [[2, 3], [2, 4]]
    assert [r.tolist() for r in evaluate_reference(one, [x])] == [[2, 3]]


def test_faults_of_a_reference(tmp_path: Path) -> None:
    desc = desc_of((2,), "f32")
    for text, message in [
        ("(X, X)", "another number of outputs|another shape"),
        ("broadcast_to(X, (3, 2))", "the reference has another shape; expected .2,., got .3, 2."),
        ("unary('relo', X)", "unknown unary function 'relo'. Did you mean 'relu'"),
    ]:
        bound = match(one_kernel(tmp_path, reference=f'"{text}"'), [desc, desc])
        assert isinstance(bound, Bound)
        with pytest.raises(InvalidArgumentError, match=message):
            evaluate_reference(bound, [np.zeros(2, "f4")])
    bound = match(one_kernel(tmp_path), [desc, desc])
    assert isinstance(bound, Bound)
    with pytest.raises(InvalidArgumentError, match="declares no reference"):
        evaluate_reference(bound, [np.zeros(2, "f4")])


def test_storage_types_are_copied_bit_for_bit(tmp_path: Path) -> None:
    kernel = one_kernel(tmp_path, types="{T: [fp8_e4m3, bf16, bool]}", reference='"X"')
    bits = np.arange(256, dtype="u1")
    x = bits.view(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(run(kernel, [x], desc_of((256,), x.dtype)).view("u1"), bits)


def test_bf16_is_computed_wide_and_rounded_once(tmp_path: Path) -> None:
    kernel = one_kernel(tmp_path, types="{T: [bf16]}", reference='"(X + 256) - 256"')
    x = np.array([0.125], ml_dtypes.bfloat16)
    assert run(kernel, [x], desc_of((1,), "bf16"))[0] == 0.125


def test_act_takes_the_attribute_or_a_name(tmp_path: Path) -> None:
    x, y = np.array([-1.0, 2.0], "f4"), desc_of((2,), "f32")
    attrs = "{act: {choices: [none, relu, leaky_relu], default: none}}"
    kernel = one_kernel(tmp_path, attrs=attrs, reference='"act(X, 0.5)"')
    assert run(kernel, [x], y).tolist() == [-1, 2]
    assert run(kernel, [x], y, act="leaky_relu").tolist() == [-0.5, 2]
    named = one_kernel(tmp_path, reference="\"act('relu', X)\"")
    assert run(named, [x], y).tolist() == [0, 2]


def test_integer_division_floors_and_zero_gives_zero(tmp_path: Path) -> None:
    a = np.array([-7, 7, -1, 7, -128, -7], "i1")
    b = np.array([2, -2, 2, 0, -1, 0], "i1")
    kernel = one_kernel(
        tmp_path, types="{T: [i8]}", attrs="{op: {choices: [floordiv, mod], default: mod}}",
        inputs="[{name: A, dtype: T, shape: ['*S']}, {name: B, dtype: T, shape: ['*S']}]",
        reference="\"binary(op, A, B) if op == 'mod' else A // B\"",
    )  # fmt: skip
    out = desc_of((6,), "i8")
    assert run(kernel, [a, b], out, op="floordiv").tolist() == [-4, -4, -1, 0, -128, 0]
    assert run(kernel, [a, b], out, op="mod").tolist() == [1, -1, 1, 0, 0, 0]


def test_integers_wrap() -> None:
    x = np.array([128, 200], "u1")
    assert numeric.binary("add", x, x).tolist() == [0, 144]
    assert numeric.binary("mul", np.array([100], "i1"), np.array([2], "i1")).tolist() == [-56]
    assert numeric.binary("add", x, x, 3.0, 1).tolist() == [0, 32]
    assert numeric.binary("pow", np.array([-1, 1, 2, 2], "i4"), np.array([-3, -2, -1, 3], "i4")).tolist() == [-1, 1, 0, 8]  # fmt: skip  # noqa: E501 - a table of four columns
    assert numeric.binary("sub", x, 1).dtype == np.uint8


def test_float_scaling_and_nan() -> None:
    a, b = np.array([1.0, np.nan, 3.0]), np.array([np.nan, 2.0, 2.0])
    assert numeric.binary("add", a, b, 2.0, -1.0)[2] == 4
    for op in ("max", "min"):
        assert np.isnan(numeric.binary(op, a, b)[:2]).all()
    assert numeric.binary("mod", np.array([-7.0]), np.array([3.0])).tolist() == [2.0]


@pytest.mark.parametrize("x", [-30.0, -1.5, -0.0, 0.0, 0.3, 2.0, 30.0])
def test_unary_functions_against_mathematics(x: float) -> None:
    sigmoid = 1 / (1 + math.exp(-x))
    phi = 0.5 * (1 + math.erf(x / math.sqrt(2)))
    gelu = 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    wanted = {
        "identity": x, "relu": max(x, 0), "leaky_relu": x if x > 0 else 0.01 * x,
        "sigmoid": sigmoid, "silu": x * sigmoid, "gelu_erf": x * phi, "gelu": gelu,
        "tanh": math.tanh(x), "erf": math.erf(x), "exp": math.exp(x), "neg": -x, "abs": abs(x),
        "square": x * x, "floor": math.floor(x), "ceil": math.ceil(x), "round": round(x),
        "sin": math.sin(x), "cos": math.cos(x), "not": float(x == 0),
        "sign": (x > 0) - (x < 0), "softplus": math.log1p(math.exp(-abs(x))) + max(x, 0),
    }  # fmt: skip
    for name, value in wanted.items():
        np.testing.assert_allclose(
            numeric.unary(name, x), value, rtol=1e-12, atol=1e-15, err_msg=name
        )


def test_clip_saturates_in_the_dtype() -> None:
    x = np.array([0, 100, 200], "u1")
    assert numeric.unary("clip", x, low=-5.0, high=1e9).tolist() == [0, 100, 200]
    assert numeric.unary("clip", x, low=50, high=150).tolist() == [50, 100, 150]
    assert np.isnan(numeric.unary("clip", np.array([np.nan]), low=0.0, high=1.0)).all()


@pytest.mark.parametrize(
    ("op", "axes", "keepdim"),
    [
        (op, axes, k)
        for op in numeric.REDUCE
        for axes in ((), (1,), (-1, 0), (0, 1, 2))
        for k in (0, 1)
    ],
)
def test_reductions_against_loops(op: str, axes: tuple[int, ...], keepdim: bool) -> None:
    x = RNG.integers(-9, 9, (2, 3, 4)).astype("f8")
    gone = {a % 3 for a in axes} or {0, 1, 2}
    kept = [a for a in range(3) if a not in gone]
    moved = np.transpose(x, (*kept, *sorted(gone))).reshape(*(x.shape[a] for a in kept), -1)
    rows = moved.reshape(-1, moved.shape[-1]).tolist()
    value = {
        "sum": sum, "mean": lambda r: sum(r) / len(r), "prod": math.prod, "max": max, "min": min,
        "any": any, "all": all, "argmax": lambda r: r.index(max(r)),
        "argmin": lambda r: r.index(min(r)),
    }[op]  # fmt: skip
    shape = [1 if a in gone else e for a, e in enumerate(x.shape)]
    shape = shape if keepdim else [x.shape[a] for a in kept]
    got = numeric.reduce(op, x, axes, keepdim)
    assert got.shape == tuple(shape)
    np.testing.assert_allclose(np.ravel(got), [value(r) for r in rows], rtol=1e-13)


def test_reductions_of_nan_bool_and_ties() -> None:
    x = np.array([1.0, np.nan, 3.0, np.nan])
    assert np.isnan(numeric.reduce("max", x))
    assert numeric.reduce("argmax", x) == 1
    assert numeric.reduce("argmin", np.array([2, 1, 1])) == 1
    assert numeric.reduce("sum", np.ones(256, bool)) == 256
    assert numeric.reduce("sum", np.array([200, 100], "u1")).dtype == np.uint64
    with pytest.raises(ValueError, match="zero-size"):
        numeric.reduce("max", np.zeros((0, 2)), (0,))


def test_softmax_and_norms() -> None:
    x = RNG.normal(size=(3, 5)) + 1000
    e = np.exp(x - 1000)
    np.testing.assert_allclose(numeric.softmax(x), e / e.sum(-1, keepdims=True))
    np.testing.assert_allclose(numeric.softmax(x, 0).sum(0), 1)
    far = np.array([0.0, -200.0])
    np.testing.assert_allclose(numeric.softmax(far, log=True), [0, -200])
    y = numeric.layernorm(x, None, None, 0.0)
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-9)
    np.testing.assert_allclose(y.var(-1), 1)
    np.testing.assert_allclose(numeric.layernorm(x, 2.0, 3.0, 0.0), 2 * y + 3)
    z = numeric.rmsnorm(x, None, 0.0)
    np.testing.assert_allclose((z * z).mean(-1), 1)
