"""The helper functions: NumPy arrays, traced arrays, and what they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ge2rt.jit import JitFunction, jit
from ge2rt.jit import functions as ge
from ge2rt.jit.backend import build_reference

X = np.linspace(-4, 4, 24, dtype=np.float32).reshape(4, 6)


def _softmax(x: Any, axis: Any = -1) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


_erf = np.vectorize(math.erf)

MEANING: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "erf": (ge.erf, _erf), "sigmoid": (ge.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "relu": (ge.relu, lambda x: np.maximum(x, 0)),
    "silu": (ge.silu, lambda x: x / (1 + np.exp(-x))),
    "gelu": (ge.gelu, lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi)
                                                        * (x + 0.044715 * x**3)))),
    "gelu erf": (lambda x: ge.gelu(x, "none"), lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2)))),
    "softmax": (ge.softmax, _softmax), "softmax 0": (lambda x: ge.softmax(x, axis=0),
                                                     lambda x: _softmax(x, 0)),
    "log_softmax": (ge.log_softmax, lambda x: np.log(_softmax(x))),
    "logsumexp": (lambda x: ge.logsumexp(x, axis=1), lambda x: np.log(np.exp(x).sum(1))),
    "logsumexp all": (lambda x: ge.logsumexp(x, keepdims=True),
                      lambda x: np.log(np.exp(x).sum(keepdims=True))),
    "rsqrt": (lambda x: ge.rsqrt(abs(x) + 1), lambda x: 1 / np.sqrt(abs(x) + 1)),
    "exp": (ge.exp, np.exp), "log": (lambda x: ge.log(abs(x)), lambda x: np.log(abs(x))),
    "sqrt": (lambda x: ge.sqrt(abs(x)), lambda x: np.sqrt(abs(x))), "tanh": (ge.tanh, np.tanh),
    "where": (lambda x: ge.where(x > 0, x, 0), lambda x: np.where(x > 0, x, 0)),
    "take": (lambda x: ge.take(x, [0, -1], axis=1), lambda x: x[:, [0, -1]]),
    "gather": (lambda x: ge.gather(x, [[0, 1]], axis=1), lambda x: x[:, [[0, 1]]]),
    "einsum": (lambda x: ge.einsum("ij,kj->ik", x, x), lambda x: x @ x.T),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANING)
def test_traced(name: str) -> None:
    ours, meaning = MEANING[name]
    got = JitFunction(ours, build=build_reference)(X)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, meaning(X), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["gelu", "softmax", "logsumexp", "exp", "take", "gather"])
def test_on_plain_arrays(name: str) -> None:
    ours, meaning = MEANING[name]
    np.testing.assert_allclose(ours(X), meaning(X), rtol=2e-5, atol=2e-5)


def test_numpys_own_stay_numpys_own() -> None:
    assert (ge.exp(X) == np.exp(X)).all()
    assert ge.sqrt(4) == 2
    assert isinstance(ge.tanh(np.float32(1)), np.float32)


def test_topk() -> None:
    x = np.array([[3, 1, 3, 2], [0, 0, 5, 0]], np.float32)
    for call in (lambda a: ge.topk(a, 3), jit(lambda a: ge.topk(a, 3))):
        values, places = call(x)
        np.testing.assert_array_equal(values, [[3, 3, 2], [5, 0, 0]])
        np.testing.assert_array_equal(places, [[0, 2, 3], [2, 0, 1]])
    values, places = ge.topk(x, 1, axis=0)
    np.testing.assert_array_equal(values, [[3, 1, 5, 2]])


def test_integers_become_doubles() -> None:
    assert ge.sigmoid(np.array([0, 1])).dtype == np.float64


def test_gather_outside() -> None:
    with pytest.raises(ValueError, match="outside"):
        ge.gather(X, np.array([4]))
    with pytest.raises(ValueError, match="outside"):
        ge.gather(X, np.array([-7]), axis=1)


def test_outside_of_a_trace_nothing_is_traced() -> None:
    assert ge.where(True, 1, 2) == 1
    f = JitFunction(lambda x: ge.gelu(X) + x, build=build_reference)  # of a captured array
    np.testing.assert_allclose(f(X), ge.gelu(X) + X, rtol=1e-5, atol=1e-6)
