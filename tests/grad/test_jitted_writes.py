"""Jitted functions that write to tensors they are given, while derivatives are recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError

X = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)


@ge2rt.jit
def tripled(a: Any) -> None:
    a *= 3


@ge2rt.jit
def twice_of(a: Any, b: Any) -> None:
    a[:] = b * 2


def refused(function: Any, *args: Any, **named: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="return the new value"):
        function(*args, **named)


def of_recorded() -> ge2rt.Tensor:
    return ge2rt.tensor(X, requires_grad=True)


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x,
        lambda x: x * 2,
        lambda x: (x * 2)[1],
        lambda x: x[1],
        lambda x: x.T,
    ],
    ids=["leaf", "computed", "view", "view of a leaf", "turned leaf"],
)
def test_a_write_to_what_is_recorded_is_refused_before_it_is_made(made: Any) -> None:
    y = made(of_recorded())
    before = y.detach().clone().numpy()
    for _ in range(2):  # compiled by the first call
        refused(tripled, y)
        np.testing.assert_array_equal(y.detach().numpy(), before)


def test_a_view_made_without_a_record_writes_to_its_base() -> None:
    y = of_recorded() * 2
    with ge2rt.no_grad():
        part = y[0]
    refused(tripled, part)
    np.testing.assert_array_equal(y.detach().numpy(), X * 2)


def test_a_write_of_what_is_recorded_to_what_is_not_is_refused() -> None:
    y = ge2rt.zeros(3, 4)
    refused(twice_of, y, of_recorded())
    refused(twice_of, a=y, b=of_recorded())
    np.testing.assert_array_equal(y.numpy(), np.zeros((3, 4), np.float32))


def test_an_array_is_not_written_beside_what_is_recorded() -> None:
    y = np.zeros((3, 4), np.float32)
    refused(twice_of, y, of_recorded())
    np.testing.assert_array_equal(y, 0)


@pytest.mark.parametrize("form", [lambda w: w.detach(), lambda w: w.detach()[:1]])
def test_a_write_beside_the_record_is_seen_on_the_way_back(form: Any) -> None:
    w = ge2rt.tensor([1.0, 2.0], requires_grad=True)
    z = (w * w).sum()
    tripled(form(w))
    with pytest.raises(InvalidArgumentError, match="changed in place"):
        z.backward()


def test_without_a_record_the_write_is_made_and_counted() -> None:
    w = of_recorded()
    with ge2rt.no_grad():
        tripled(w)
    np.testing.assert_array_equal(w.detach().numpy(), X * 3)
    assert w.storage().version == 1
    plain = ge2rt.tensor(X)
    twice_of(plain, ge2rt.tensor(X))
    np.testing.assert_array_equal(plain.numpy(), X * 2)
    assert plain.storage().version == 1


def test_what_is_only_read_keeps_its_version_and_its_gradient() -> None:
    @ge2rt.jit
    def f(a: Any, b: Any) -> Any:
        a = a * 1
        a += b
        return a * a

    a, b = of_recorded(), ge2rt.tensor(X)
    f(a, b).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 4 * X, rtol=1e-6)
    assert (a.storage().version, b.storage().version) == (0, 0)


def test_a_view_from_before_its_base_was_recorded_is_no_constant() -> None:
    w = ge2rt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = ge2rt.zeros(3)
    early = y[0:2]
    y += w
    square = ge2rt.jit(lambda a: a * a)
    square(early).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2, 4, 0])
