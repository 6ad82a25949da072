"""Meanings of optimiser steps, against steps worked out one number at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ge2rt.spec.library import optimisers


def lists(*values: float) -> list[list[np.ndarray]]:
    """One tensor of one number for each list."""
    return [[np.array([v])] for v in values]


def numbers(result: object) -> list[float]:
    return [float(array[0]) for (array,) in result]


def test_sgd() -> None:
    p, g = lists(2.0, 0.5)
    assert float(optimisers.sgd(p, g, 0.1, 0.25)[0][0]) == pytest.approx(2 - 0.1 * (0.5 + 0.5))
    v = lists(4.0)[0]
    d = 0.5 + 0.25 * 2
    for nesterov in (False, True):
        got = numbers(optimisers.sgd_momentum(p, g, v, 0.1, 0.9, 0.0, 0.25, nesterov, 2))
        new = 0.9 * 4 + d
        assert got == pytest.approx([2 - 0.1 * (d + 0.9 * new if nesterov else new), new])
    got = numbers(optimisers.sgd_momentum(p, g, v, 0.1, 0.9, 0.4, 0.0, False, 2))
    assert got[1] == pytest.approx(0.9 * 4 + 0.6 * 0.5)
    got = numbers(optimisers.sgd_momentum(p, g, v, 0.1, 0.9, 0.4, 0.0, False, 1))
    assert got == pytest.approx([2 - 0.05, 0.5])  # the first step is not damped


def test_the_first_step_of_adam_is_the_rate() -> None:
    p, g, m, v = lists(2.0, -0.3, 0.0, 0.0)
    got = numbers(optimisers.adam(p, g, m, v, 0.1, 0.9, 0.999, 0.0, 0.0, 1))
    assert got == pytest.approx([2.1, -0.03, 0.001 * 0.09])


def test_adam_by_hand() -> None:
    p, g, m, v = lists(2.0, 0.5, 0.2, 0.09)
    for name, decay in (("adam", 0.1), ("adamw", 0.1)):
        d = 0.5 + (0.2 if name == "adam" else 0)
        mean, square = 0.8 * 0.2 + 0.2 * d, 0.9 * 0.09 + 0.1 * d * d
        step = 0.01 * (mean / (1 - 0.8**3)) / (math.sqrt(square / (1 - 0.9**3)) + 0.5)
        start = 2.0 if name == "adam" else 2 * (1 - 0.01 * 0.1)
        got = getattr(optimisers, name)(p, g, m, v, 0.01, 0.8, 0.9, 0.5, decay, 3)
        assert numbers(got) == pytest.approx([start - step, mean, square])


def test_amsgrad_keeps_the_largest() -> None:
    p, g, m, v, w = lists(2.0, 0.5, 0.2, 0.09, 5.0)
    got = numbers(optimisers.amsgrad(p, g, m, v, w, 0.01, 0.8, 0.9, 0.5, 0.0, 3, False))
    mean = (0.8 * 0.2 + 0.2 * 0.5) / (1 - 0.8**3)
    assert got[0] == pytest.approx(2 - 0.01 * mean / (math.sqrt(5 / (1 - 0.9**3)) + 0.5))
    assert got[3] == 5
    small = lists(0.001)[0]
    got = numbers(optimisers.amsgrad(p, g, m, v, small, 0.01, 0.8, 0.9, 0.5, 0.1, 3, True))
    assert got[3] == got[2]
    assert got == pytest.approx(
        [*numbers(optimisers.adamw(p, g, m, v, 0.01, 0.8, 0.9, 0.5, 0.1, 3)), got[2]]
    )


def test_adagrad() -> None:
    p, g, v = lists(2.0, 0.5, 0.75)
    got = numbers(optimisers.adagrad(p, g, v, 0.1, 0.5, 0.0, 0.0, 3))
    assert got == pytest.approx([2 - 0.1 / 2 * 0.5 / 1.0, 1.0])


def test_rmsprop() -> None:
    p, g, v, a, b = lists(2.0, 0.5, 1.0, 0.2, 3.0)
    square = 0.9 + 0.1 * 0.25
    got = numbers(optimisers.rmsprop(p, g, v, None, None, 0.1, 0.9, 0.01, 0.0, 0.0))
    assert got == pytest.approx([2 - 0.1 * 0.5 / (math.sqrt(square) + 0.01), square])
    mean = 0.9 * 0.2 + 0.1 * 0.5
    u = 0.5 * 3 + 0.5 / (math.sqrt(square - mean**2) + 0.01)
    got = numbers(optimisers.rmsprop(p, g, v, a, b, 0.1, 0.9, 0.01, 0.0, 0.5))
    assert got == pytest.approx([2 - 0.1 * u, square, mean, u])


def test_lion() -> None:
    p, g, m = lists(2.0, -0.5, 0.1)  # 0.9 * 0.1 - 0.1 * 0.5 > 0
    got = numbers(optimisers.lion(p, g, m, 0.1, 0.9, 0.99, 0.5))
    assert got == pytest.approx([2 * 0.95 - 0.1, 0.099 - 0.005])


def test_lamb_moves_each_tensor_by_its_own_norm() -> None:
    rng = np.random.default_rng(2)
    p, g, m, v = ([np.abs(rng.standard_normal(s)) for s in ((3, 2), (5,))] for _ in range(4))
    moved, _, _ = optimisers.lamb(p, g, m, v, 0.1, 0.9, 0.99, 1e-6, 0.3, 4)
    for before, after in zip(p, moved, strict=True):
        assert np.linalg.norm(after - before) == pytest.approx(0.1 * np.linalg.norm(before))
    adam, _, _ = optimisers.adam(p, g, m, v, 0.1, 0.9, 0.99, 1e-6, 0.0, 4)
    way = (p[0] - adam[0]) / 0.1 + 0.3 * p[0]
    along = (p[0] - moved[0]).ravel()
    cosine = along @ way.ravel() / np.linalg.norm(along) / np.linalg.norm(way)
    assert cosine == pytest.approx(1)
    zero = [np.zeros(3)]
    moved, _, _ = optimisers.lamb(zero, [np.ones(3)], zero, zero, 0.1, 0.9, 0.99, 0.0, 0.3, 1)
    np.testing.assert_allclose(moved[0], -0.1)  # no norm: Adam's step


def test_clipping() -> None:
    g = [np.array([3.0, 0.0]), np.array([[4.0]])]
    (a, b), norm = optimisers.clipped(g, 2.5, 2.0)
    assert norm == 5
    assert a.tolist() + b.tolist() == [pytest.approx(1.5), 0, [pytest.approx(2.0)]]
    (a, b), norm = optimisers.clipped(g, 10.0, 2.0)
    assert a.tolist() == [3, 0]
    assert optimisers.clipped(g, 1.0, math.inf)[1] == 4
