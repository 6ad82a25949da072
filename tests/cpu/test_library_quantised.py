"""Quantised storage on the device: exact whole numbers, and what the cases do not reach."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError

RNG = np.random.default_rng(23)
ONE = np.float32(1)


def launched(name: str, *inputs: Any, out: Any = None, **attrs: Any) -> Any:
    return ge2rt.launch(name, *inputs, out=out, device="cpu", **attrs)


def test_halves_saturation_and_no_numbers() -> None:
    x = np.array(
        [0.5, 1.5, 2.5, -0.5, -1.5, 127.4, -128.5, 1e30, np.inf, -np.inf, np.nan], np.float32
    )
    assert launched("QUANTISE", x, ONE).tolist() == [0, 2, 2, 0, -2, 127, -128, 127, 127, -128, 0]
    moved = launched("QUANTISE", x, ONE, np.uint8(128))
    assert moved.dtype == np.uint8
    assert moved.tolist() == [128, 130, 130, 128, 126, 255, 0, 255, 255, 0, 128]


def test_channels_of_a_transposed_array_and_back() -> None:
    x = RNG.standard_normal((70, 40)).astype(np.float32).T
    scale = RNG.uniform(0.02, 0.05, 40).astype(np.float32)
    zero = RNG.integers(-20, 20, 40).astype(np.int8)
    q = launched("QUANTISE", x, scale, zero, axis=0)
    wanted = np.rint(x / scale[:, None]) + zero[:, None]
    assert np.array_equal(q, np.clip(wanted, -128, 127))
    back = launched("DEQUANTISE", q, scale, zero, axis=0)
    assert np.array_equal(back, (q.astype(np.float32) - zero[:, None]) * scale[:, None])


def test_the_contract_names_quantised_storage() -> None:
    x, y, back = np.float32([-1, 0.25, 3]), np.zeros(3, np.int8), np.zeros(3, np.float16)
    scale, zero = np.array(0.25, np.float32), np.array(5, np.int8)
    dtypes = {"float32": "f32", "int8": "q8", "float16": "f16"}

    def run(name: str, *arrays: Any) -> int:
        listed = [{"shape": list(a.shape), "dtype": dtypes[a.dtype.name]} for a in arrays]
        return ge2rt.launch_kernel(name, [a.ctypes.data for a in arrays], {"buffers": listed})

    assert run("quantise", x, scale, zero, y) == 0
    assert y.tolist() == [1, 6, 17]
    assert run("dequantise", y, scale, zero, back) == 0
    assert back.tolist() == [-1, 0.25, 3]


@pytest.mark.parametrize(("ta", "tb"), list(itertools.product((np.int8, np.uint8), repeat=2)))
@pytest.mark.parametrize("zeros", [False, True])
def test_products_are_whole_numbers_to_the_last_bit(ta: Any, tb: Any, zeros: bool) -> None:
    def drawn(t: Any, *shape: int) -> Any:
        return RNG.integers(np.iinfo(t).min, np.iinfo(t).max, shape, t, endpoint=True)

    a, b = drawn(ta, 37, 133), drawn(tb, 133, 70)
    a_zero, b_zero = (drawn(ta, 1), drawn(tb, 70)) if zeros else (None, None)
    wide_a = a.astype(np.int64) - (a_zero if zeros else 0)
    wide_b = b.astype(np.int64) - (b_zero if zeros else 0)
    wanted = wide_a @ wide_b
    assert np.abs(wanted).max() < 2**24  # so that f32 has each of them
    assert np.array_equal(launched("GEMM_Q8", a, b, ONE, None, a_zero, b_zero), wanted)


def test_views_tiles_and_transposed_weights() -> None:
    a = RNG.integers(-128, 128, (130, 96), np.int8)[:, ::-1]
    w = RNG.integers(-128, 128, (100, 96), np.int8)
    scale, bias = RNG.uniform(1e-4, 1e-3, 100).astype(np.float32), np.float32(RNG.random((130, 1)))
    z = (a.astype(np.int64) @ w.T.astype(np.int64)) * scale.astype(np.float64) + bias
    got = launched("GEMM_Q8", a, w.T, scale, bias, act="relu")
    np.testing.assert_allclose(got, np.maximum(z, 0), rtol=1e-5, atol=1e-5)
    half = launched("GEMM_Q8", a, w.T, scale, out=np.zeros((130, 200), np.float16)[:, ::2])
    np.testing.assert_allclose(half, z - bias, rtol=1e-3, atol=1e-3)


def test_sums_wrap_in_32_bits() -> None:
    a, b = np.full((1, 40_000), 255, np.uint8), np.full((40_000, 1), 255, np.uint8)
    assert launched("GEMM_Q8", a, b, ONE) == np.float32(40_000 * 255 * 255 - 2**32)


def test_what_does_not_fit_is_told() -> None:
    x, a = np.ones((4, 3), np.float32), np.ones((4, 4), np.int8)
    with pytest.raises(InvalidArgumentError, match="one value, or one for each place along axis"):
        launched("QUANTISE", x, np.ones(4, np.float32), axis=1)
    with pytest.raises(InvalidArgumentError, match="no such axis"):
        launched("QUANTISE", x, np.ones(4, np.float32), axis=2)
    with pytest.raises(InvalidArgumentError, match="a_zero has one value"):
        launched("GEMM_Q8", a, a, ONE, None, a[0])
