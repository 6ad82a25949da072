"""Meanings of the gradients of ``kernels/rows.yaml``: against central differences and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differences import slopes

from ge2rt.spec import numeric
from ge2rt.spec.library import rows

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("op", sorted(rows._SLOPE))
def test_unary_by_argument(op: str) -> None:
    x = RNG.uniform(0.1, 1.4, 40)
    if op not in ("log", "log1p", "log2", "sqrt", "rsqrt", "tan"):
        x *= np.where(RNG.random(40) < 0.5, -0.9, 1.1)
    g = RNG.standard_normal(40)
    extra = (0.3, -0.5, 0.7, 0.25)
    right = slopes(lambda v: numeric.unary(op, v, *extra), x, g)
    np.testing.assert_allclose(rows.unary_bwd(op, g, x, None, *extra), right, 1e-6, 1e-8)


@pytest.mark.parametrize("op", sorted(rows._SLOPE_AT_VALUE))
def test_unary_by_value_is_unary_by_argument(op: str) -> None:
    x = RNG.uniform(0.1, 1.4, 40)
    if op not in ("sqrt", "rsqrt"):
        x *= np.where(RNG.random(40) < 0.5, -1, 1)
    g = RNG.standard_normal(40)
    y = numeric.unary(op, x, 0.3)
    right = rows.unary_bwd(op, g, x, None, 0.3)
    np.testing.assert_allclose(rows.unary_bwd(op, g, None, y, 0.3), right, 1e-9)


def test_unary_at_kinks_as_pytorch_has_it() -> None:
    zero, g = np.zeros(1), np.array([3.0])
    right = {"relu": 0.0, "leaky_relu": 0.6, "elu": 0.6, "abs": 0.0, "sign": 0.0}
    assert {op: rows.unary_bwd(op, g, zero, None, 0.2)[0] for op in right} == pytest.approx(right)
    edges = rows.unary_bwd("clip", np.ones(4), np.array([-1.0, 1.0, -1.1, 1.1]), None, 0, -1, 1)
    assert edges.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("op", sorted(rows._PARTIALS))
@pytest.mark.parametrize(("sa", "sb"), [((3, 4), (4,)), ((3, 1), (2, 1, 4)), ((), (3,))])
def test_binary(op: str, sa: Any, sb: Any) -> None:
    a, b = RNG.uniform(0.3, 2, sa), RNG.uniform(0.3, 2, sb)
    g = RNG.standard_normal(np.broadcast_shapes(sa, sb))
    ga, gb = rows.binary_bwd(op, g, a, b, 0.7, 1.3)
    np.testing.assert_allclose(
        ga, slopes(lambda v: numeric.binary(op, v, b, 0.7, 1.3), a, g), 1e-6, 1e-8
    )
    np.testing.assert_allclose(
        gb, slopes(lambda v: numeric.binary(op, a, v, 0.7, 1.3), b, g), 1e-6, 1e-8
    )


def test_binary_ties_and_zeros() -> None:
    one = np.ones(1)
    assert [float(v[0]) for v in rows.binary_bwd("max", one, one, one)] == [0.5, 0.5]
    zero = np.zeros(1)
    with np.errstate(all="ignore"):
        assert [float(v[0]) for v in rows.binary_bwd("pow", one, zero, zero)] == [0, 0]
        assert [float(v[0]) for v in rows.binary_bwd("pow", one, zero, one)] == [1, 0]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("axis", "masked"), [(-1, (1, 4)), (0, (3, 1)), (1, (3, 4))])
def test_softmax(log: bool, axis: int, masked: Any) -> None:
    x, mask = RNG.standard_normal((3, 4)), RNG.standard_normal(masked)
    g = RNG.standard_normal((3, 4))

    def forward(x: Any, mask: Any) -> Any:
        return numeric.softmax(x * 1.7 + mask, axis, 1.0, log)

    gx, gmask = rows.softmax_bwd(g, None, x, mask, masked, axis, 1.7, log)
    np.testing.assert_allclose(gx, slopes(lambda v: forward(v, mask), x, g), 1e-6, 1e-8)
    np.testing.assert_allclose(gmask, slopes(lambda v: forward(x, v), mask, g), 1e-6, 1e-8)
    y = forward(x, mask)
    by_y = rows.softmax_bwd(g, y, None, None, masked, axis, 1.7, log)
    np.testing.assert_allclose(by_y[0], gx, 1e-9, 1e-12)
    np.testing.assert_allclose(by_y[1], gmask, 1e-9, 1e-12)


OPTIONS = [(True, "none", 9, 0.0), (True, "mean", 1, 0.2), (False, "sum", 0, 0.3)]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_cross_entropy(options: Any) -> None:
    logits = options[0]
    x = RNG.standard_normal((5, 3)) if logits else RNG.uniform(0.1, 1, (5, 3))
    target = np.array([0, 1, 2, 1, 0])

    def forward(x: Any) -> Any:
        return rows.cross_entropy(x, target, *options, 0.05)[0]

    loss, fused = rows.cross_entropy(x, target, *options, 0.05)
    g = RNG.standard_normal(np.shape(loss))
    right = slopes(forward, x, g)
    np.testing.assert_allclose(
        rows.cross_entropy_bwd(g, x, target, *options, 0.05), right, 1e-6, 1e-8
    )
    np.testing.assert_allclose(fused, slopes(forward, x, np.ones_like(g)), 1e-6, 1e-8)
    assert not fused[target == options[2]].any()


def test_cross_entropy_by_hand() -> None:
    x, target = np.log([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]), np.array([0, 1, 2])
    losses = -np.log([0.5, 0.8, 0.6])
    none = rows.cross_entropy(x, target, True, "none")[0]
    np.testing.assert_allclose(none, losses)
    mean = rows.cross_entropy(x, target, ignore_index=2)[0]
    assert mean == pytest.approx(losses[:2].mean())
    probabilities = rows.cross_entropy(np.exp(x), target, False, "sum", eps=0.0)[0]
    assert probabilities == pytest.approx(losses.sum())
    smooth = rows.cross_entropy(x[:1], target[:1], label_smoothing=0.3)[0]
    assert smooth == pytest.approx(-(0.8 * np.log(0.5) + 0.2 * np.log(0.25)))


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("axes", [(), (1,), (0, -1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reduce(op: str, axes: Any, keepdim: bool) -> None:
    x = RNG.standard_normal((2, 3, 4))

    def forward(x: Any) -> Any:
        return numeric.reduce(op, x, axes, keepdim)

    g = RNG.standard_normal(np.shape(forward(x)))
    got = rows.reduce_bwd(op, g, x, x.shape, axes, keepdim)
    np.testing.assert_allclose(got, slopes(forward, x, g), 1e-6, 1e-8)


def test_reduce_ties_and_zeros() -> None:
    g, x = np.array(6.0), np.array([3.0, 1.0, 3.0, 3.0])
    assert rows.reduce_bwd("max", g, x, (4,)).tolist() == [2, 0, 2, 2]
    assert rows.reduce_bwd("min", g, x, (4,)).tolist() == [0, 6, 0, 0]
    gone = np.array([1.0, np.nan, 3.0, np.nan])
    assert rows.reduce_bwd("max", g, gone, (4,)).tolist() == [0, 3, 0, 3]
    assert rows.reduce_bwd("prod", g, np.array([2.0, 0, 3]), (3,)).tolist() == [0, 36, 0]
    assert rows.reduce_bwd("prod", g, np.zeros(3), (3,)).tolist() == [0, 0, 0]
