"""The API version of the contract, and how clients compare theirs with it."""

from __future__ import annotations

import warnings
from typing import Any

from ge2rt.base.errors import VersionError
from ge2rt.base.text import show

GE2_API_VERSION = 1
_CLIENT_NAMES = ("GE2_API_VERSION", "ge_v2_api_version")


def check_api_version(expected: int, strict: bool = False) -> bool:
    """Whether ``expected`` is this library's API version.

    A mismatch warns (RuntimeWarning); with ``strict`` it raises :class:`VersionError`.
    """
    return _compare(expected, "the caller", strict)


def check_client(module: Any, strict: bool = False) -> bool:
    """Like :func:`check_api_version` for a client module that states its own version.

    The version is read from ``GE2_API_VERSION`` or ``ge_v2_api_version`` (a value or a function).
    """
    name = getattr(module, "__name__", type(module).__name__)
    for attribute in _CLIENT_NAMES:
        value = getattr(module, attribute, None)
        if value is not None:
            return _compare(value() if callable(value) else value, f"module {name}", strict)
    return _differ(f"module {name} states no API version", "none", strict)


def _compare(value: Any, who: str, strict: bool) -> bool:
    if isinstance(value, int) and not isinstance(value, bool) and value == GE2_API_VERSION:
        return True
    return _differ(f"{who} was written for another API version", show(value), strict)


def _differ(message: str, got: str, strict: bool) -> bool:
    fault = VersionError(
        message, expected=f"GE2_API_VERSION {GE2_API_VERSION}", got=got,
        next_step="install the version the client was written for",
    )  # fmt: skip
    if strict:
        raise fault
    warnings.warn(str(fault), RuntimeWarning, stacklevel=4)
    return False
