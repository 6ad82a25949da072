"""Optimisers on the device: the contract over many tensors, and training that goes down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.spec.library import optimisers


def tensors(count: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((3 + i, 2)).astype(np.float32) for i in range(count)]


def test_thirty_two_tensors_in_one_launch() -> None:
    p, g, m = tensors(32, 0), tensors(32, 1), tensors(32, 2)
    wanted, state = optimisers.lion(p, g, m, 0.1, 0.9, 0.99, 0.3)
    buffers = [*g, *p, *m]
    descs = {
        "buffers": [{"shape": list(a.shape), "dtype": "f32"} for a in buffers],
        "attrs": {"lr": 0.1, "weight_decay": 0.3},
    }
    assert ge2rt.launch_kernel("lion", [a.ctypes.data for a in buffers], descs) == 0
    for got, right in zip([*p, *m], [*wanted, *state], strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)
    more = {**descs, "buffers": [*descs["buffers"], *descs["buffers"][:3]]}
    assert ge2rt.launch_kernel("lion", [64] * 99, more) == -1
    assert "1 to 32 each of G, P, M" in str(ge2rt.last_error())


def test_an_output_that_overlaps_another_is_refused() -> None:
    (p,), (g,) = tensors(1, 0), tensors(1, 1)
    with pytest.raises(InvalidArgumentError, match="two outputs overlap"):
        ge2rt.launch("sgd", g, g, out=[p, p], lr=0.1)


def test_the_op_type_finds_the_kernel_for_the_state() -> None:
    (p,), (g,), (v,) = tensors(1, 0), tensors(1, 1), tensors(1, 2)
    former = v.copy()
    ge2rt.launch("SGD", g, out=[p, v], lr=0.1, momentum=0.5)
    np.testing.assert_allclose(v, 0.5 * former + g, rtol=1e-6)
    ge2rt.launch("SGD", g, out=[p], lr=0.1)
    with pytest.raises(UnsupportedError, match="momentum needs the state V"):
        ge2rt.launch("sgd", g, out=[p], lr=0.1, momentum=0.5)
    with pytest.raises(InvalidArgumentError, match="needs a momentum and no dampening"):
        ge2rt.launch("SGD", g, out=[p, v], lr=0.1, nesterov=True)


def test_clipping_takes_the_norm_over_the_list() -> None:
    g = [np.full((2, 2), 3, np.float32), np.full((3,), 4, np.float32)]
    *_, norm = ge2rt.launch("clip_grad_norm", out=[*g, None], max_norm=1.0)
    assert norm == pytest.approx((4 * 9 + 3 * 16) ** 0.5)
    assert sum((a**2).sum() for a in g) == pytest.approx(1, rel=1e-5)


def test_steps_go_down() -> None:
    rng = np.random.default_rng(3)
    a, b = (
        rng.standard_normal((40, 6)).astype(np.float32),
        rng.standard_normal(40).astype(np.float32),
    )
    x = np.zeros(6, np.float32)
    m, v = np.zeros(6, np.float32), np.zeros(6, np.float32)
    losses = []
    for step in range(1, 60):
        rest = a @ x - b
        losses.append(float(rest @ rest))
        ge2rt.launch("ADAMW", a.T @ rest, out=[x, m, v], lr=0.05, step=step)
    best = float(np.linalg.lstsq(a, b)[1][0])
    assert losses[-1] < best * 1.02 < losses[0]
