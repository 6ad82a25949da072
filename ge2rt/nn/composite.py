"""Operators made of others: NumPy code that becomes one kernel or a few, eager and jitted."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ge2rt.jit.trees import flatten
from ge2rt.nn.precision import cast_for
from ge2rt.tensors import dispatch
from ge2rt.tensors.making import tensor
from ge2rt.tensors.operators import Operator
from ge2rt.tensors.outside import refuse_outside


def composite(
    *static: str, precision: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make an operator of a function that is written with NumPy's functions.

    ``static`` names the options that are compiled in. On tensors it is dispatched as any operator,
    and its gradient is that of its parts; on the symbols of a trace it is written down.
    ``precision`` is what an ``autocast`` block makes of it: ``half``, ``full`` or nothing.
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        op = Operator(function.__name__, "composite", function, signature, static,
                      f"ge2rt.nn.{function.__name__}")  # fmt: skip

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            bound = signature.bind(*args, **options)
            free = [n for n in bound.arguments if n not in static]
            arrays = cast_for(precision, [bound.arguments[n] for n in free])
            if refuse_outside(arrays):
                bound.arguments.update(zip(free, arrays, strict=True))
                return function(*bound.args, **bound.kwargs)
            arrays = [_listed(value) for value in arrays]
            named = {n: _plain(v) for n, v in bound.arguments.items() if n in static}
            return dispatch.call(op, arrays, named)

        call.operator = op  # type: ignore[attr-defined]
        return call

    return wrap


def _listed(value: Any) -> Any:
    """Lists of numbers as ``ge2rt.tensor`` takes them, f32; NumPy's f64 would carry all along."""
    if not isinstance(value, (list, tuple)):
        return value
    plain = all(isinstance(leaf, (int, float)) for leaf in flatten(value)[0])
    return tensor(value) if plain else value


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """One number for both axes, or one each."""
    if isinstance(value, int):
        return value, value
    first, second = value
    return int(first), int(second)
