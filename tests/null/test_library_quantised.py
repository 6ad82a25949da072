"""Meanings of quantised storage, against values by hand and whole numbers of Python's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec.descs import desc_of
from ge2rt.spec.functions import HOST_FUNCTIONS as HOST
from ge2rt.spec.library.quantised import dequantised, gemm_q8, quantised

RNG = np.random.default_rng(17)
ONE = np.float64(1.0)


def test_halves_go_to_even_and_what_is_outside_saturates() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 127.4, 127.5, -128.5, 1e30, np.inf, -np.inf, np.nan])
    got = quantised(x, ONE, None, -1, "f32", "q8")
    assert got.dtype == np.int8
    assert got.tolist() == [0, 2, 2, 0, -2, 127, 127, -128, 127, 127, -128, 0]
    moved = quantised(x, ONE, np.uint8(128), -1, "f32", "u8")
    assert moved.tolist() == [128, 130, 130, 128, 126, 255, 255, 0, 255, 255, 0, 128]


def test_the_quotient_is_that_of_the_dtype() -> None:
    # below 3.5, and 3.5 as soon as it is rounded to f32
    x, scale = np.float32(0.35), np.float32(0.1)
    assert x / scale == 3.5 > float(x) / float(scale)
    given = np.array([x], np.float64), np.float64(scale), None, 0
    assert quantised(*given, "f32", "i8").tolist() == [4]
    assert quantised(*given, "f64", "i8").tolist() == [3]


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_channels_lie_along_the_axis(axis: int) -> None:
    x, extent = RNG.standard_normal((5, 7, 3)), (5, 7, 3)[axis]
    scale, zero = RNG.uniform(0.01, 0.05, extent), RNG.integers(-9, 9, extent).astype(np.int8)
    q = quantised(x, scale, zero, axis, "f64", "i8")
    back = dequantised(q, scale, zero, axis, "f64")
    for place in np.ndindex(x.shape):
        s, z = float(scale[place[axis]]), int(zero[place[axis]])
        assert q[place] == min(max(round(float(x[place]) / s) + z, -128), 127)
        assert back[place] == (int(q[place]) - z) * s


def test_a_value_comes_back_within_half_a_step() -> None:
    x = RNG.uniform(-1, 1, (40, 9))
    scale, zero = np.float64(2 / 255), np.uint8(128)
    back = dequantised(quantised(x, scale, zero, 0, "f32", "u8"), scale, zero, 0, "f32")
    assert back.dtype == np.float32
    assert np.abs(np.where(x < 0.99, x - back, 0)).max() <= scale / 2 + 1e-7


@pytest.mark.parametrize("kind", ["per_n", "per_m", "scalar"])
def test_a_product_element_by_element(kind: str) -> None:
    a = RNG.integers(0, 256, (3, 20)).astype(np.uint8)
    b = RNG.integers(-128, 128, (20, 4)).astype(np.int8)
    scale, b_zero = RNG.uniform(0, 1e-3, 4), RNG.integers(-128, 128, 4).astype(np.int8)
    bias = RNG.standard_normal({"per_n": 4, "per_m": 3, "scalar": 1}[kind])
    got = gemm_q8(a, b, scale, bias, np.uint8(200), b_zero, "tanh", kind, 0.0)
    for m in range(3):
        for n in range(4):
            total = sum((int(a[m, k]) - 200) * (int(b[k, n]) - int(b_zero[n])) for k in range(20))
            added = bias[{"per_n": n, "per_m": m, "scalar": 0}[kind]]
            assert math.isclose(got[m, n], math.tanh(total * scale[n] + added), rel_tol=1e-12)


def test_sums_wrap_in_32_bits() -> None:
    a, b = np.full((1, 40_000), 255, np.uint8), np.full((40_000, 1), 255, np.uint8)
    total = 40_000 * 255 * 255
    assert gemm_q8(a, b, ONE, None, None, None, "none", "per_n", 0.0) == total - 2**32


def test_a_vector_seen_along_an_axis() -> None:
    vector = HOST["sliced"](desc_of((9,), "f32", device="cpu"), (0,), (4,), (2,))
    seen = HOST["along"](vector, -2, 3)
    assert (seen.shape, seen.strides) == ((1, 4, 1), (0, 2, 0))
    one = desc_of((), "f32", device="cpu")
    assert HOST["along"](one, 5, 3) == one
    for buffer, axis in ((vector, 3), (desc_of((4, 1), "f32", device="cpu"), 0)):
        with pytest.raises((ValueError, InvalidArgumentError)):
            HOST["along"](buffer, axis, 3)
