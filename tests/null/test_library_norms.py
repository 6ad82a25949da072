"""Meanings of ``kernels/norms.yaml``: central differences, and Philox's known answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differences import slopes

from ge2rt.spec import numeric
from ge2rt.spec.library import norms

RNG = np.random.default_rng(6)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_rows(name: str, scaled: bool) -> None:
    x, g = RNG.standard_normal((2, 3, 5)) + 0.5, RNG.standard_normal((2, 3, 5))
    gamma = RNG.standard_normal(5) if scaled else None

    def forward(x: Any, gamma: Any) -> Any:
        if name == "layernorm":
            return numeric.layernorm(x, gamma, None, 0.1)
        return numeric.rmsnorm(x, gamma, 0.1)

    gx, ggamma, gbeta = norms.FUNCTIONS[f"{name}_bwd"](g, x, gamma, 0.1)
    np.testing.assert_allclose(gx, slopes(lambda v: forward(v, gamma), x, g), 1e-6, 1e-8)
    ones = np.ones(5) if gamma is None else gamma
    np.testing.assert_allclose(ggamma, slopes(lambda v: forward(x, v), ones, g), 1e-6, 1e-8)
    np.testing.assert_allclose(gbeta, g.sum(axis=(0, 1)))


@pytest.mark.parametrize("training", [False, True])
def test_batchnorm(training: bool) -> None:
    x, g = RNG.standard_normal((3, 2, 4)) + 0.5, RNG.standard_normal((3, 2, 4))
    gamma, beta = RNG.standard_normal(2), RNG.standard_normal(2)
    running = RNG.standard_normal(2), RNG.uniform(0.5, 2, 2)

    def forward(x: Any, gamma: Any, beta: Any) -> Any:
        return norms.batchnorm(x, gamma, beta, *running, 0.1, 0.1, training)

    saved = forward(x, gamma, beta)[3:]
    gx, ggamma, gbeta = norms.batchnorm_bwd(g, x, gamma, *running, *saved, 0.1, training)
    np.testing.assert_allclose(gx, slopes(lambda v: forward(v, gamma, beta)[0], x, g), 1e-6, 1e-8)
    np.testing.assert_allclose(
        ggamma, slopes(lambda v: forward(x, v, beta)[0], gamma, g), 1e-6, 1e-8
    )
    np.testing.assert_allclose(
        gbeta, slopes(lambda v: forward(x, gamma, v)[0], beta, g), 1e-6, 1e-8
    )


def test_batchnorm_by_hand() -> None:
    x = np.array([[1.0], [3.0]])
    y, mean, var, saved, invstd = norms.batchnorm(
        x, None, None, np.array([10.0]), np.array([1.0]), 0.0
    )
    assert y.ravel().tolist() == [-1, 1]
    assert (mean[0], var[0]) == pytest.approx((9.2, 1.1))  # the unbiased variance is 2
    assert (saved[0], invstd[0]) == (2, 1)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # known answers that come with Random123
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)  # fmt: skip
def test_philox_known_answers(counter: Any, key: Any, words: str) -> None:
    found = norms.philox4x32(np.array([counter]), key)
    assert " ".join(f"{word:08x}" for word in found[0]) == words


def test_the_stream_of_dropout() -> None:
    words = norms.philox_stream(6, seed=2**32 + 5, counter_base=2**32 - 1)
    counters = np.array([[2**32 - 1, 0, 0, 0], [0, 1, 0, 0]])
    assert words.tolist() == norms.philox4x32(counters, (5, 1)).ravel()[:6].tolist()
    x = RNG.standard_normal((50, 40))
    y, kept = norms.dropout(x, 0.25, seed=9)
    assert abs(kept.mean() - 0.75) < 0.03
    np.testing.assert_array_equal(y, np.where(kept, x / 0.75, 0))
    first = norms.philox_stream(2000, 9, 0)
    assert kept.ravel().tolist() == [int(w) >= 2**30 for w in first]


def test_the_gradient_of_dropout_keeps_the_same_elements() -> None:
    x, g = RNG.standard_normal((2, 30))
    _, kept = norms.dropout(x, 0.5, 3, 8)
    by_stream = norms.dropout_bwd(g, None, 0.5, 3, 8)
    np.testing.assert_array_equal(by_stream, norms.dropout_bwd(g, kept, 0.5))
    np.testing.assert_array_equal(by_stream, np.where(kept, 2 * g, 0))
