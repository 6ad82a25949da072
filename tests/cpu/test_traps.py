"""What users of kernel runtimes trip over, one kind after the other, with the right value.

The numbers are those of the list of traps. Traps of the cache and of keys (11: same name with other
source, 12: damaged entries, racing and killed builders, 13: HOME, encodings, paths) have their own
tests beside the store and the compiler: test_build_key, test_build_store, test_build_compile.
"""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

import ge2rt
from ge2rt.base import events
from ge2rt.build.problem import make_problem
from ge2rt.device.registry import get_device
from ge2rt.run.launch import prepare
from ge2rt.spec.registry import default_registry

F32 = np.float32


@pytest.fixture(autouse=True)
def _fresh():
    ge2rt.clear_caches()
    yield
    ge2rt.clear_caches()


def desc(array, **changes):
    """The contract's descriptor of a NumPy array."""
    names = {"float32": "f32", "float64": "f64", "int64": "i64", "uint8": "u8", "float16": "f16"}
    found = {
        "shape": list(array.shape), "dtype": names[array.dtype.name], "device": "cpu",
        "strides": [s // array.itemsize for s in array.strides], "layout": "strided",
    }  # fmt: skip
    return {**found, **changes}


def call(name, *arrays, attrs=None, descs=None):
    """``launch_kernel`` on NumPy arrays: inputs, then outputs."""
    described = descs or [desc(a) for a in arrays]
    pointers = [a.__array_interface__["data"][0] for a in arrays]
    return ge2rt.launch_kernel(name, pointers, {"buffers": described, "attrs": attrs or {}}, 0)


def arange(*shape, dtype=F32):
    return np.arange(math.prod(shape), dtype=dtype).reshape(shape)


# 1: a view is read by its strides and offset ------------------------------------------------------
VIEWS = {
    "transposed": arange(2, 2).T,
    "first columns": arange(2, 5)[:, :4],
    "last columns": arange(2, 5)[:, 1:],
    "every other": arange(7, 9)[::2, 1::3],
    "backwards": arange(6, 5)[::-1, ::-1],
    "permuted": arange(3, 4, 5).transpose(2, 0, 1),
    "broadcast": np.broadcast_to(arange(1, 4), (3, 4)),
    "inserted axis": arange(4, 3)[:, None, ::2],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_trap_01_views(view):
    np.testing.assert_array_equal(ge2rt.launch("copy", view), view)
    np.testing.assert_array_equal(ge2rt.launch("elementwise_unary", view, op="neg"), -view)
    np.testing.assert_array_equal(ge2rt.launch("reduce", view, op="sum", axes=[0]), view.sum(0))
    out = np.zeros(view.shape, F32)
    assert call("copy", view, out) == 0
    np.testing.assert_array_equal(out, view)


def test_trap_01_gemm_and_rows_of_views():
    a, b = arange(7, 5).T / 10, arange(9, 14)[:, ::2].T / 10
    d = ge2rt.launch("GEMM_BIAS_ACT", a, b)
    np.testing.assert_allclose(d, a @ b.astype(np.float64), rtol=1e-5)
    x = arange(33, 10)[:, 3:8].T / 50
    exp = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(
        ge2rt.launch("softmax", x), exp / exp.sum(-1, keepdims=True), rtol=1e-5
    )


def test_trap_01_views_are_written_by_their_strides():
    base = np.full((4, 9), -1, F32)
    ge2rt.launch("copy", arange(3, 4), out=base[::-1, 1::2].T[:3])
    wanted = np.full((4, 9), -1, F32)
    wanted[::-1, 1::2].T[:3] = arange(3, 4)
    np.testing.assert_array_equal(base, wanted)


def test_trap_01_offset_of_descs_is_in_elements():
    base, out = arange(10), np.zeros(4, F32)
    assert call("copy", base, out, descs=[desc(base[:4], offset=5), desc(out)]) == 0
    np.testing.assert_array_equal(out, base[5:9])


# 2: strides of size-1 axes ------------------------------------------------------------------------
def test_trap_02_strides_of_size_1_axes_change_neither_result_nor_plan():
    x, out = arange(77), np.zeros((1, 77), F32)
    for stride in (77, 1, 0, -5, 10**12):
        views = [desc(out, strides=[stride, 1]), desc(out, strides=[77, 1])]
        out[:] = 0
        assert call("copy", x, out, descs=views) == 0
        np.testing.assert_array_equal(out[0], x)
    plans = {id(prepare("copy", {"buffers": [desc(out, strides=[s, 1]), desc(out)]}))
             for s in (77, 1, 0)}  # fmt: skip
    assert len(plans) == 1


@pytest.mark.parametrize("x", [np.zeros(3, F32)[None], np.zeros((3, 1), F32)[:, :, None]])
def test_trap_02_size_1_axes_broadcast(x):
    other = arange(4, *x.shape[1:]) if x.ndim == 2 else arange(3, 5, 2)
    y = ge2rt.launch("BINARY", x, other, op="add")
    np.testing.assert_array_equal(y, x + other)
    np.testing.assert_array_equal(ge2rt.launch("copy", np.from_dlpack(x)), x)


# 3: zero-size arrays ------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 4)])
def test_trap_03_zero_size_is_no_launch(shape):
    x = np.zeros(shape, F32)
    before = events.counts().get("compile", 0)
    assert ge2rt.launch("copy", x).shape == shape
    assert ge2rt.launch("elementwise_unary", x, op="exp").shape == shape
    assert ge2rt.launch("softmax", x).shape == shape
    empty = {"shape": list(shape), "dtype": "f32", "device": "cpu"}
    assert ge2rt.launch_kernel("copy", [0, 0], {"buffers": [empty, empty]}, 0) == 0
    assert ge2rt.launch_kernel("copy", [None, None], {"buffers": [empty, empty]}, 0) == 0
    assert events.counts().get("compile", 0) == before


def test_trap_03_reductions_of_nothing():
    x = np.zeros((0, 2), F32)
    assert ge2rt.launch("reduce", x, op="min", axes=[1]).shape == (0,)
    for op in ("min", "max"):
        with pytest.raises(ValueError, match="an empty reduction has no max or min"):
            ge2rt.launch("reduce", x, op=op, axes=[0])
    for op in ("argmax", "argmin"):
        with pytest.raises(ValueError, match="an empty reduction has no max or min"):
            ge2rt.launch("reduce_arg", x, op=op, axes=[0])
    np.testing.assert_array_equal(ge2rt.launch("reduce", x, op="sum", axes=[0]), [0, 0])
    np.testing.assert_array_equal(ge2rt.launch("reduce", x, op="prod", axes=[0]), [1, 1])
    assert ge2rt.launch("reduce", np.zeros(0, F32), op="sum") == 0
    assert np.isnan(ge2rt.launch("reduce", np.zeros(0, F32), op="mean"))
    assert ge2rt.launch("REDUCE", np.zeros(0, np.int32), op="sum").item() == 0


def test_trap_03_gemm_without_a_middle():
    d = ge2rt.launch("GEMM_BIAS_ACT", np.ones((3, 0), F32), np.ones((0, 4), F32), arange(4))
    np.testing.assert_array_equal(d, np.broadcast_to(arange(4), (3, 4)))
    assert ge2rt.launch("GEMM_BIAS_ACT", np.ones((0, 5), F32), np.ones((5, 4), F32)).shape == (0, 4)


# 4: index width from the address span -------------------------------------------------------------
def test_trap_04_width_follows_the_span_of_addresses():
    """745*745*256*256 points over 8 MB need 64 bits, and so do few points that lie far apart."""
    device = get_device("cpu")

    def bits(shape, strides, dtype="f32"):
        given = {"shape": shape, "strides": strides, "dtype": dtype, "device": "cpu"}
        dense = {"shape": shape, "dtype": dtype, "device": "cpu"}
        bound = prepare_bound("copy", [given, dense])
        return make_problem(bound, device.props).index_bits

    assert bits([4, 4], [4, 1]) == 32
    assert bits([745, 745, 256, 256], [1000, 1, 1000, 1]) == 64
    assert bits([2, 2], [2**29, 1]) == 64
    assert bits([2, 2], [2**28, 1], "f64") == 64
    assert bits([2, 2], [-(2**29), 1]) == 64
    assert bits([1, 4], [2**40, 1]) == 32


def prepare_bound(name, buffers):
    from ge2rt.spec.descs import parse_descs
    from ge2rt.spec.match import match

    call_descs = parse_descs({"buffers": buffers})
    return match(default_registry().get(name), call_descs.buffers, call_descs.attrs)


@pytest.mark.parametrize("rows", [3, 2])
def test_trap_04_rows_four_gigabytes_apart(rows):
    """A real mapping of which only the ends are touched."""
    import mmap

    gap = 2**32 + 4096
    with mmap.mmap(-1, gap * (rows - 1) + 4096) as memory:
        whole = np.frombuffer(memory, F32)
        far = np.lib.stride_tricks.as_strided(whole, (rows, 5), (gap, 4))
        far[...] = arange(rows, 5)
        np.testing.assert_array_equal(ge2rt.launch("copy", far), arange(rows, 5))
        y = ge2rt.launch("reduce", far[::-1], op="sum", axes=[0])
        np.testing.assert_array_equal(y, arange(rows, 5).sum(0))
        ge2rt.launch("elementwise_unary", far, out=far, op="square")
        np.testing.assert_array_equal(far, arange(rows, 5) ** 2)
        del whole, far


def test_trap_04_many_points_over_little_memory():
    """More than 2^31 linear offsets would be needed, were they counted by elements of 16 bits."""
    x = np.lib.stride_tricks.as_strided(arange(300), (40, 50, 60), (4, 4, 4))
    np.testing.assert_array_equal(
        ge2rt.launch("reduce", x, op="max", axes=[0, 2]), x.max(axis=(0, 2))
    )
    pairs = (arange(50) + 1j * arange(50)).astype(np.complex64)
    np.testing.assert_array_equal(ge2rt.launch("copy", pairs.real), pairs.real)
    np.testing.assert_array_equal(ge2rt.launch("copy", pairs.imag), pairs.imag)


# 5: arithmetic in the declared dtype --------------------------------------------------------------
def test_trap_05_wide_products_and_wrap_around():
    big = np.arange(11) * 10**9
    y = ge2rt.launch("BINARY", np.arange(11), np.array(10**9), op="mul")
    assert (y.dtype, y.tolist()) == (np.dtype(np.int64), big.tolist())
    half = np.array([128, 200, 255], np.uint8)
    np.testing.assert_array_equal(ge2rt.launch("BINARY", half, half, op="add"), half + half)
    assert ge2rt.launch("BINARY", half[:1], half[:1], op="add").tolist() == [0]
    low = np.array([-128, 127], np.int8)
    np.testing.assert_array_equal(ge2rt.launch("BINARY", low, low, op="mul"), low * low)
    far = np.array([2**63 - 1, -(2**63)])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            ge2rt.launch("BINARY", far, np.array(1), op="add"), far + np.array([1])
        )


def test_trap_05_sums_of_small_integers_are_wide():
    for array, dtype, total in [
        (np.ones(256, np.bool_), np.int64, 256),
        (np.full(300, 255, np.uint8), np.uint64, 76500),
        (np.full(1000, -128, np.int8), np.int64, -128000),
        (np.full(3, 2**31 - 1, np.int32), np.int64, 3 * (2**31 - 1)),
    ]:
        y = ge2rt.launch("REDUCE", array, op="sum")
        assert (y.dtype, y.shape, int(y)) == (np.dtype(dtype), (), total)


# 6: NaN -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("size", "dtype"), [(5, F32), (5000, F32), (5000, np.float16)])
def test_trap_06_nan_wins_wherever_it_stands(size, dtype):
    """5000 elements are shared by the threads of a whole block, 5 by some lanes of a warp."""
    for at in (0, size // 2, size - 1):
        x = (np.arange(size) % 97).astype(dtype)
        x[at] = np.nan
        for op in ("max", "min"):
            assert np.isnan(ge2rt.launch("REDUCE", x, op=op)), (op, at)
        for op in ("argmax", "argmin"):
            assert int(ge2rt.launch("REDUCE", x, op=op)) == at, op
        x[-1] = np.nan
        assert int(ge2rt.launch("REDUCE", x, op="argmax")) == at


def test_trap_06_nan_in_pairs_and_rows():
    a, b = np.array([1, np.nan, 3, np.nan], F32), np.array([np.nan, 2, 5, np.nan], F32)
    for op, numpy_op in (("max", np.maximum), ("min", np.minimum)):
        np.testing.assert_array_equal(ge2rt.launch("BINARY", a, b, op=op), numpy_op(a, b))
        np.testing.assert_array_equal(ge2rt.launch("BINARY", b, a, op=op), numpy_op(b, a))
    x = arange(3, 4)
    x[1, 2] = np.nan
    np.testing.assert_array_equal(ge2rt.launch("REDUCE", x, op="max", axes=[1]), x.max(1))
    assert np.isnan(ge2rt.launch("softmax", x)[1]).all()
    np.testing.assert_array_equal(ge2rt.launch("elementwise_unary", x, op="relu"), np.maximum(x, 0))
    assert int(ge2rt.launch("reduce_arg", np.array([3, 7, 7, 1], F32), op="argmax")) == 1


# 7: floor division --------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32])
def test_trap_07_floor_division_and_modulo(dtype):
    a = np.array([-7, 7, -1, 7, -7, 0, 6], dtype)
    b = np.array([2, -2, 2, 2, -2, 5, 3], dtype)
    np.testing.assert_array_equal(ge2rt.launch("BINARY", a, b, op="floordiv"), a // b)
    np.testing.assert_array_equal(ge2rt.launch("BINARY", a, b, op="mod"), a % b)
    assert ge2rt.launch("BINARY", a[:3], b[:3], op="floordiv").tolist() == [-4, -4, -1]


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8])
def test_trap_07_division_by_zero_and_overflow_do_not_trap(dtype):
    a, zero = np.array([7, 0, 100], dtype), np.zeros(3, dtype)
    assert ge2rt.launch("BINARY", a, zero, op="floordiv").tolist() == [0, 0, 0]
    assert ge2rt.launch("BINARY", a, zero, op="mod").tolist() == [0, 0, 0]
    if np.dtype(dtype).kind == "i":
        least, minus = np.array([np.iinfo(dtype).min], dtype), np.array([-1], dtype)
        assert ge2rt.launch("BINARY", least, minus, op="floordiv").tolist() == least.tolist()
        assert ge2rt.launch("BINARY", least, minus, op="mod").tolist() == [0]


# 8: scalars and literals --------------------------------------------------------------------------
@pytest.mark.parametrize("scalar", [1, 2.5, True, -0.0, math.inf, -math.inf, math.nan])
def test_trap_08_python_scalars_are_weak(scalar):
    x = np.array([1, 2, 0], F32)
    for args in ((x, scalar), (scalar, x)):
        y = ge2rt.launch("BINARY", *args, op="mul")
        with np.errstate(invalid="ignore"):
            expected = np.multiply(x, scalar)
        assert y.dtype == expected.dtype == F32
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(np.signbit(y[:2]), np.signbit(expected[:2]))


def test_trap_08_scalars_out_of_range_are_refused():
    small = np.zeros(3, np.uint8)
    for scalar in (256, -1):
        with pytest.raises((OverflowError, ValueError)):
            ge2rt.launch("BINARY", small, scalar, op="add")
    with pytest.raises(TypeError):
        ge2rt.launch("BINARY", small, 1.5, op="add")
    y = ge2rt.launch("BINARY", np.zeros(2, np.int64), 2**62 + 1, op="add")
    assert y.tolist() == [2**62 + 1] * 2


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 1e-45, 3.4e38, 0.1])
def test_trap_08_strange_numbers_are_valid_attributes(value):
    x = np.array([-2, -0.5, 3], F32)
    y = ge2rt.launch("elementwise_unary", x, op="leaky_relu", alpha=value)
    with np.errstate(over="ignore"):
        expected = np.where(x > 0, x, F32(value) * x)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(expected))
    eps = ge2rt.launch("elementwise_unary", np.abs(x), op="sqrt", eps=value)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(eps, np.sqrt(np.abs(x) + F32(value)), rtol=1e-6)


# 9: the signature is checked first ----------------------------------------------------------------
def test_trap_09_arrays_of_another_dtype_are_refused_or_cast(monkeypatch):
    x, out = arange(4, dtype=np.float64), np.zeros(4, F32)
    assert call("copy", x, out) == -1
    assert ge2rt.last_error().argument
    with pytest.raises(TypeError, match="f64"):
        ge2rt.launch("gemm_bias_act_f32", arange(2, 2, dtype=np.float64), arange(2, 2))
    mixed = arange(2, 2, dtype=np.float64), arange(2, 2)
    both, _ = ge2rt.launch("GEMM_BIAS_ACT", *mixed)  # an op type: the wider, as in NumPy
    assert both.dtype == np.float64
    np.testing.assert_array_equal(both, mixed[0] @ mixed[1])
    monkeypatch.setenv("GE2RT_NO_CONVERT", "1")
    with pytest.raises(ge2rt.UnsupportedError, match="dtype"):
        ge2rt.launch("GEMM_BIAS_ACT", *mixed)
    assert not out.any()


def test_trap_09_a_python_number_becomes_the_parameters_type():
    x = np.array([-1, -2], F32)
    for alpha in (3, 3.0, np.float64(3), np.float32(3), np.int8(3)):
        y = ge2rt.launch("elementwise_unary", x, op="leaky_relu", alpha=alpha)
        assert y.tolist() == [-3, -6]
    for alpha in ("3", [3.0], 1j):
        assert call("elementwise_unary", x, np.zeros(2, F32),
                    attrs={"op": "leaky_relu", "alpha": alpha}) == -1  # fmt: skip


# 10: overlap --------------------------------------------------------------------------------------
def test_trap_10_add_of_the_own_transpose():
    x = arange(100, 100)
    ge2rt.launch("BINARY", x, x.T, out=x, op="add")
    assert x.sum(dtype=np.float64) == 99990000
    np.testing.assert_array_equal(x, arange(100, 100) + arange(100, 100).T)


def test_trap_10_the_contract_refuses_and_writes_nothing():
    x = arange(100, 100)
    assert call("elementwise_binary", x, x.T, x, attrs={"op": "add"}) == -1
    assert "overlaps" in ge2rt.last_error().message
    assert call("copy", x[:-1], x[1:]) == -1
    assert call("softmax", x[0], x[0], attrs={}) == 0  # the same view is allowed here
    np.testing.assert_array_equal(x[1:], arange(100, 100)[1:])


def test_trap_10_launch_copies_a_shifted_input():
    x = arange(1000)
    ge2rt.launch("copy", x[:-1], out=x[1:])
    np.testing.assert_array_equal(x, np.r_[0, np.arange(999)])
    y = arange(50, 4)
    ge2rt.launch("copy", y[::-1], out=y)
    np.testing.assert_array_equal(y, arange(50, 4)[::-1])


def test_trap_10_outputs_that_overlap_themselves_are_refused():
    base = np.zeros((1, 4), F32)
    out = np.lib.stride_tricks.as_strided(base, (3, 4), (0, 4))
    with pytest.raises(ValueError, match="stride"):
        ge2rt.launch("copy", arange(3, 4), out=out)
    assert call("copy", arange(3, 4), out) == -1
    window = np.lib.stride_tricks.as_strided(np.zeros(8, F32), (3, 4), (4, 4))
    assert call("copy", arange(3, 4), window) == -1
    assert not base.any()
    assert not window.any()


# 14: compilations have an end ---------------------------------------------------------------------
def test_trap_14_many_shapes_cost_few_compilations(monkeypatch):
    monkeypatch.setenv("GE2RT_NO_CACHE", "1")
    monkeypatch.setenv("GE2RT_STATIC_BUDGET", "3")
    ge2rt.clear_caches()
    before = events.counts().get("compile", 0)
    dynamic = events.counts().get("specialize.dynamic", 0)
    for n in range(1, 65):
        x = arange(n) - 7
        y = ge2rt.launch("elementwise_unary", x, op="leaky_relu", alpha=0.5)
        np.testing.assert_array_equal(y, np.where(x > 0, x, x / 2))
    assert 3 < events.counts()["compile"] - before + 1 <= 3 + 2
    assert events.counts()["specialize.dynamic"] - dynamic == 64 - 3
    from ge2rt.run import specialize

    (family,) = specialize.families().values()
    assert family.reason == "dynamic: the budget of 3 static shapes is used up"


def test_trap_14_a_scalar_argument_is_no_new_kernel(monkeypatch):
    monkeypatch.setenv("GE2RT_NO_CACHE", "1")
    ge2rt.clear_caches()
    before = events.counts().get("compile", 0)
    x = np.array([-1.0, 2.0], F32)
    for k in range(20):
        y = ge2rt.launch("elementwise_unary", x, op="leaky_relu", alpha=k / 4)
        assert y.tolist() == [struct.unpack("f", struct.pack("f", -k / 4))[0], 2.0]
    assert events.counts()["compile"] - before <= 1
