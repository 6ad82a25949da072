"""States of parameters by name, ``group.number.name``: read, and made of what was saved."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.text import show
from ge2rt.tensors.making import moved, zeros
from ge2rt.tensors.tape import no_grad
from ge2rt.tensors.tensor import Tensor

_LATE = frozenset({"momentum"})  # begins at the first step with one, whenever that is

Held: TypeAlias = dict[str, Tensor]  # the states of one parameter


class Saved:
    """A given state, compared with the parameters that it is for.

    ``of(prefix, parameter, names, needed)`` takes the part of each parameter, ``refuse()`` tells
    all that did not fit.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state = state
        self._left = dict.fromkeys(state)
        self._faults: list[str] = []

    def number(self, name: str) -> int:
        """A number of steps."""
        if name not in self._state:
            self._faults.append(f"missing: {name}")
            return 0
        self._left.pop(name)
        value = self._state[name]
        try:  # a 0-d array or tensor is one too
            found = operator.index(value)
        except TypeError:
            found = -1
        if found < 0:
            self._faults.append(f"{name}: {show(value)} is no number of steps")
        return found

    def of(
        self, prefix: str, parameter: Tensor, names: tuple[str, ...], needed: tuple[str, ...]
    ) -> Held:
        """The states of a parameter that are there, in memory of their own."""
        held: Held = {}
        for name in names:
            full = f"{prefix}.{name}"
            if full in self._state:
                self._left.pop(full)
                self._take(held, name, full, parameter)
            elif name in needed and name not in _LATE:
                self._faults.append(f"missing: {full}")
        return held

    def _take(self, held: Held, name: str, full: str, parameter: Tensor) -> None:
        given = moved(self._state[full], parameter.device)
        if given.shape != parameter.shape:
            self._faults.append(f"{full}: {given.shape} is not {parameter.shape}")
            return
        made = zeros(parameter.shape, dtype="f32", device=parameter.device)
        with no_grad():
            made.copy_(given)  # type: ignore[attr-defined]
        held[name] = made

    def refuse(self) -> None:
        """ValueError with all that is missing, unknown or of another shape."""
        faults = [*self._faults, *(f"unknown: {name}" for name in self._left)]
        if faults:
            raise InvalidArgumentError(
                "the state does not fit the optimiser", got=", ".join(faults[:8]),
                next_step="load the state of one with the same parameters",
            )  # fmt: skip


def numbered(groups: list[dict[str, Any]]) -> Iterator[tuple[str, Tensor, Mapping[str, Any]]]:
    """("group.number", parameter, its group) of all parameters."""
    for g, group in enumerate(groups):
        for n, parameter in enumerate(group["params"]):
            yield f"{g}.{n}", parameter, group
