"""Attention where seeded values do not go: queries that see no key, saved values, large scores."""

from __future__ import annotations

import numpy as np
import pytest

import ge2rt
from ge2rt.spec.library.sequences import FUNCTIONS

RNG = np.random.default_rng(7)
Q, K, V, GY = (RNG.standard_normal(s).astype(np.float32)
               for s in ((2, 9, 16), (2, 20, 16), (2, 20, 16), (2, 9, 16)))  # fmt: skip
SEEN = RNG.random((2, 9, 20)) < 0.7
SEEN[:, 4] = False


def forward(*inputs, **attrs):
    """Y and lse."""
    lse = np.zeros((2, 9), np.float32)
    y = np.zeros((2, 9, 16), np.float32)
    ge2rt.launch("sdpa", *inputs, out=(y, lse), device="cpu", **attrs)
    return y, lse


def backward(*inputs, **attrs):
    """Gradients of Q, K and V."""
    gradients = tuple(np.zeros_like(x) for x in (Q, K, V))
    ge2rt.launch("sdpa_bwd", *inputs, out=gradients, device="cpu", **attrs)
    return gradients


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=5e-5, atol=2e-5)


def test_a_query_that_sees_no_key_is_0_gets_nothing_and_gives_nothing():
    y, lse = forward(Q, K, V, SEEN)
    assert not y[:, 4].any()
    assert np.isneginf(lse[:, 4]).all()
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS["sdpa_bwd"](
            *(x.astype(np.float64) for x in (Q, K, V)), SEEN, None, None, GY, 0.0, False
        )
    for saved in ((None, None), (y, lse)):
        gradients = backward(Q, K, V, SEEN, *saved, GY)
        assert not gradients[0][:, 4].any()
        for gradient, want in zip(gradients, wanted, strict=True):
            close(gradient, want)


def test_large_scores_leave_the_sum_finite():
    y, lse = forward(Q * 100, K, V, None, scale=1.0)
    scores = (Q.astype(np.float64) * 100) @ K.swapaxes(1, 2)
    np.testing.assert_allclose(lse, scores.max(-1), rtol=1e-3)
    assert np.isfinite(y).all()


def test_dropout_draws_anew_for_each_seed_and_the_same_for_few_queries():
    eye = np.broadcast_to(np.eye(20, dtype=np.float32), (2, 20, 20))
    out = [ge2rt.launch("sdpa", Q, K, eye, device="cpu", p=0.5, seed=seed)[0] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(out[0], out[1])
    assert 0.4 < np.mean((out[0] == 0) != (out[2] == 0)) < 0.6
    one = ge2rt.launch("sdpa", Q[:1, :2], K[:1], eye[:1], device="cpu", p=0.5, seed=1)[0]
    np.testing.assert_array_equal(one == 0, out[0][:1, :2] == 0)


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("what", ["bool", "drop", "added", "causal"])
@pytest.mark.parametrize("rubbish", [np.nan, np.inf])
def test_hidden_keys_take_no_part_in_values_and_gradients(rubbish, what, saved):
    seen = np.broadcast_to(np.arange(20) < 9, (1, 9, 20))  # what causal hides from the last query
    mask = {"bool": seen, "drop": (~seen).astype(np.int32), "causal": None,
            "added": np.where(seen, np.float32(0), -np.inf)}[what]  # fmt: skip
    attrs = {"causal": what == "causal"}
    k, v = K.copy(), V.copy()
    k[:, 9:] = v[:, 9:] = 0
    f64 = [x.astype(np.float64) for x in (Q, k, v)]
    wanted = FUNCTIONS["sdpa"](*f64, mask, 0.0, **attrs)
    slopes = FUNCTIONS["sdpa_bwd"](*f64, mask, None, None, GY, 0.0, **attrs)
    k[:, 9:] = v[:, 9:] = rubbish
    found = forward(Q, k, v, mask, **attrs)
    for got, want in zip(found, wanted, strict=True):
        close(got, want)
    gradients = backward(Q, k, v, mask, *(found if saved else (None, None)), GY, **attrs)
    for got, want in zip(gradients, slopes, strict=True):
        close(got, want)
    assert not gradients[1][:, 9:].any()
    assert not gradients[2][:, 9:].any()
