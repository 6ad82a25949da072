"""``ge2rt.ops.NAME(..., out=None)``: every operator of the table as a function of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ge2rt.tensors import ops


def __getattr__(name: str) -> Callable[..., Any]:
    made: Callable[..., Any] = getattr(ops, name)
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return dir(ops)
