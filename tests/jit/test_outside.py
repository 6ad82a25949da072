"""An index that is outside when the program runs: which, of how many, and on which line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.jit import functions as ge
from ge2rt.jit import jit
from ge2rt.run import outside

X = np.arange(12, dtype=np.float32).reshape(3, 4)
_HERE = __file__


def _told(call: Callable[[], Any]) -> tuple[str, Any]:
    """The text of the refusal, and its record."""
    for _ in range(2):  # by Python, then by native code
        with pytest.raises(ValueError, match="an index lies outside of its array") as found:
            call()
    return str(found.value), found.value.record  # type: ignore[attr-defined]


def _line(function: Any) -> int:
    return inspect.getsourcelines(function)[1]


@pytest.mark.parametrize(("given", "told"), [([0, 3], 3), ([-4, 1], -4), ([2, 99], 99)])
def test_the_line_the_index_and_the_extent(given: list[int], told: int) -> None:
    def pick(x: Any, i: Any) -> Any:
        y = x * 2
        return y[i].sum()

    f = jit(pick)
    assert f(X, np.array([-3, 2])) == pick(X, np.array([-3, 2]))
    text, record = _told(lambda: f(X, np.array(given)))
    assert text.startswith(f"[-1 INVALID] {_HERE}:{_line(pick) + 2}: pick: ")
    assert record.got == f"index {told}"
    assert record.expected == "-3 <= index < 3"
    assert f(X, np.array([-3, 2])) == pick(X, np.array([-3, 2]))  # the flag is down again


def test_an_index_that_is_computed_and_another_axis() -> None:
    def pick(x: Any, i: Any) -> Any:
        return np.take(x, i * 2 - 1, axis=1) + 1

    _, record = _told(lambda: jit(pick)(X, np.array([1, 3], np.int32)))
    assert (record.got, record.expected) == ("index 5", "-4 <= index < 4")


def test_of_several_the_one_that_is_outside() -> None:
    def pick(x: Any, i: Any, j: Any) -> Any:
        a = x[i]
        b = x[:, j]
        return a.sum() + b.sum()

    f = jit(pick)
    _, record = _told(lambda: f(X, np.array([1]), np.array([0, 4])))
    assert record.where == f"{_HERE}:{_line(pick) + 2}"
    assert record.got == "index 4"
    _, record = _told(lambda: f(X, np.array([7]), np.array([0])))
    assert record.where == f"{_HERE}:{_line(pick) + 1}"


def test_under_a_gradient() -> None:
    def pick(x: Any, i: Any) -> Any:
        return x[i].sum()

    _, record = _told(lambda: ge2rt.grad(pick)(X, np.array([3])))
    assert record.where == f"{_HERE}:{_line(pick) + 1}"
    assert (record.kernel, record.got) == ("pick", "index 3")


def test_a_function_of_the_library_names_the_line_that_calls() -> None:
    rows, wrong = np.array([0, 2]), np.array([0, 5])
    where = []
    for call in (
        lambda: ge.gather(X, rows),
        lambda: ge.gather(X, wrong),
        lambda: ge.gather(X, wrong + 1),
    ):
        try:
            call()
        except ValueError as fault:
            where.append((fault.record.where, _line(call)))  # type: ignore[attr-defined]
    assert where == [(f"{_HERE}:{line}", line) for _, line in where]
    assert len(where) == 2


def test_what_would_take_long_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "_MOST_ELEMENTS", 0)

    def pick(x: Any, i: Any) -> Any:
        return x[i] + 1

    _, record = _told(lambda: jit(pick)(X, np.array([3])))
    assert record.where == f"{_HERE}:{_line(pick) + 1}"
    assert (record.got, record.expected) == ("", "")
