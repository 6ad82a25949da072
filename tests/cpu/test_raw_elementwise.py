"""``ElementwiseKernel`` against NumPy: CuPy's parameter language, broadcasting, raw arrays."""

from __future__ import annotations

import numpy as np
import pytest

import ge2rt
from ge2rt.base import events
from ge2rt.base.errors import CompileError, InvalidArgumentError, InvalidTypeError
from ge2rt.device.null import NullDevice

F16, F32, F64, I32, I64 = np.float16, np.float32, np.float64, np.int32, np.int64
SQUARED = ge2rt.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
ADD_RAW = ge2rt.ElementwiseKernel("T x, raw T y", "T z", "z = x + y[_ind.size() - i - 1]", "rev")


def ramp(*shape, dtype=F32):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [F16, F32, F64, np.int8, np.uint16, I32, np.uint64])
def test_every_dtype(dtype):
    x, y = ramp(3, 5, dtype=dtype), np.arange(5).astype(dtype)
    z = SQUARED(x, y)
    assert z.dtype == dtype
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(z, (x - y) * (x - y))


def test_bfloat16_and_bool():
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    x = ramp(9).astype(bf16)
    z = SQUARED(x, x[:1])
    assert z.dtype == bf16
    np.testing.assert_array_equal(z, (x * x).astype(bf16))
    flip = ge2rt.ElementwiseKernel("bool x, float32 y", "bool z", "z = !x || y > 1", "flip")
    x, y = np.array([True, False, True]), np.array([0, 0, 2], F32)
    result = flip(x, y)
    assert result.dtype == bool
    assert list(result) == [False, True, True]


VIEWS = {
    "transposed": lambda x: x.T, "reversed": lambda x: x[::-1, ::-1],
    "every other": lambda x: x[:, ::2], "slice": lambda x: x[1:, 2:5],
    "new axes": lambda x: x[None, :, None], "broadcast": lambda x: np.broadcast_to(x, (3, 6, 8)),
    "column": lambda x: x[:, 3], "scalar": lambda x: x[2, 3, ...], "empty": lambda x: x[:0],
    "fortran": np.asfortranarray, "swapped": lambda x: np.broadcast_to(x, (2, 6, 8)).swapaxes(0, 2),
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_of_any_strides(view):
    x = view(ramp(6, 8))
    z = SQUARED(x, F32(2))
    assert z.shape == x.shape
    np.testing.assert_array_equal(z, (x - 2) ** 2)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((2, 5), (5,)), ((5,), (2, 5)), ((2, 1), (1, 3)), ((4, 1, 3), (2, 1)), ((), (3,)),
        ((1,), (1, 1)), ((2, 3, 4), (2, 3, 4)), ((0, 3), (1, 3)), ((7, 1, 1, 2), (3, 1)),
    ],
)  # fmt: skip
def test_broadcasting(first, second):
    x, y = ramp(*first), ramp(*second) * 3
    z = SQUARED(x, y)
    assert z.shape == np.broadcast_shapes(first, second)
    np.testing.assert_array_equal(z, (x - y) ** 2)


def test_shapes_that_do_not_broadcast():
    with pytest.raises(ValueError, match="do not broadcast"):
        SQUARED(ramp(3), ramp(4))


def test_scalars_take_the_arrays_type():
    x = ramp(4)
    for number in (5, 5.0, F32(5), F64(5), I64(5)):
        z = SQUARED(x, number)
        assert z.dtype == F32
        np.testing.assert_array_equal(z, (x - 5) ** 2)
    assert SQUARED(ramp(4, dtype=I32), np.int8(2)).dtype == I32
    for number in (1.5, F32(2), 2**31):
        with pytest.raises(InvalidTypeError, match="the number does not fit"):
            SQUARED(ramp(4, dtype=I32), number)
    with pytest.raises(InvalidTypeError, match="the number does not fit"):
        SQUARED(ramp(4, dtype=np.uint8), -1)


def test_arrays_are_never_cast():
    with pytest.raises(InvalidTypeError, match=r"expected float32 \(type T of an ") as caught:
        SQUARED(ramp(3), ramp(3, dtype=F64))
    assert caught.value.record.argument == "y"
    typed = ge2rt.ElementwiseKernel("float32 x", "float64 y", "y = x", "typed")
    assert typed(ramp(3)).dtype == F64
    with pytest.raises(InvalidTypeError, match="expected float32, got int64"):
        typed(ramp(3, dtype=I64))
    with pytest.raises(InvalidTypeError, match="expected float64, got float32"):
        typed(ramp(3), np.zeros(3, F32))


def test_outputs_may_be_given_in_any_layout():
    x, target = ramp(4, 6), np.full((8, 6), -1, F32)
    out = target[::2]
    assert SQUARED(x, 1, out) is out
    np.testing.assert_array_equal(target[::2], (x - 1) ** 2)
    assert (target[1::2] == -1).all()
    wide = np.zeros((2, 4, 6), F32)  # NumPy's rule: inputs are broadcast to the output
    np.testing.assert_array_equal(SQUARED(x, 1, wide), np.broadcast_to((x - 1) ** 2, wide.shape))
    for wrong, what in [
        (np.zeros((4, 5), F32), "do not broadcast"), (np.zeros((1, 6), F32), "has another shape"),
        (np.broadcast_to(np.zeros(6, F32), (4, 6)), "read-only"), (3.0, "an output is an array"),
        (np.lib.stride_tricks.as_strided(np.zeros(6, F32), (4, 6), (0, 4)), "share memory"),
    ]:  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=what):
            SQUARED(x, 1, wrong)


def test_an_output_may_be_the_input_and_overlaps_are_copied_first():
    x = ramp(50)
    SQUARED(x, 0, x)
    np.testing.assert_array_equal(x, np.arange(50.0) ** 2)
    add = ge2rt.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
    x = ramp(100, 100)
    add(x, x.T, x)
    np.testing.assert_array_equal(x, ramp(100, 100) + ramp(100, 100).T)
    assert x.sum() == 99990000
    x = ramp(1000)
    add(x[:-1], 0, x[1:])
    np.testing.assert_array_equal(x[1:], np.arange(999))


def test_an_output_can_be_read_before_it_is_written():
    accumulate = ge2rt.ElementwiseKernel("T x", "T y", "y += x", "accumulate")
    x, y = ramp(10), np.ones(10, F32)
    accumulate(x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_several_outputs_are_a_tuple():
    both = ge2rt.ElementwiseKernel(
        "T x, U y", "T s, U p, bool b", "s = x + 1; p = y * 2; b = i & 1", "both"
    )
    s, p, b = both(ramp(5), ramp(5, dtype=I32))
    assert (s.dtype, p.dtype, b.dtype) == (F32, I32, bool)
    np.testing.assert_array_equal(s, ramp(5) + 1)
    np.testing.assert_array_equal(p, 2 * np.arange(5))
    np.testing.assert_array_equal(b, [0, 1, 0, 1, 0])


def test_return_tuple_and_no_return():
    make = ge2rt.ElementwiseKernel
    assert isinstance(make("T x", "T y", "y = x", "one", return_tuple=True)(ramp(2)), tuple)
    assert make("T x", "T y", "y = x", "none", no_return=True)(ramp(2)) is None
    effect = make("raw T x, raw T y", "", "y[i] = x[i] * 2", "effect")
    y = np.zeros(4, F32)
    assert effect(ramp(4), y, size=4) is None
    np.testing.assert_array_equal(y, 2 * ramp(4))


def test_raw_arrays_are_indexed_by_the_operation():
    x, y = ramp(6), ramp(6) * 10
    np.testing.assert_array_equal(ADD_RAW(x, y), x + y[::-1])
    np.testing.assert_array_equal(ADD_RAW(x, ramp(12)[::2]), x + ramp(12)[::2][::-1])
    square = ramp(2, 3)
    np.testing.assert_array_equal(ADD_RAW(x, square.T), x + square.T.ravel()[::-1])
    np.testing.assert_array_equal(ADD_RAW(x, square[::-1]), x + square[::-1].ravel()[::-1])


def test_raw_arrays_know_their_shape_and_take_index_vectors():
    gather = ge2rt.ElementwiseKernel(
        "raw T x, raw int64 index", "T y",
        "long long at[2] = {index[i] / x.shape()[1], index[i] % x.shape()[1]}; y = x[at] + x.ndim",
        "gather",
    )  # fmt: skip
    x, index = ramp(4, 5).T, np.array([3, 0, 19, 7])
    np.testing.assert_array_equal(gather(x, index, np.zeros(4, F32)), x.ravel()[index] + 2)
    corner = ge2rt.ElementwiseKernel(
        "T x, raw T y", "T z", "z = x + y[_ind.get()] + 1000 * _ind.get()[0]", "corner"
    )
    y = ramp(3, 2).T
    np.testing.assert_array_equal(
        corner(ramp(2, 3), y), ramp(2, 3) + y + 1000 * np.arange(2)[:, None]
    )
    info = ge2rt.ElementwiseKernel(
        "raw T x", "int64 y", "y = i == 0 ? x.size() : i == 1 ? x.strides()[0] : n", "info"
    )
    assert list(info(ramp(3, 4).T, np.zeros(3, I64))) == [12, 4, 3]
    assert list(info(np.array(2, F32), np.zeros(1, I64))) == [1]


def test_atomics_on_a_raw_output():
    count = ge2rt.ElementwiseKernel("int32 x", "raw int32 bins", "atomicAdd(&bins[x], 1)", "count")
    x = np.random.default_rng(1).integers(0, 16, 5000).astype(I32)
    bins = np.zeros(16, I32)
    count(x, bins)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=16))


def test_the_number_of_elements_must_follow_from_something():
    fill = ge2rt.ElementwiseKernel("float32 v", "raw float32 y", "y[i] = v + i", "fill")
    y = np.zeros(7, F32)
    fill(2, y, size=5)
    np.testing.assert_array_equal(y, [2, 3, 4, 5, 6, 0, 0])
    with pytest.raises(ValueError, match="nothing tells the number of elements"):
        fill(2, y)
    with pytest.raises(ValueError, match="arrays are all raw"):
        SQUARED(ramp(3), ramp(3), size=3)
    with pytest.raises(ValueError, match="a raw output has no shape"):
        fill(2, size=3)
    plain = ge2rt.ElementwiseKernel("float32 v", "float32 y", "y = v * i", "plain")
    np.testing.assert_array_equal(plain(2, size=3), [0, 2, 4])


def test_preamble_loop_parts_and_options():
    kernel = ge2rt.ElementwiseKernel(
        "T x", "T y", "y = twice(x) + base + EXTRA", "parts",
        preamble="template <typename U> __device__ U twice(U x) { return 2 * x; }",
        loop_prep="const T base = 100;", after_loop="(void)base;", options=("-DEXTRA=7",),
        doc="What it does.",
    )  # fmt: skip
    np.testing.assert_array_equal(kernel(ramp(5)), 2 * ramp(5) + 107)
    assert kernel.__doc__ == "What it does."
    assert repr(kernel) == "<ElementwiseKernel parts>"


def test_placeholders_are_types_in_the_operation():
    kernel = ge2rt.ElementwiseKernel("T x", "U y", "T t = x / 2; y = (U)t + sizeof(T)", "types")
    np.testing.assert_array_equal(kernel(ramp(5), np.zeros(5, F64)), ramp(5) / 2 + 4)
    with pytest.raises(InvalidTypeError, match="type U follows from no argument"):
        kernel(ramp(5))


def test_halves_take_part_in_any_float_expression():
    gelu = ge2rt.ElementwiseKernel(
        "T x", "T y", "y = x > 0 ? x * 2 + exp(-x) : x / 3; y -= 1; y *= 0.5f", "halves"
    )
    x = np.linspace(-3, 3, 50).astype(F16)
    wide = x.astype(F64)
    expected = (np.where(wide > 0, wide * 2 + np.exp(-wide), wide / 3) - 1) * 0.5
    np.testing.assert_allclose(gelu(x).astype(F64), expected, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(gelu(x.astype(F32)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("block_size", [1, 32, 100, 1024])
def test_block_sizes(block_size):
    x = ramp(3001)
    np.testing.assert_array_equal(SQUARED(x, 1, block_size=block_size), (x - 1) ** 2)


def test_compile_errors_name_the_part_and_its_line():
    kernel = ge2rt.ElementwiseKernel("T x", "T y", "T t = x;\ny = t + undefined_name;", "bad")
    with pytest.raises(CompileError) as caught:
        kernel(ramp(3))
    assert caught.value.record.where == "bad operation:2"
    assert "y = t + undefined_name;\n" + " " * 10 + "^" in str(caught.value)
    with pytest.raises(CompileError, match="wrong preamble:1"):
        ge2rt.ElementwiseKernel("T x", "T y", "y = x", "wrong", preamble="nonsense f()")(ramp(3))


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        ("y = x *", "bad operation:1:8: error: expected an expression at the end of this text\n"
                    "  y = x *\n         ^"),
        ("T t = x;\ny = t * \n", "bad operation:2:8: error: expected an expression at the end of"),
        ("if (x > 0) { y = x;", 'bad operation:1:12: error: this "{" is never closed\n'
                                "  if (x > 0) { y = x;\n             ^"),
        ("y = x; }", 'bad operation:1:8: error: nothing is open that this "}" closes'),
        ("y = x; // {\ny = (x + '('", 'bad operation:2:5: error: this "(" is never closed'),
    ],
)  # fmt: skip
def test_syntax_errors_show_the_callers_text_and_nothing_else(operation, told):
    with pytest.raises(CompileError) as caught:
        ge2rt.ElementwiseKernel("T x", "T y", operation, "bad")(ramp(3))
    text = str(caught.value)
    assert told in text
    assert "(generated)" not in text
    assert "warning" not in text
    assert caught.value.record.where.startswith("bad operation:")


def test_parts_around_the_loop_are_told_too():
    for part in ("loop_prep", "after_loop"):
        kernel = ge2rt.ElementwiseKernel("T x", "T y", "y = x", "bad", **{part: "int q = "})
        with pytest.raises(CompileError, match=rf"bad {part}:1:8: error: expected an expression"):
            kernel(ramp(3))


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ((ramp(3),), "expected 2 inputs, perhaps with all outputs: x, y, z\\?"),
        ((ramp(3),) * 4, "wrong number of arguments"),
        (([1, 2], ramp(2)), "not an array that kernels can use"),
        ((ramp(3) + 1j, ramp(3)), "dtype cannot be used"),
        ((None, ramp(3)), "not an array"),
    ],
)
def test_wrong_arguments(args, what):
    with pytest.raises(InvalidArgumentError, match=what) as caught:
        SQUARED(*args)
    assert caught.value.record.kernel == "squared_diff"


@pytest.mark.parametrize(
    ("in_params", "out_params", "name"),
    [("T x", "T x", "twice"), ("T i", "T y", "k"), ("T x", "T y", "not a name"), ("x", "T y", "k")],
)
def test_wrong_declarations(in_params, out_params, name):
    with pytest.raises(InvalidArgumentError):
        ge2rt.ElementwiseKernel(in_params, out_params, "", name)


def test_new_shapes_do_not_compile_again():
    kernel = ge2rt.ElementwiseKernel("T x, T y", "T z", "z = x * y + 3", "generic")
    kernel(ramp(4), ramp(4))
    kernel(ramp(4, 4).T, ramp(4, 4))
    before = events.counts().get("compile", 0)
    for extent in range(2, 30):
        kernel(ramp(extent), ramp(extent))
        kernel(ramp(extent, 4).T, ramp(4, extent))
    assert events.counts().get("compile", 0) == before
    assert len(kernel._variants) == 2


def test_far_strides_use_wide_indices():
    null = NullDevice()
    kernel = ge2rt.ElementwiseKernel("T x", "T y", "y = x", "far", device=null)
    x = np.lib.stride_tricks.as_strided(np.zeros(1, F32), (2, 2), (2**32, 4))
    kernel(x, np.zeros((2, 2), F32))
    kernel(ramp(4, 4)[:2, :2], np.zeros((2, 2), F32))
    assert [len(launch.args) for launch in null.launches] == [16 + 8 + 3 * 8, 16 + 4 + 3 * 4]
