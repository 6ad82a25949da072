"""Random numbers of each dtype, and seeds of 64 bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ge2rt
from ge2rt.spec.library import norms


def draw(dtype: Any, size: int = 2**16, **attrs: Any) -> Any:
    return ge2rt.launch("RANDOM", out=np.empty(size, dtype), device="cpu", **attrs)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_uniform_numbers_stay_below_1(dtype: Any) -> None:
    got = draw(dtype).astype(np.float64)
    assert got.min() >= 0
    assert got.max() < 1
    assert abs(got.mean() - 0.5) < 0.01
    # cut off, not rounded: each is the largest of its dtype that is not above the exact number
    exact = draw(np.float32)
    assert (got <= (draw(np.float64) if dtype is np.float64 else exact)).all()
    if dtype in (np.float16, ml_dtypes.bfloat16):
        nearest = exact.astype(dtype)
        below = np.where(nearest.astype("f4") > exact, np.nextafter(nearest, dtype(0)), nearest)
        np.testing.assert_array_equal(got, below.astype(np.float64))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize(("low", "width"), [(1.0, 1.0), (-4.0, 2.0), (0.0, 8.0), (-2.0, 4.0)])
def test_uniform_numbers_stay_below_any_upper_bound(dtype: Any, low: float, width: float) -> None:
    got = draw(dtype, 2**22, low=low, width=width).astype(np.float64)
    assert got.min() >= low
    assert got.max() < low + width


@pytest.mark.parametrize("seed", [2**63, 2**64 - 1, 2**63 + 12345])
@pytest.mark.parametrize("name", ["seed", "counter_base"])
def test_seeds_of_64_bits(seed: int, name: str) -> None:
    """The same 64 bits as a negative number, in every face."""
    x = np.ones(1000, np.float32)
    signed = seed - 2**64
    y, mask = np.empty_like(x), np.empty(1000, np.int32)
    ge2rt.launch("dropout", x, out=[y, mask], p=0.3, **{name: seed})
    base = {"seed": 0, "counter_base": 0, name: signed}
    np.testing.assert_array_equal(mask, norms.dropout(x, 0.3, *base.values())[1])
    same = draw(np.float32, 999, **{name: signed})
    np.testing.assert_array_equal(draw(np.float32, 999, **{name: seed}), same)
    descs = {"buffers": [{"shape": [999], "dtype": "f32"}], "attrs": {name: seed}}
    got = np.empty(999, np.float32)
    assert ge2rt.launch_kernel("random", [got.ctypes.data], descs) == 0
    np.testing.assert_array_equal(got, same)
