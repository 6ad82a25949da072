"""``ReductionKernel`` against NumPy: axes, layouts, identities, types, results in parts."""

from __future__ import annotations

import numpy as np
import pytest

import ge2rt
from ge2rt.base import events
from ge2rt.base.errors import CompileError, InvalidArgumentError, InvalidTypeError

F16, F32, F64, I32, I64 = np.float16, np.float32, np.float64, np.int32, np.int64
L2 = ge2rt.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
MAX = ge2rt.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", None, "largest")
SUM = ge2rt.ReductionKernel("T x", "int64 y", "x", "a + b", "y = a", 0, "total")
RNG = np.random.default_rng(7)


def values(*shape, dtype=F32):
    return RNG.standard_normal(shape).astype(dtype)


def norm(x, axis=None, keepdims=False):
    return np.sqrt((x.astype(F64) ** 2).sum(axis, keepdims=keepdims))


@pytest.mark.parametrize("shape", [(1,), (1000,), (7, 300), (300, 7), (5, 6, 7)])
def test_every_axis_and_all(shape):
    x = values(*shape)
    axes = [None, *range(len(shape)), -1, tuple(range(len(shape)))[:2], tuple(range(len(shape)))]
    for axis in axes:
        np.testing.assert_array_equal(MAX(x, axis=axis), x.max(axis))
        kept = MAX(x, axis=axis, keepdims=True)
        np.testing.assert_array_equal(kept, x.max(axis, keepdims=True))


VIEWS = {
    "transposed": lambda x: x.T, "reversed": lambda x: x[::-1, ::-3],
    "broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "swapped": lambda x: x[None].swapaxes(0, 2),
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_of_any_strides(view):
    x = view(values(40, 70))
    for axis in (0, 1, None):
        np.testing.assert_array_equal(MAX(x, axis=axis), x.max(axis))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_sums_with_an_identity_and_a_last_step(axis):
    x = values(60, 500)
    np.testing.assert_allclose(L2(x, axis=axis), norm(x, axis), rtol=1e-5)


def test_results_are_arrays_of_numpys_shape():
    x = values(3, 4)
    assert (L2(x).shape, L2(x).dtype) == ((), F32)
    assert L2(x, axis=1, keepdims=True).shape == (3, 1)
    assert SUM(np.ones((2, 3), bool), axis=1).dtype == I64


@pytest.mark.parametrize("dtype", [F16, np.int8, np.uint64, bool])
def test_dtypes(dtype):
    x = RNG.integers(0, 2 if dtype is bool else 7, (20, 33)).astype(dtype)
    np.testing.assert_array_equal(SUM(x, axis=1), x.sum(1, dtype=I64))


def test_a_result_is_shared_by_blocks_where_it_is_large():
    x = values(300_001)
    np.testing.assert_allclose(L2(x), norm(x), rtol=1e-5)
    np.testing.assert_array_equal(MAX(x), x.max())
    tall = values(2**17 + 3, 3)
    np.testing.assert_array_equal(MAX(tall, axis=0), tall.max(0))
    again = [L2(x).tobytes() for _ in range(3)]
    assert again == again[:1] * 3


def test_nothing_to_reduce():
    assert L2(np.zeros((3, 0), F32), axis=1).tolist() == [0, 0, 0]
    assert L2(np.zeros(0, F32)) == 0
    assert L2(np.zeros((3, 0), F32), axis=0).shape == (0,)
    assert MAX(np.zeros((3, 0), F32), axis=0).shape == (0,)
    for axis in (1, None):
        with pytest.raises(ValueError, match="to a reduction which has no identity"):
            MAX(np.zeros((3, 0), F32), axis=axis)


def test_nan_is_what_the_expression_makes_of_it():
    keep = ge2rt.ReductionKernel(
        "T x", "T y", "x", "isnan(a) || a > b ? a : b", "y = a", "", "nan_max"
    )
    x = values(4, 500)
    x[1, 77] = x[3, 499] = np.nan
    np.testing.assert_array_equal(keep(x, axis=1), x.max(1))


def test_outputs_behind_the_inputs_or_as_out():
    x, target = values(6, 50), np.full(12, -1, F32)
    out = target[::2]
    assert MAX(x, out, axis=1) is out
    np.testing.assert_array_equal(target[::2], x.max(1))
    assert (target[1::2] == -1).all()
    kept = np.zeros((1, 50), F32)
    assert MAX(x, axis=0, keepdims=True, out=kept) is kept
    np.testing.assert_array_equal(kept, x.max(0, keepdims=True))
    for wrong in (np.zeros(5, F32), np.zeros((6, 1), F32), np.broadcast_to(F32(0), 6)):
        with pytest.raises(InvalidArgumentError, match=r"another shape|read-only"):
            MAX(x, axis=1, out=wrong)
    with pytest.raises(InvalidTypeError, match="expected float32"):
        MAX(x, axis=1, out=np.zeros(6))
    with pytest.raises(InvalidArgumentError, match="wrong number of arguments"):
        MAX(x, out, axis=1, out=out)


def test_an_output_inside_the_input_is_safe():
    x = values(50, 50)
    expected = x.max(1)
    MAX(x, x[0], axis=1)
    np.testing.assert_array_equal(x[0], expected)


def test_several_inputs_are_broadcast_and_several_outputs_are_a_tuple():
    moments = ge2rt.ReductionKernel(
        "T x, T w, T shift", "T mean, T square", "Pair(w * (x - shift), w * x * x)", "a + b",
        "mean = a.first / 10; square = a.second", "Pair(0, 0)", "moments", reduce_type="Pair",
        preamble="""struct Pair {
  float first, second;
  __device__ Pair(float f, float s) : first(f), second(s) {}
  __device__ explicit Pair(int) : first(0), second(0) {}
  __device__ Pair(const Pair& p) = default;
};
__device__ Pair operator+(Pair x, Pair y) {
  return Pair(x.first + y.first, x.second + y.second);
}""",
    )  # fmt: skip
    x, w = values(30, 200), values(200)
    mean, square = moments(x, w, 0.5, axis=1)
    np.testing.assert_allclose(mean, (w * (x.astype(F64) - 0.5)).sum(1) / 10, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(square, (w.astype(F64) * x * x).sum(1), rtol=1e-4, atol=1e-3)


def test_reduce_type_and_index():
    exact = ge2rt.ReductionKernel(
        "T x", "T y", "x", "a + b", "y = a", "0", "exact", reduce_type="float64"
    )
    x = np.full(70_000, 0.1, F16)
    assert exact(x) == F16(float(x[0]) * 70_000)
    weigh = ge2rt.ReductionKernel("T x", "int64 y", "x * _J", "a + b", "y = a", "0", "weigh")
    x = RNG.integers(0, 9, (3, 40, 5)).astype(I32)
    flat = x.transpose(1, 0, 2).reshape(40, 15)
    np.testing.assert_array_equal(weigh(x, axis=(0, 2)), (flat * np.arange(15)).sum(1))
    typed = ge2rt.ReductionKernel("T x", "U y", "x", "a + b", "y = a", "0", "t", reduce_type="T")
    assert typed(np.array([0.75, 0.5]), np.zeros((), I32)) == 1


def test_raw_inputs_and_preamble():
    picked = ge2rt.ReductionKernel(
        "int32 index, raw T table", "T y", "twice(table[index])", "a + b", "y = a", "0", "picked",
        preamble="template <typename T> __device__ T twice(T x) { return x * 2; }",
    )  # fmt: skip
    table, index = values(50), RNG.integers(0, 50, (6, 100)).astype(I32)
    np.testing.assert_allclose(
        picked(index, table, axis=1), 2 * table[index].sum(1), rtol=1e-4, atol=1e-4
    )


def test_errors():
    bad = ge2rt.ReductionKernel("T x", "T y", "x", "a +\n oops(b)", "y = a", "0", "bad")
    with pytest.raises(CompileError, match="oops") as caught:
        bad(values(3))
    assert caught.value.record.where == "bad reduce_expr:2"
    for parts, where in {
        ("x * ", "a + b", "y = a", "0"): "bad map_expr:1",
        ("x", "a +", "y = a", "0"): "bad reduce_expr:1",
        ("x", "a + b", "y = (a", "0"): "bad post_map_expr:1",
        ("x", "a + b", "y = a", "zero"): "bad identity:1",
    }.items():
        with pytest.raises(CompileError) as caught:
            ge2rt.ReductionKernel("T x", "T y", *parts, "bad")(values(3))
        assert caught.value.record.where == where
    odd = ge2rt.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "bad", "nothing")
    with pytest.raises(CompileError, match="bad reduce_type:1"):
        odd(values(3))
    with pytest.raises(InvalidArgumentError, match="axis out of range"):
        MAX(values(3), axis=1)
    with pytest.raises(InvalidArgumentError, match="axis named twice"):
        MAX(values(3, 3), axis=(1, -1))
    with pytest.raises(InvalidArgumentError, match="no array to reduce"):
        MAX(3.0)
    with pytest.raises(InvalidArgumentError, match="needs an output"):
        ge2rt.ReductionKernel("T x", "", "x", "a + b", "", "0")


def test_new_shapes_do_not_compile_again():
    for extent in (33, 500):
        MAX(values(extent, 64), axis=1)
    before = events.counts().get("compile", 0)
    for extent in range(34, 60):
        MAX(values(extent, 60), axis=1)
    assert events.counts().get("compile", 0) == before
