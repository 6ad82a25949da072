"""What derivatives say of arguments, results and functions that do not fit; one form a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ge2rt

W = np.arange(3, dtype=np.float32)


def _cubes(w: Any, v: Any) -> Any:
    return (w**3 * v).sum()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no return": (lambda: ge2rt.grad(lambda w: None)(W), "grad: the function returns None.*return"),
    "no return under vmap": (lambda: ge2rt.vmap(lambda w: None)(W), "vmap: the function returns"),
    "a name": (lambda: ge2rt.grad(_cubes, argnums="w"), "argnums=0"),  # type: ignore[arg-type]
    "no pair": (lambda: ge2rt.grad(lambda w: w.sum(), has_aux=True)(W), "returns a pair"),
    "no tuples": (lambda: ge2rt.jvp(np.sin, W, W), r"jvp\(f, \(x,\), \(t,\)\)"),
    "integers": (lambda: ge2rt.grad(_cubes)(W.astype(int), W), r"argument 'args\[0\]': grad: only"),
    "cotangent": (lambda: ge2rt.vjp(np.sin, W)[1](W.astype(np.float64)), "argument 'cotangents'"),
    "tangent": (
        lambda: ge2rt.jvp(np.sin, (W,), (W.astype(np.float64),)), r"argument 'tangents\[0\]'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, text = REFUSED[name]
    with pytest.raises(ValueError, match=text) as caught:
        call()
    assert "argument 'argument" not in str(caught.value)


def test_jacobian_and_hessian_take_argnums_as_grad_does() -> None:
    v = W + 1
    first = np.diag(2 * v), np.diag(2 * W)
    both = ge2rt.jacobian(lambda w, v: 2 * w * v, argnums=(0, 1))(W, v)
    for found, want in zip(both, first, strict=True):
        np.testing.assert_allclose(found, want)
    np.testing.assert_allclose(ge2rt.jacobian(lambda w, v: 2 * w * v, argnum=1)(W, v), first[1])
    np.testing.assert_allclose(ge2rt.hessian(_cubes, argnums=0)(W, v), np.diag(6 * W * v))
    rows = ge2rt.hessian(_cubes, argnums=(0, 1))(W, v)
    want = [[np.diag(6 * W * v), np.diag(3 * W**2)], [np.diag(3 * W**2), np.zeros((3, 3))]]
    for i in range(2):
        for j in range(2):
            np.testing.assert_allclose(rows[i][j], want[i][j])


def test_what_is_exchanged_on_the_function() -> None:
    def g(w: Any, k: float) -> Any:
        return (w * k).sum()

    def other(w: Any, k: float) -> Any:
        return (w * w * k).sum()

    ones = np.ones_like(W)
    np.testing.assert_array_equal(ge2rt.grad(g)(W, 3.0), 3 * ones)
    g.__code__ = other.__code__
    np.testing.assert_array_equal(ge2rt.grad(g)(W, 3.0), 6 * W)
    for gain in (5.0, 7.0):
        g.__defaults__ = (gain,)
        np.testing.assert_array_equal(ge2rt.grad(g)(W), 2 * gain * W)  # type: ignore[call-arg]


def test_what_a_default_holds() -> None:
    items = [2.0]

    def g(w: Any, m: Any = items) -> Any:
        return (w * m[0]).sum()

    for value in (2.0, 4.0):
        items[0] = value
        np.testing.assert_array_equal(ge2rt.grad(g)(W), value * np.ones_like(W))


def test_the_same_of_the_same_function_is_compiled_once() -> None:
    def f(w: Any) -> Any:
        return (w**2).sum()

    for _ in range(3):
        np.testing.assert_array_equal(ge2rt.grad(f)(W), 2 * W)
    assert ge2rt.grad(f).stats().traces == 1
    assert ge2rt.grad(f) is not ge2rt.grad(f, (0,))
    assert ge2rt.value_and_grad(f)(W)[0] == 5

    @functools.wraps(f)  # takes over what is kept with f, which is not its own
    def g(w: Any) -> Any:
        return 3 * f(w)

    np.testing.assert_array_equal(ge2rt.grad(g)(W), 6 * W)
    assert ge2rt.vmap(f) is ge2rt.vmap(f)
    assert ge2rt.vmap(f) is not ge2rt.vmap(f, 1)
