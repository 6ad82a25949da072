"""What is said of code that cannot be traced, and of calls that do not fit: line and way out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.jit import JitFunction, jit
from ge2rt.jit.backend import build_reference

X = np.ones((2, 3), np.float32)


def traced(function: Callable[..., Any]) -> JitFunction:
    return JitFunction(function, build=build_reference)


WAYS_OUT: dict[str, tuple[Callable[[Any], Any], str]] = {
    "float": (lambda x: float(x.mean()), "outside of this function"),
    "math": (lambda x: math.exp(x.mean()), "numpy.exp"),
    "item": (lambda x: x.mean().item(), "outside of this function"),
    "tolist": (lambda x: x.tolist(), "outside of this function"),
    "round": (lambda x: round(x.mean()), "numpy.round"),
    "format": (lambda x: f"{x.mean():.3f}", "outside of this function"),
    "if": (lambda x: x if x.sum() > 0 else -x, "numpy.where"),
    "contains": (lambda x: 3 in x, r"\(x == value\).any\(\)"),
    "and": (lambda x: x & 1, r"float32, int\. it works on the bits .*astype\(numpy.int64\)"),
    "invert": (lambda x: ~x, "bits of integers"),
}


@pytest.mark.parametrize("name", WAYS_OUT)
def test_the_advice_fits(name: str) -> None:
    program, text = WAYS_OUT[name]
    with pytest.raises(TypeError, match=text) as caught:
        traced(program)(X)
    assert __file__ in str(caught.value)
    if name != "if":
        assert "numpy.where" not in str(caught.value)


def test_under_a_gradient_nothing_is_said_of_jit() -> None:
    with pytest.raises(TypeError, match="control flow") as caught:
        ge2rt.grad(lambda x: x.sum() if x.sum() > 0 else x.mean())(X)
    assert "jit" not in str(caught.value).partition(": bool()")[2]


def test_a_python_number_in_a_text_is_known() -> None:
    weights = {"layer1": 2.0, "layer2": 5.0}
    f = traced(lambda x, n: x * weights[f"layer{n}"])
    for n in (1, 2):
        np.testing.assert_array_equal(f(X, n), X * weights[f"layer{n}"])


def _assigned(index: Any) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        y = np.zeros(2, np.float32)
        y[index] = x.sum(axis=1)[index]
        return y

    return program


@pytest.mark.parametrize("index", [slice(None), 0])
def test_an_array_of_numpys_that_is_assigned_to(index: Any) -> None:
    with pytest.raises(TypeError, match=r"numpy.zeros\(shape, like=x\)") as caught:
        traced(_assigned(index))(X)
    assert f"{__file__}:" in str(caught.value)


def test_lists_are_containers() -> None:
    with pytest.raises(TypeError, match=r"'list' and 'list'.*numpy.array\(x\)") as caught:
        traced(lambda a, b: a @ b)([1, 2], [3, 4])
    assert __file__ in str(caught.value)


def test_a_call_that_does_not_fit_names_the_function() -> None:
    def scaled(x: Any, n: int) -> Any:
        return x * n

    for args, kwargs in (((X,), {}), ((X, 1), {"rate": 2}), ((X, 1, 2), {})):
        with pytest.raises(TypeError, match=r"^\[-1 INVALID\] scaled: .*scaled\(x"):
            jit(scaled)(*args, **kwargs)


def test_names_of_other_libraries() -> None:
    with pytest.raises(TypeError, match=r'static=\("n",\)'):
        jit(lambda x, n: x, static_argnums=(1,))  # type: ignore[call-overload]
    with pytest.raises(AttributeError, match=r"f.compile\(\*args\).report"):
        jit(lambda x: x).report  # type: ignore[attr-defined] # noqa: B018
    with pytest.raises(AttributeError, match=r"'bogus'$"):
        jit(lambda x: x).bogus  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.parametrize("k", [-2, 0, 3])
def test_python_integers_to_negative_powers(k: int) -> None:
    f = traced(lambda x, n, k: x * n**k)
    np.testing.assert_allclose(f(X, 2, k), X * 2**k)
    np.testing.assert_allclose(traced(lambda x, k: x * 2**k)(X, k), X * 2**k)
    whole = traced(lambda x, k: x**k)
    given = np.array([2, 3])
    if k < 0:
        with pytest.raises(ValueError, match="negative"):
            given**k
        with pytest.raises(ValueError, match="negative"):
            whole(given, k)
    else:
        np.testing.assert_array_equal(whole(given, k), given**k)


def test_a_known_power_does_not_ask_for_the_number() -> None:
    f = traced(lambda x, n: x * n**2)
    for n in (2, 3, 4):
        np.testing.assert_array_equal(f(X, n), X * n**2)
    assert f.stats().traces == 1


def test_a_median_of_nothing() -> None:
    with pytest.raises(ValueError, match=r"no elements.*axis of 0"):
        traced(lambda x: np.median(x, axis=0))(X[:0])


@pytest.mark.parametrize(
    ("dynamic", "message"),
    [
        ({"x": {5: "b"}}, r"'x': dynamic names an axis that x does not have.*-2 <= .*got 5"),
        ({"x": {-3: "b"}}, r"expected -2 <= axis < 2, got -3"),
        ({"y": {0: "b"}}, r"dynamic names no parameter, or no axes.*got \{'y': "),
    ],
)
def test_dynamic_names_axes_that_there_are(dynamic: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jit(lambda x: x + 1, dynamic=dynamic)(np.ones((2, 2), np.float32))


def test_an_order_of_fields_is_refused() -> None:
    with pytest.raises(TypeError, match=r"numpy\.sort\(order=\.\.\.\).*no fields"):
        jit(lambda x: np.sort(x, order="a"))(np.ones(3, np.float32))
