"""What the cases of ``kernels/norms.yaml`` and ``kernels/rows.yaml`` do not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.spec.library import norms, rows

RNG = np.random.default_rng(7)


def close(got: Any, right: Any, rtol: float = 2e-5, atol: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(got, np.float64), right, rtol, atol)


def test_layernorm_at_a_large_mean() -> None:
    x = (RNG.standard_normal((6, 100)) + 3e4).astype(np.float32)
    g = RNG.standard_normal((6, 100)).astype(np.float32)
    out = [np.empty((6, 100), np.float32), np.empty(100, np.float32), np.empty(100, np.float32)]
    ge2rt.launch("layernorm_bwd", g, x, out=out)
    for got, right in zip(out, norms.layernorm_bwd(g.astype("f8"), x.astype("f8")), strict=True):
        close(got, right)


@pytest.mark.parametrize("counter_base", [0, 2**32 - 3, -5])
def test_the_stream_of_dropout_is_exact(counter_base: int) -> None:
    x = np.ones(3001, np.float32)
    mask = np.empty(3001, np.int32)
    y = np.empty_like(x)
    seed = 2**40 + 12345
    ge2rt.launch("dropout", x, out=[y, mask], p=0.3, seed=seed, counter_base=counter_base)
    _, kept = norms.dropout(x, 0.3, seed, counter_base)
    np.testing.assert_array_equal(mask, kept)
    np.testing.assert_array_equal(y != 0, kept)


def test_batchnorm_at_a_large_mean() -> None:
    """Channels innermost and many values a channel, so that several blocks share each."""
    x = (RNG.standard_normal((4, 32, 32, 6)) + 3e3).astype(np.float32).transpose(0, 3, 1, 2)
    gamma, beta = RNG.standard_normal((2, 6)).astype(np.float32)
    mean, var = np.zeros(6, np.float32), np.ones(6, np.float32)
    right = norms.batchnorm(*(v.astype("f8") for v in (x, gamma, beta, mean, var)))
    out = [np.empty_like(x), mean, var, np.empty(6, np.float32), np.empty(6, np.float32)]
    ge2rt.launch("batchnorm", x, gamma, beta, out=out)
    for got, wanted in zip(out, right, strict=True):
        close(got, wanted, 2e-5, 1e-3)
    g = RNG.standard_normal(x.shape).astype(np.float32)
    saved = [v.astype(np.float32) for v in right[3:]]
    wanted = norms.batchnorm_bwd(
        *(v.astype("f8") for v in (g, x, gamma, mean, var, *saved)), 1e-5, True
    )
    out = [np.empty(v.shape, np.float32) for v in wanted]
    ge2rt.launch("batchnorm_bwd", g, x, gamma, None, None, *saved, out=out)
    for got, value in zip(out, wanted, strict=True):
        close(got, value, 2e-5, 2e-3)


@pytest.mark.parametrize("op", ["max", "min", "prod"])
def test_reduction_gradients_at_ties_nan_and_zeros(op: str) -> None:
    x = (
        RNG.integers(-1, 2, (700, 5)).astype(np.float32)
        if op != "prod"
        else np.ones((700, 5), "f4")
    )
    x[3, 0], x[600, 0] = (np.nan, np.nan) if op != "prod" else (2.0, 4.0)
    if op == "prod":
        x[5, 1], x[5, 2], x[690, 2] = 0.0, 0.0, 0.0
    g = RNG.standard_normal(5).astype(np.float32)
    got = ge2rt.launch("reduce_bwd", g, x, op=op, axes=[0])
    wanted = rows.reduce_bwd(op, g.astype("f8"), x.astype("f8"), x.shape, (0,))
    close(got, wanted, 1e-6, 0)
    assert np.count_nonzero(got[:, 1]) == (1 if op == "prod" else np.count_nonzero(wanted[:, 1]))
