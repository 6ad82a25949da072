"""Faults of operators on tensors are told with the line of the user's call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ge2rt
from ge2rt import ops
from ge2rt.base.errors import Ge2rtError

X, FIVE = ge2rt.ones(2, 3), ge2rt.ones(5)

FAULTS: dict[str, Callable[[], object]] = {
    "mark": lambda: X @ X,
    "shapes": lambda: X + FIVE,
    "method": lambda: X.sum(axis=5),
    "functional": lambda: ops.concat([X, FIVE]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_is_that_of_the_call(name: str) -> None:
    fault = FAULTS[name]
    with pytest.raises(Ge2rtError, match=rf"test_lines\.py:{fault.__code__.co_firstlineno}: "):
        fault()
