"""Softmax and cross entropy far from 0, and labels that are no class."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ge2rt

RNG = np.random.default_rng(3)


def log_softmax(x: Any) -> Any:
    x = np.asarray(x, np.float64)
    centred = x - x.max(-1, keepdims=True)
    return centred - np.log(np.exp(centred).sum(-1, keepdims=True))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("f4", 1e2), ("f4", 1e8), ("f4", -1e30), ("f8", 1e16), ("f2", 6e4), (ml_dtypes.bfloat16, 1e30)],
)
@pytest.mark.parametrize("columns", [2, 5000])
def test_log_softmax_keeps_its_digits_far_from_zero(dtype: Any, size: float, columns: int) -> None:
    x = np.full((2, columns), size, dtype)
    got = ge2rt.launch("SOFTMAX", x, log=True)
    np.testing.assert_array_equal(got, np.full(x.shape, -np.log(columns)).astype(dtype))


def test_log_softmax_and_its_gradient_at_a_large_mean() -> None:
    x = (RNG.normal(size=(4, 1000)) * 5 + 3000).astype(np.float32)
    g = RNG.normal(size=x.shape).astype(np.float32)
    y = log_softmax(x)
    np.testing.assert_allclose(ge2rt.launch("SOFTMAX", x, log=True), y, 1e-6, 4e-6)
    wanted = g - np.exp(y) * g.sum(-1, keepdims=True, dtype=np.float64)
    out = [np.empty_like(x), None]
    ge2rt.launch("SOFTMAX_BWD", g, None, x, log=True, out=out)
    np.testing.assert_allclose(out[0], wanted, 1e-5, 1e-4)
