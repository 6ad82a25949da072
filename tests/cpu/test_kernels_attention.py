"""Attention where seeded values do not go: masked rows, large scores, NaN, few and many queries."""

from __future__ import annotations

import numpy as np
import pytest
from cases import dense

import ge2rt
from ge2rt.device.registry import get_device
from ge2rt.run.plan import Plan
from ge2rt.spec.match import match
from ge2rt.spec.registry import default_registry


def arrays(queries=40, keys=70, size=16, batch=(2,), seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((*batch, queries, size), (*batch, keys, size), (*batch, keys, size))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def exact(q, k, v, mask=None, scale=1.0):
    """In f64; ``mask`` is added."""
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * scale
    if mask is not None:
        scores = scores + mask
    with np.errstate(all="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def attend(*inputs, **attrs):
    return ge2rt.launch("attention", *inputs, device="cpu", **attrs)


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("queries", [40, 1])
def test_keys_hidden_by_a_mask_add_nothing_however_many_come_first(queries):
    q, k, v = arrays(queries)
    k[:, :50] *= 100  # would be the largest scores by far
    seen = np.arange(70)[None, None] >= 50
    added = np.where(seen, np.float32(0), -np.inf).astype(np.float32)
    want = exact(q, k, v, added)
    close(attend(q, k, v, added), want)
    close(attend(q, k, v, seen), want)


@pytest.mark.parametrize("queries", [40, 1])
def test_a_query_that_sees_no_key_is_nan_and_its_neighbours_are_not(queries):
    q, k, v = arrays(queries)
    seen = np.ones((1, queries, 70), np.bool_)
    seen[:, queries // 2] = False
    got = attend(q, k, v, seen)
    assert np.isnan(got[:, queries // 2]).all()
    others = np.arange(queries) != queries // 2
    close(got[:, others], exact(q, k, v)[:, others])


@pytest.mark.parametrize("queries", [40, 1])
def test_scores_far_above_what_exp_can_take(queries):
    q, k, v = arrays(queries)
    got = attend(q, k, v, scale=300.0)
    assert np.isfinite(got).all()
    best = (q.astype(np.float64) @ k.swapaxes(-1, -2)).argmax(-1)
    agree = np.isclose(got, np.take_along_axis(v, best[..., None], 1), atol=1e-2).all(-1)
    assert agree.mean() > 0.9  # but for near ties


@pytest.mark.parametrize("queries", [40, 1])
def test_nan_goes_to_the_queries_that_see_it(queries):
    q, k, v = arrays(queries)
    k[0, 69] = np.nan
    got = attend(q, k, v)
    assert np.isnan(got[0]).all()
    close(got[1], exact(q, k, v)[1])


@pytest.mark.parametrize("diagonal", [0, 30, -3, -(2**31), 2**31 - 1])
def test_causal_is_the_lower_triangle_of_numpy(diagonal):
    q, k, v = arrays()
    with np.errstate(over="ignore"):
        seen = np.arange(70)[None] - np.arange(40)[:, None] <= diagonal
    want = attend(q, k, v, seen[None])
    np.testing.assert_array_equal(attend(q, k, v, causal=True, diagonal=diagonal), want)


def test_no_keys_and_long_heads_are_refused():
    q, k, v = arrays(keys=0)
    with pytest.raises(ge2rt.InvalidArgumentError, match="no keys"):
        attend(q, k, v)
    with pytest.raises(ge2rt.UnsupportedError, match="more than 256"):
        attend(*arrays(size=260))
    q, k, v = arrays()
    with pytest.raises(ge2rt.InvalidArgumentError, match="does not broadcast"):
        attend(q, k, v, np.zeros((2, 40, 3), np.float32))


@pytest.mark.parametrize(
    "tunables",
    [
        {"ROW": 1, "TH": 64, "WIDE": 1},
        {"ROW": 0, "TH": 32, "HELD": 0, "WIDE": 1, "KT": 16},
        {"ROW": 0, "TH": 64, "HELD": 1, "WIDE": 0},
        {"ROW": 0, "TH": 128, "HELD": 1, "WIDE": 1},
    ],
    ids=str,
)
def test_every_way_to_share_the_work(tunables):
    q, k, v = arrays(queries=90, size=32)
    out = np.empty_like(q)
    descs = [*(dense(x.shape, "f32") for x in (q, k, v)), None, dense(out.shape, "f32")]
    bound = match(default_registry().get("attention"), descs, {"causal": True, "scale": 0.2})
    plan = Plan(bound, get_device("cpu"), tunables=tunables)
    plan.launch([q.ctypes.data, k.ctypes.data, v.ctypes.data, 0, out.ctypes.data])
    hidden = np.where(np.tri(90, 70, dtype=np.bool_), 0, -np.inf)
    close(out, exact(q, k, v, hidden, 0.2))


def hide(what, queries, keys=70):
    """Arguments that hide keys from queries, and which keys are seen."""
    seen = np.random.default_rng(5).random((1, queries, keys)) < 0.5
    seen[..., 0], seen[..., -1] = True, False  # the last key is hidden from all
    if what == "causal":
        return (), {"causal": True}, np.tri(queries, keys, dtype=np.bool_)[None]
    return (np.where(seen, np.float32(0), -np.inf) if what == "added" else seen,), {}, seen


@pytest.mark.parametrize("what", ["causal", "bool", "added"])
@pytest.mark.parametrize("rubbish", [np.nan, np.inf])
@pytest.mark.parametrize("tunables", [{"ROW": 1}, {"HELD": 0}, {"HELD": 1, "WIDE": 1}], ids=str)
def test_hidden_keys_take_no_part_whatever_they_hold(what, rubbish, tunables):
    """Only the queries that see a key with rubbish in its value show it."""
    queries = 5 if "ROW" in tunables else 90
    q, k, v = arrays(queries)
    inputs, attrs, seen = hide(what, queries)
    hidden_from_all = ~seen.any((0, 1))
    want = exact(q, k, v, np.where(seen, 0, -np.inf))
    k[:, hidden_from_all] = rubbish
    v[:, hidden_from_all] = rubbish
    v[:, 3] = rubbish
    got = attend(q, k, v, *inputs, tunables=tunables, **attrs)
    clean = ~np.broadcast_to(seen, (2, queries, 70))[..., 3]
    assert 0 < clean.sum() < clean.size
    close(got[clean], want[clean])
    assert not np.isfinite(got[~clean]).any()
