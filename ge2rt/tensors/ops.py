"""The functional forms: ``ge2rt.ops.add(x, y, out=None)`` for every operator of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ge2rt.spec.suggest import did_you_mean
from ge2rt.tensors.methods import functional
from ge2rt.tensors.operators import table


def __getattr__(name: str) -> Callable[..., Any]:
    op = table().get(name)
    if op is None:
        raise AttributeError(f"no operator {name!r}. {did_you_mean(name, table())}")
    made = functional(op)
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return list(table())
