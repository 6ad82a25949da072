"""Operators made of others: NumPy code that becomes one kernel or a few, eager and jitted."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ge2rt.jit.derive.symbols import is_traced
from ge2rt.tensors import dispatch
from ge2rt.tensors.operators import Operator


def composite(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make an operator of a function that is written with NumPy's functions.

    ``static`` names the options that are compiled in. On tensors it is dispatched as any operator,
    and its gradient is that of its parts; on the symbols of a trace it is written down.
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        op = Operator(function.__name__, "composite", function, signature, static,
                      f"ge2rt.nn.{function.__name__}")  # fmt: skip

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if is_traced(*args, *options.values()):
                return function(*args, **options)
            bound = signature.bind(*args, **options)
            arrays = [v for n, v in bound.arguments.items() if n not in static]
            named = {n: _plain(v) for n, v in bound.arguments.items() if n in static}
            return dispatch.call(op, arrays, named)

        call.operator = op  # type: ignore[attr-defined]
        return call

    return wrap


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """One number for both axes, or one each."""
    if isinstance(value, int):
        return value, value
    first, second = value
    return int(first), int(second)
