"""NumPy's scalars and Python's numbers in a function: names get new ones, nothing is changed."""

from __future__ import annotations

import copy
import math
import statistics
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.jit import jit

V = np.array([1.0, 2.0, 3.0])
X = np.arange(1, 5, dtype=np.float32)
BYTES = np.arange(4, dtype=np.int8)
LONG = np.zeros(2, np.uint64)


def running(v: Any) -> Any:
    total, seen = 0.0, []
    for i in range(3):
        total += v[i]
        seen.append(total)
    return np.stack(seen)


def kept_aside(v: Any) -> Any:
    t = v.sum()
    before = t
    t += 1.0
    return t * before


def wider(v: Any) -> Any:
    t = v.sum()
    t += np.float64(0.1)
    return t


def becomes_an_array(v: Any) -> Any:
    t = v.sum()
    t += v
    return t


def exchanged(v: Any) -> Any:
    a = v[0]
    v[0] = v[1]
    v[1] = a
    return v * 2


def an_element(v: Any) -> Any:
    a = v[0]
    a += 5
    return v * a


def elements_in_place(v: Any) -> Any:
    v[0] += 5
    v[1] *= v[0]
    return v + 0


def roots(v: Any) -> Any:
    m = v.mean()
    a = m
    a -= 1
    b = np.sqrt(m)
    b *= 2
    return a + b + m


def flattened(v: Any) -> Any:
    y = v.flatten()
    y += 1
    return v * y


def not_copied(v: Any) -> Any:
    y = v.astype(v.dtype, copy=False)
    y += 1
    return v * 1


@pytest.mark.parametrize(
    "f",
    [running, kept_aside, wider, becomes_an_array, exchanged, an_element, elements_in_place, roots,
     flattened, not_copied],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scalars_are_not_changed_in_place(f: Callable[[Any], Any], dtype: Any) -> None:
    given, wanted = V.astype(dtype), V.astype(dtype)
    got, want = jit(f)(given), f(wanted)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_array_equal(given, wanted)


def test_the_gradient_of_what_was_kept_aside() -> None:
    got = jit(ge2rt.grad(kept_aside))(np.ones(2))  # d/dx of (s + 1) * s with s = 2
    np.testing.assert_array_equal(got, [5.0, 5.0])


def test_a_scalar_argument_is_not_an_array_without_axes() -> None:
    def f(s: Any, x: Any) -> Any:
        before = s
        s += 1
        return s * x + before

    compiled = jit(f)
    for value in (3, 4):
        np.testing.assert_array_equal(compiled(np.float32(value), X), f(np.float32(value), X))
    assert compiled.stats().traces == 1
    box = np.array(3.0, np.float32)
    np.testing.assert_array_equal(compiled(box, X), 4 * X + 4)
    assert box == 4


NUMBERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "bool and int": (lambda n: n + True, (2**63 - 1,)),
    "bytes, bool": (lambda x, n: x * (n + True), (BYTES, 3)),
    "bytes, flag": (lambda x, n, f: x * (n * f), (BYTES, 3, True)),
    "floats, flag": (lambda x, n, f: x * (n * f), (X, 3.5, True)),
    "sum of truths": (lambda n, m: (n > 2) + (m > 1), (3, 4)),
    "inverted": (lambda n: ~(n > 2), (3,)), "negated": (lambda n: -(n > 2), (3,)),
    "difference": (lambda n, m: (n > 2) - (m > 1), (3, 4)),
    "bytes, truth": (lambda x, n: x * ((n > 2) + 1), (BYTES, 3)),
    "floats, truth": (lambda x, n: x * ((n > 2) * 2.5), (X, 3)),
    "truth": (lambda n: n > 2, (3,)), "both": (lambda n: (n > 2) & (n < 9), (3,)),
    "of class bool": (lambda n: isinstance(n > 2, bool), (3,)),
    "mask of bytes": (lambda x, n: x * (n > 2), (BYTES, 3)),
    "bits": (lambda n: (n > 2) | 4, (3,)), "equal": (lambda n: (n > 2) == 1, (3,)),
    "exact comparison": (lambda n, f: n == f, (2**53 + 1, 2.0**53)),
    "exact quotient": (lambda n: (n * 3) / 7, (2**55 + 1,)),
    "copied": (lambda x, n: x * copy.copy(n), (X, 2.5)),
    "deeply": (lambda x, n: x * copy.deepcopy(n), (BYTES, 2)),
    "conjugate": (lambda x, n: x * n.conjugate(), (BYTES, 2)),
    "repr": (lambda n: {"3": 1}.get(repr(n), -1), (3,)),
    "f-string": (lambda n: {"3": 1}.get(f"{n!r}", -1), (3,)),
    "isinstance": (lambda x: x * 2 if isinstance(x, np.ndarray) else x, (X,)),
    "scalar": (lambda x: x * 2 if isinstance(x.sum(), np.floating) else x, (X,)),
    "rounded once": (lambda x, n: x + n, (X * 0, 2**54 + 2**30 + 1)),
    "u64": (lambda x, n: x + n, (LONG, 2**63)), "u64 less": (lambda x, n: x < n, (LONG, 2**63)),
    "u64 where": (lambda x, n: np.where(x > 0, x, n), (LONG, 2**63)),
    "bit_length": (lambda n: n.bit_length(), (37,)), "whole": (lambda f: f.is_integer(), (3.0,)),
    "trunc": (lambda f: math.trunc(f), (3.7,)), "complex": (lambda n: n * 1j, (3,)),
    "fraction": (lambda n: n * Fraction(1, 3), (3,)), "imag": (lambda n: n.imag, (3,)),
    "mean": (lambda n, m: statistics.mean([n, m]), (3, 5)),
    "slice": (lambda x, s: x[s], (X, slice(1, 3))), "range": (lambda x: x[range(2)], (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_python(name: str) -> None:
    function, args = NUMBERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ~True is deprecated
        got, want = jit(function)(*args), function(*args)
    assert getattr(got, "dtype", type(got)) == getattr(want, "dtype", type(want))
    np.testing.assert_array_equal(got, want)


def test_a_bare_except_does_not_hide_that_a_value_was_asked_for() -> None:
    def f(x: Any, n: int) -> Any:
        try:
            return x * 2 if n > 2 else x
        except:  # noqa: E722 - as people write it
            return x * 100

    np.testing.assert_array_equal(jit(f)(X, 5), X * 2)


def test_small_results_of_integers_share_a_form() -> None:
    whole = np.arange(4, dtype=np.int32)
    for function in (lambda x, n: x + (n + 1), lambda x, n: np.clip(x, -n, n)):
        compiled = jit(function)
        for n in range(20):
            np.testing.assert_array_equal(compiled(whole, n), function(whole, n))
        assert compiled.stats().traces == 1


def test_the_order_of_a_dict_and_of_keywords_counts() -> None:
    a, b = np.zeros(2, np.float32), np.ones(2, np.float32)
    joined = jit(lambda d: np.concatenate(list(d.values())))
    for given in ({"b": b, "a": a}, {"a": a, "b": b}, {"b": b, "a": a}):
        for _ in range(2):
            np.testing.assert_array_equal(joined(given), np.concatenate(list(given.values())))
    named = jit(lambda **d: np.concatenate(list(d.values())))
    for given in ({"b": b, "a": a}, {"a": a, "b": b}, {"b": b, "a": a}):
        for _ in range(2):
            np.testing.assert_array_equal(named(**given), np.concatenate(list(given.values())))


@pytest.mark.parametrize("f", [np.mean, np.var, np.std])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_means_and_variances_of_what_a_mask_holds(f: Any, axis: int | None) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5))
    each = x > -2
    each[1, 2] = False
    for mask in (each, np.array([[True], [True], [True]])):
        for keepdims in (False, True):
            got = jit(lambda x, m: f(x, axis=axis, where=m, keepdims=keepdims))(x, mask)  # noqa: B023
            want = f(x, axis=axis, where=mask, keepdims=keepdims)
            np.testing.assert_allclose(got, want, rtol=1e-12)
