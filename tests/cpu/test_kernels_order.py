"""Sorting and running sums where seeded values do not go: NaN, ties, long rows, wrap-around."""

from __future__ import annotations

import numpy as np
import pytest
from cases import dense

import ge2rt
from ge2rt.device.registry import get_device
from ge2rt.run.plan import Plan
from ge2rt.spec.match import match
from ge2rt.spec.registry import default_registry


def launch(name, x, **attrs):
    return ge2rt.launch(name, x, device="cpu", **attrs)


SPECIAL = np.array([3, np.nan, -np.inf, 0, np.inf, -0.0, np.nan, -1, 5e-324, 2], np.float64)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
@pytest.mark.parametrize("copies", [7])
def test_nan_comes_last_and_equal_elements_keep_their_order(dtype, copies):
    x = np.tile(SPECIAL.astype(dtype), copies)
    np.testing.assert_array_equal(launch("sort", x), np.sort(x))
    np.testing.assert_array_equal(launch("argsort", x), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("n", [1, 33, 257])
def test_every_length_and_many_ties(n):
    x = np.random.default_rng(n).integers(0, 9, (3, n)).astype(np.int32)
    np.testing.assert_array_equal(launch("sort", x), np.sort(x, 1))
    np.testing.assert_array_equal(launch("argsort", x), np.argsort(x, 1, kind="stable"))


def test_extremes_of_integers_are_not_taken_for_padding():
    for dtype in (np.uint8, np.int64):
        limits = np.iinfo(dtype)
        x = np.array([limits.max, limits.min, 1] * 15, dtype)
        np.testing.assert_array_equal(launch("sort", x), np.sort(x))
        np.testing.assert_array_equal(launch("argsort", x), np.argsort(x, kind="stable"))


def test_a_row_too_long_for_shared_memory_is_sorted_in_the_output():
    x = np.random.default_rng(0).integers(0, 1000, (2, 14001)).astype(np.float32)
    strided = np.stack([x, x], -1)[..., 1]
    for rows in (x, strided):
        np.testing.assert_array_equal(launch("sort", rows), np.sort(x, 1))
        np.testing.assert_array_equal(launch("argsort", rows), np.argsort(x, 1, kind="stable"))


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_an_axis_that_is_too_long_is_refused_with_the_limit(name):
    with pytest.raises(ge2rt.UnsupportedError, match="1048576"):
        launch(name, np.zeros(1048577, np.int8))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_a_running_value_passes_nan_and_infinity_on(axis, op):
    x = np.ones((300, 300), np.float32)
    x[axis, 1 - axis] = np.inf
    x[7, 9] = np.nan
    x[0, 0] = -0.0
    with np.errstate(all="ignore"):
        want = getattr(np, op)(x, axis=axis)
    got = launch("scan", x, op=op, axis=axis)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("shape", [(1000, 3), (2, 300, 4)])
def test_integers_wrap_in_their_dtype(shape):
    for dtype in (np.int8, np.uint16, np.int64):
        x = np.random.default_rng(1).integers(-100, 100, shape).astype(dtype)
        for op in ("cumsum", "cumprod"):
            want = getattr(np, op)(x, axis=0, dtype=dtype)
            np.testing.assert_array_equal(launch("scan", x, op=op, axis=0), want)


@pytest.mark.parametrize("group", [32, 256])
@pytest.mark.parametrize("items", [1, 2, 4])
def test_every_way_to_share_a_row(group, items):
    x = np.random.default_rng(3).integers(-9, 9, (2, 2 * group * items + 77)).astype(np.int32)
    y = np.empty_like(x)
    kernel, desc = default_registry().get("scan"), dense(x.shape, "i32")
    bound = match(kernel, [desc, desc], {"op": "cumsum"})
    tunables = {"GROUP": group, "ITEMS": items, "WIDE": 1}
    plan = Plan(bound, get_device("cpu"), tunables=tunables)
    plan.launch([x.ctypes.data, y.ctypes.data])
    np.testing.assert_array_equal(y, np.cumsum(x, 1, dtype=np.int32))


def test_half_precision_adds_up_in_single():
    x = np.full(4096, 0.25, np.float16)
    want = np.cumsum(x, dtype=np.float32).astype(np.float16)
    np.testing.assert_array_equal(launch("scan", x, op="cumsum"), want)
    assert want[-1] == 1024  # adding in f16 stops at 512


def test_running_sums_are_the_same_in_each_run():
    x = np.random.default_rng(2).standard_normal(100_003).astype(np.float32)
    first, second = (launch("scan", x, op="cumsum") for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, np.cumsum(x, dtype=np.float64), atol=2e-3)
