"""Python integers as arguments: they have no bounds, whatever kernels compute with."""

from __future__ import annotations

import functools
import random
from numbers import Integral
from typing import Any

import numpy as np
import pytest

from ge2rt.jit import jit

X = np.arange(4, dtype=np.float32)
EDGE = [0, 1, -1, 3, -7, 63, 70, 2**12, 2**20 + 1, 2**31, -(2**31), 2**53 + 1, 2**62, 2**63 - 1,
        -(2**63), 2**63, 10**30]  # fmt: skip

FUNCTIONS: dict[str, Any] = {
    "add": lambda n: n + (2**63 - 1), "sub": lambda n: -n - 2**63, "product": lambda n: n * 10**18,
    "square": lambda n: n * n + n * n, "cube": lambda n: n**3, "power": lambda n: 7 ** abs(n % 50),
    "shift": lambda n: n << 62, "shifted": lambda n: 1 << (n & 127), "right": lambda n: n >> 3,
    "beyond": lambda n: n >> 70, "quotient": lambda n: n // -1, "remainder": lambda n: n % (2**62),
    "both": lambda n: divmod(n, -1), "absolute": lambda n: abs(n), "bits": lambda n: n ^ (2**62),
    "inverse": lambda n: ~n, "less": lambda n: n < 2**70, "equal": lambda n: n == 2**63 - 1,
    "large": lambda n: n + 10**19, "float": lambda n: n / 3,
    "ratio": lambda n: (n + 1) / (n * n + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_python(name: str) -> None:
    function = FUNCTIONS[name]
    compiled = jit(function)
    for n in EDGE:
        got, want = compiled(n), function(n)
        assert got == want, n
        if not isinstance(want, bool):
            assert type(got) is type(want)


def _random_expression(seed: int, terms: int) -> str:
    pick = random.Random(seed)
    numbers = [str(pick.randint(-9, 9) * 10 ** pick.choice((0, 3, 9))) for _ in range(terms)]
    parts = [pick.choice("nmk") if pick.random() < 0.7 else number for number in numbers]
    while len(parts) > 1:
        left, right = parts.pop(), parts.pop()
        shape = pick.choice(("({} + {})", "({} - {})", "({} * {})", "({} // ({} | 1))",
                             "({} % ({} | 1))", "({} & {})", "({} | {})", "({} ^ {})"))  # fmt: skip
        parts.insert(pick.randrange(len(parts) + 1), shape.format(left, right))
    return f"-{parts[0]}" if pick.random() < 0.3 else parts[0]


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions_of_integers(seed: int) -> None:
    pick = random.Random(seed)
    text = _random_expression(seed, pick.randint(2, 7))
    function = eval(f"lambda n, m, k: {text}")  # noqa: S307 - a text of this file
    compiled = jit(function)
    for bits in (3, 10, 19, 30, 33, 60, 62, 63, 64):
        values = [pick.randint(-(2**bits), 2**bits) for _ in range(3)]
        assert compiled(*values) == function(*values), (text, values)


def test_small_integers_share_a_form() -> None:
    compiled = jit(lambda x, n, m: x / (n * m * n + 1))
    for n, m in ((1, 2), (3, 4), (500, 600)):
        np.testing.assert_allclose(compiled(X, n, m), X / (n * m * n + 1), rtol=1e-6)
    assert compiled.stats().traces == 1


def test_in_place_forms_make_another_number() -> None:
    def count(x: Any, n: Any) -> Any:
        before = n
        n += 0.5
        n *= x
        return n, before

    got, before = jit(count)(X, 2)
    np.testing.assert_array_equal(got, 2.5 * X)
    assert got.dtype == np.float32
    assert before == 2
    assert type(before) is int


@functools.singledispatch
def _kind(value: Any) -> int:
    return 0


@_kind.register
def _(value: int) -> int:
    return 1


@_kind.register
def _(value: float) -> int:
    return 2


@pytest.mark.parametrize(
    "asked", [lambda n: isinstance(n, int), lambda n: isinstance(n, Integral), _kind]
)
@pytest.mark.parametrize("n", [3, 3.5])
def test_a_number_is_of_its_class(asked: Any, n: Any) -> None:
    compiled = jit(lambda x, n: x * (2 if asked(n) else 5) * asked(n))
    want = X * (2 if asked(n) else 5) * asked(n)
    np.testing.assert_array_equal(compiled(X, n), want)


def test_the_dtype_of_a_power_of_bools_depends_on_the_exponent() -> None:
    flags = np.array([True, False])
    compiled = jit(lambda flags, n: flags**n)
    for n in (0, 1, 2, 3):
        assert compiled(flags, n).dtype == (flags**n).dtype
        np.testing.assert_array_equal(compiled(flags, n), flags**n)
