"""Softmax and cross entropy far from 0, and labels that are no class."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.run import plan

RNG = np.random.default_rng(3)


def log_softmax(x: Any) -> Any:
    x = np.asarray(x, np.float64)
    centred = x - x.max(-1, keepdims=True)
    return centred - np.log(np.exp(centred).sum(-1, keepdims=True))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("f4", 1e2),
        ("f4", 1e8),
        ("f4", -1e30),
        ("f8", 1e16),
        ("f2", 6e4),
        (ml_dtypes.bfloat16, 1e30),
    ],
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


X = np.array([[0, 1, 2], [5, 0, 0]], np.float32)
LOSS = -log_softmax(X)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("ignore", "bad"), [(-100, -1), (-100, -99), (-100, 3), (7, 6), (7, -1)])
def test_a_target_that_is_no_class_is_refused(ignore: int, bad: int, dtype: Any) -> None:
    target = np.array([ignore, bad], dtype)
    with pytest.raises(InvalidArgumentError, match=rf"0 <= target < 3 or {ignore}, got {bad} at"):
        ge2rt.launch("CROSS_ENTROPY", X, target, ignore_index=ignore)
    with pytest.raises(InvalidArgumentError, match=rf"0 <= target < 3 or {ignore}, got {bad} at"):
        ge2rt.launch("CROSS_ENTROPY_BWD", np.float32(1), X, target, ignore_index=ignore)


@pytest.mark.parametrize("ignore", [-100, -1, 2, 7])
def test_classes_and_the_ignored_one_are_taken(ignore: int) -> None:
    target = np.array([1, ignore])
    got = ge2rt.launch("CROSS_ENTROPY", X, target, ignore_index=ignore, reduction="none")[0]
    np.testing.assert_allclose(got, [LOSS[0, 1], 0], 1e-6)


@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("bad", [-1, 3, -(2**31)])
def test_the_kernel_itself_makes_no_other_class_of_it(
    bad: int, from_logits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a device whose memory the host does not see: no check before the launch."""
    monkeypatch.setattr(plan, "check_values", lambda *_: None)
    x = X if from_logits else np.exp(log_softmax(X)).astype(np.float32)
    target = np.array([bad, 0], np.int32)
    out = [np.empty(2, np.float32), np.ones_like(x)]
    options = {"reduction": "none", "from_logits": from_logits, "label_smoothing": 0.1}
    ge2rt.launch("CROSS_ENTROPY", x, target, out=out, **options)
    assert np.isnan(out[0][0])
    assert np.isfinite(out[0][1])
    gx = ge2rt.launch("CROSS_ENTROPY_BWD", np.ones(2, np.float32), x, target, **options)
    for gradient in (out[1], gx):
        assert not gradient[0].any()
        assert gradient[1].all()
