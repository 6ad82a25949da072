"""The one table of what tracing covers: a NumPy function or ufunc, and its builder.

``@rule(np.sum)`` above a function enters it; the builder has NumPy's own signature, takes traced
and plain values, and gives traced ones. What is not in the table is a TypeError that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ge2rt.base.errors import Ge2rtError, InvalidTypeError
from ge2rt.jit.faults import not_covered
from ge2rt.jit.scope import where

Builder = TypeVar("Builder", bound=Callable[..., Any])

FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # NumPy function -> builder
UFUNCS: dict[str, Callable[..., Any]] = {}  # name of a ufunc -> builder of its plain call
METHODS: dict[tuple[str, str], Callable[..., Any]] = {}  # (method, ufunc) -> the function it is

# options that change nothing when they have these values
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "out": (None, (None,), (None, None)), "where": (True, np._NoValue), "subok": (True, False),
    "order": (None, "K", "C", "A"), "like": (None,), "device": (None, "cpu"),
    "casting": ("same_kind", "safe", "unsafe"), "kind": (None, "stable", "quicksort", "mergesort",
                                                       "heapsort"),
    "stable": (None, True, False), "optimize": (None, True, False, "greedy", "optimal"),
}  # fmt: skip

_HINTS = {
    "out": "assign the result instead: x = f(...)",
    "where": "write numpy.where(condition, f(x), x)",
    "order": "leave order out: results are row-major",
}


def rule(*functions: Any) -> Callable[[Builder], Builder]:
    """Enter the decorated builder for these NumPy functions; None (not there) is skipped."""

    def enter(builder: Builder) -> Builder:
        FUNCTIONS.update({function: builder for function in functions if function is not None})
        return builder

    return enter


def call_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``function(*args, **kwargs)`` builds."""
    builder = FUNCTIONS.get(function)
    name = _name(function)
    if builder is None:
        if isinstance(function, np.ufunc):
            return call_ufunc(function, "__call__", args, kwargs)
        raise not_covered(name, where())
    accepted = _accepted(builder)
    _refuse_out(name, accepted, args)
    options = _without_neutral(name, kwargs, keep=tuple(n for n in accepted if n != "out"))
    try:
        return builder(*args, **options)
    except TypeError as fault:
        if isinstance(fault, Ge2rtError) or fault.__traceback__ is None:
            raise
        if fault.__traceback__.tb_next is None:  # the call itself did not fit the builder
            raise not_covered(f"{name} with these arguments", where(), str(fault)) from None
        raise


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a ufunc's call or method builds."""
    name = ufunc.__name__
    if method != "__call__":
        function = METHODS.get((method, name))
        if function is None:
            raise not_covered(f"numpy.{name}.{method}", where())
        return function(*inputs, **_without_neutral(f"{name}.{method}", kwargs, keep=None))
    builder = UFUNCS.get(name)
    if builder is None:
        raise not_covered(f"numpy.{name}", where())
    options = _without_neutral(f"numpy.{name}", kwargs, keep=("dtype", "axis", "axes", "keepdims"))
    return builder(ufunc, *inputs, **options)


def _accepted(builder: Callable[..., Any]) -> tuple[str, ...]:
    code = builder.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _refuse_out(name: str, accepted: tuple[str, ...], args: tuple[Any, ...]) -> None:
    """An ``out`` that came by position."""
    place = accepted.index("out") if "out" in accepted else len(args)
    if place < len(args) and args[place] is not None:
        raise not_covered(f"{name}(out=...)", where(), next_step=_HINTS["out"])


def _without_neutral(
    name: str, kwargs: dict[str, Any], keep: tuple[str, ...] | None
) -> dict[str, Any]:
    """The options that matter; one that cannot be honoured is refused by name."""
    kept = {}
    for option, value in kwargs.items():
        if option in _NEUTRAL and (keep is None or option not in keep):
            if not any(value is neutral or _equal(value, neutral) for neutral in _NEUTRAL[option]):
                raise not_covered(
                    f"{name}({option}=...)", where(), next_step=_HINTS.get(option, "")
                )
            continue
        if keep is not None and option not in keep:
            raise not_covered(f"{name}({option}=...)", where())
        kept[option] = value
    return kept


def _equal(value: Any, neutral: Any) -> bool:
    return type(value) is type(neutral) and isinstance(value, (str, bool)) and value == neutral


def _name(function: Any) -> str:
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module}.{getattr(function, '__name__', function)}"


def refuse_type(value: Any) -> InvalidTypeError:
    """An operand that is neither an array nor a number."""
    return InvalidTypeError(
        "not an array or a number", got=type(value).__name__, where=where(),
        expected="an array, a Python or NumPy number, or a list of numbers",
        next_step="make it an array; an argument that is no data may be named in static=...",
    )  # fmt: skip
