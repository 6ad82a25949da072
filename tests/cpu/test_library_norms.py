"""What the cases of ``kernels/norms.yaml`` and ``kernels/rows.yaml`` do not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.spec.library import norms

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
