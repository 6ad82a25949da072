"""Meanings of ops that move data, against hand values, loops and sums that must agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec.descs import desc_of
from ge2rt.spec.functions import HOST_FUNCTIONS as HOST
from ge2rt.spec.library import moving

RNG = np.random.default_rng(11)


def adjoint(forward: Any, backward: Any, x: Any, y_shape: tuple[int, ...]) -> None:
    """<forward(x), gy> = <x, backward(0, gy)>, and a gradient is added to what is there."""
    gy, former = RNG.standard_normal(y_shape), RNG.standard_normal(x.shape)
    got = backward(np.zeros(x.shape), gy)
    assert got.shape == x.shape
    assert np.vdot(forward(x), gy) == pytest.approx(np.vdot(x, got))
    np.testing.assert_allclose(backward(former, gy), former + got)


def test_conversion_cuts_off_and_saturates() -> None:
    values = np.array([2.9, -2.9, 300.0, -300.0, np.nan, np.inf, -np.inf, 0.0])
    assert moving.converted(values, "i8").tolist() == [2, -2, 127, -128, 0, 127, -128, 0]
    assert moving.converted(values, "u8").tolist() == [2, 0, 255, 0, 0, 255, 0, 0]
    assert moving.converted(values, "bool").tolist() == [True] * 7 + [False]
    big = np.array([2.0**63, -(2.0**63), 2.0**62, 1e300])
    assert moving.converted(big, "i64").tolist() == [2**63 - 1, -(2**63), 2**62, 2**63 - 1]
    assert moving.converted(np.array([2.0**64, -1.0]), "u64").tolist() == [2**64 - 1, 0]
    assert moving.converted(np.array([300, -1], np.int32), "u8").tolist() == [44, 255]
    assert moving.converted(np.array([6.5e4, 1.0009765]), "f16").tolist() == [64992, 1.0009765625]
    assert moving.filled(np.zeros((2, 1)), 3.9, "i32").tolist() == [[3], [3]]


def test_permutation_and_its_gradient() -> None:
    x = RNG.standard_normal((2, 3, 4))
    assert moving.transposed(x, (2, 0, 1))[3, 1, 2] == x[1, 2, 3]
    assert moving.transposed(x, ()).shape == (4, 3, 2)
    for axes in ((2, 0, 1), (), (-1, 1, 0)):
        y = moving.transposed(x, axes)
        np.testing.assert_array_equal(moving.transposed_back(y, axes), x)


@pytest.mark.parametrize(
    ("starts", "sizes", "steps", "key"),
    [
        ((1, 2), (3, 2), (), np.s_[1:4, 2:4]),
        ((4, 0), (3, 2), (-2, 3), np.s_[4::-2, 0:4:3]),
        ((0, 5), (0, 1), (), np.s_[0:0, 5:6]),
    ],
)
def test_slices(starts: Any, sizes: Any, steps: Any, key: Any) -> None:
    x = RNG.standard_normal((5, 6))
    np.testing.assert_array_equal(moving.sliced_out(x, starts, sizes, steps), x[key])
    adjoint(
        lambda v: moving.sliced_out(v, starts, sizes, steps),
        lambda g, gy: moving.sliced_back(g, gy, starts, sizes, steps),
        x, sizes,
    )  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_and_scatter(axis: int) -> None:
    x = RNG.standard_normal((5, 4))
    index = RNG.integers(0, x.shape[axis], (5, 4))
    np.testing.assert_array_equal(
        moving.gathered(x, index, axis), np.take_along_axis(x, index, axis)
    )
    adjoint(
        lambda v: moving.gathered(v, index, axis),
        lambda g, gy: moving.scattered(g, index, gy, axis),
        x, index.shape,
    )  # fmt: skip
    ones = moving.scattered(np.zeros((5, 4)), index, np.ones((5, 4)), axis)
    assert ones.sum() == 20


def test_a_gather_may_be_smaller_on_other_axes() -> None:
    x = np.arange(12.0).reshape(3, 4)
    assert moving.gathered(x, np.array([[2, 2, 0]]), 0).tolist() == [[8, 9, 2]]


def test_embedding() -> None:
    w, idx = RNG.standard_normal((6, 3)), np.array([[1, 4, 1], [0, 4, 4]])
    assert moving.embedded(w, idx, 2.0)[1, 2].tolist() == (2 * w[4]).tolist()
    adjoint(
        lambda v: moving.embedded(v, idx, 0.5),
        lambda g, gy: moving.embedded_back(g, idx, gy, -1, False, 0.5),
        w, (2, 3, 3),
    )  # fmt: skip
    gy = np.ones((2, 3, 3))
    got = moving.embedded_back(np.zeros((6, 3)), idx, gy, 1, False, 1.0)
    assert got[:, 0].tolist() == [1, 0, 0, 0, 3, 0]  # row 1 is padding
    got = moving.embedded_back(np.zeros((6, 3)), idx, gy, -1, True, 3.0)
    assert got[:, 0].tolist() == [3, 3, 0, 0, 3, 0]  # each row's mean


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize(
    ("before", "after"), [((1, 2), (0, 3)), ((5, 0), (7, 9)), ((0, 0), (0, 0))]
)
def test_pad_and_its_gradient(mode: str, before: Any, after: Any) -> None:
    x = RNG.standard_normal((3, 4))
    adjoint(
        lambda v: moving.padded_out(v, before, after, mode, 0.0, "f64"),
        lambda g, gy: moving.padded_back(g, gy, before, after, mode),
        x, tuple(e + a + b for e, a, b in zip(x.shape, before, after, strict=True)),
    )  # fmt: skip


def test_pad_by_hand() -> None:
    x = np.array([1.0, 2.0, 3.0])
    assert moving.padded_out(x, (4,), (2,), "reflect", 0.0, "f32").tolist() == [
        1, 2, 3, 2, 1, 2, 3, 2, 1,
    ]  # fmt: skip
    assert moving.padded_out(x, (1,), (1,), "edge", 0.0, "f32").tolist() == [1, 1, 2, 3, 3]
    whole = moving.padded_out(np.array([5], np.int8), (1,), (1,), "constant", 300.7, "i8")
    assert whole.tolist() == [127, 5, 127]


def test_concatenation() -> None:
    parts = [RNG.standard_normal((2, n)) for n in (3, 0, 4)]
    whole = moving.joined_out(parts, 1)
    assert whole.shape == (2, 7)
    former = [RNG.standard_normal(p.shape) for p in parts]
    back = moving.joined_back(former, whole, 1)
    for f, b, p in zip(former, back, parts, strict=True):
        np.testing.assert_allclose(b, f + p)


def desc(*shape: int) -> Any:
    return desc_of(shape, "f32", device="cpu")


def test_views_of_buffers() -> None:
    x = desc(4, 5, 6)  # strides 30, 6, 1
    assert HOST["permuted"](x, (2, 0, 1)).strides == (1, 30, 6)
    assert HOST["permuted"](x, ()).shape == (6, 5, 4)
    turned = HOST["permuted"](x, (2, -3, 1))
    assert HOST["unpermuted"](turned, (2, -3, 1)) == x
    part = HOST["sliced"](x, (1, 4, 0), (2, 3, 6), (2, -1, 1))
    assert (part.shape, part.strides, part.offset) == ((2, 3, 6), (60, -6, 1), 30 + 24)
    assert HOST["narrowed"](x, (4, 2, 9), 2).strides == (30, 6, 0)
    assert HOST["dropped"](x, -2).strides == (30, 1)
    assert HOST["trailing"](x, 7).strides == (30, 6, 1, 0)
    assert HOST["leading"](x, (2, 3)).shape == (2, 3, 4, 5, 6)
    assert HOST["padded"]((3, 4), (1, 0), (2, 5)) == (6, 9)
    assert HOST["joined"]((desc(2, 3), desc(2, 1)), -1) == (2, 4)
    assert HOST["size"]((desc(2, 3), desc(2, 1))) == (6, 2)
    assert HOST["ceildiv"]((6, 2, 0), 4) == (2, 1, 0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("permuted", ((0, 1, 1),)),
        ("sliced", ((0, 0, 0), (5, 1, 1))),
        ("sliced", ((0, 0, 3), (1, 1, 3), (1, 1, -2))),
        ("sliced", ((0, 0), (1, 1))),
        ("sliced", ((0, 0, 0), (1, 1, 1), (1, 0, 1))),
        ("narrowed", ((5, 5, 6), 1)),
        ("dropped", (3,)),
    ],
)
def test_views_that_do_not_exist(name: str, arguments: Any) -> None:
    with pytest.raises((ValueError, InvalidArgumentError)):
        HOST[name](desc(4, 5, 6), *arguments)
