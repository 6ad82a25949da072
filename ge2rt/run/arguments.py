"""Checks of the arguments that the Python faces share: names, tunables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ge2rt.base.errors import InvalidTypeError
from ge2rt.base.text import show


def names_of(value: Any, argument: str) -> tuple[str, ...]:
    """Kernel names as a tuple; one string is one name, None is none."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (str(value),)
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise _wrong(argument, "kernel names", value)
    names = tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise _wrong(argument, "kernel names", name)
    return names


def tunables_of(value: Any) -> dict[str, int] | None:
    """Tunables as a dict of their own, so that later changes of the caller's do not matter."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise _wrong("tunables", "a dict of names and whole numbers", value)
    for name, number in value.items():
        if not isinstance(name, str):
            raise _wrong("tunables", "names as keys", name)
        if isinstance(number, bool) or not isinstance(number, int):
            raise _wrong(name, "a whole number", number)
    return dict(value)


def _wrong(argument: str, expected: str, got: Any) -> InvalidTypeError:
    return InvalidTypeError(
        "the value cannot be used", argument=argument, expected=expected, got=show(got)
    )
