"""relu: its value and PyTorch's derivative, 0 at 0 and passed on at NaN; fused into a product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
import ge2rt.nn.functional as F
from ge2rt import nn

X = np.array([-2.0, -0.0, 0.0, 3.0, np.nan, np.inf, -np.inf], np.float32)
SLOPES = np.array([0, 0, 0, 1, 1, 1, 0], np.float32)  # x <= 0 ? 0 : g

FORMS: dict[str, Any] = {
    "functional": F.relu, "module": nn.ReLU(), "named": nn.Activation("relu"),
    "operator": ge2rt.ops.relu, "method": lambda x: x.relu(), "jitted": ge2rt.jit(ge2rt.relu),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_the_derivative_at_zero_is_zero(name: str) -> None:
    x = ge2rt.tensor(X, requires_grad=True)
    y = FORMS[name](x)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), SLOPES)
    np.testing.assert_array_equal(y.detach().numpy(), np.maximum(X, 0))
    assert not np.signbit(y.detach().numpy()[:4]).any()


def test_the_derivative_of_a_function_and_its_direction_is_zero_too() -> None:
    np.testing.assert_array_equal(ge2rt.grad(lambda x: ge2rt.relu(x).sum())(X), SLOPES)
    _, along = ge2rt.jvp(ge2rt.relu, (X,), (np.ones_like(X),))
    np.testing.assert_array_equal(along, SLOPES)


def test_a_maximum_written_out_shares_its_derivative_at_a_tie() -> None:
    slopes = ge2rt.grad(lambda x: np.maximum(x, 0).sum())(np.zeros(2, np.float32))
    np.testing.assert_array_equal(slopes, [0.5, 0.5])


@pytest.mark.parametrize("dtype", ["i1", "i8", "u1", "u8", "?"])
def test_integers_are_those_of_numpy(dtype: str) -> None:
    x = np.array([0, 1, 1, 0]).astype(dtype)
    got, want = ge2rt.relu(x), np.maximum(x, 0)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_it_is_part_of_the_product_before_it() -> None:
    a, b, bias = (np.ones(s, np.float32) for s in ((8, 16), (16, 4), (4,)))
    made = ge2rt.jit(lambda a, b, bias: ge2rt.relu(a @ b + bias)).compile(a, b, bias)
    (step,) = made.built.program.steps
    assert "act='relu'" in str(made.stages["optimised"]), step
