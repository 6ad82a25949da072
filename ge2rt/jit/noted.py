"""Values that a trace depended on, and whether they are still what they were."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ge2rt.jit.reflection import PLAIN

_BY_VALUE = (frozenset, slice, range)


@dataclass(frozen=True)
class Noted:
    """One value: how it is read again, its name, and what it was.

    ``fresh`` marks what is made anew by each reading: only its value counts.
    """

    name: str
    read: Callable[[], Any]
    value: Any
    fresh: bool = False

    def unchanged(self) -> bool:
        """Whether it is what it was."""
        try:
            now = self.read()
            if now is self.value:
                return True
            plain = self.fresh or isinstance(now, (*PLAIN, *_BY_VALUE))
            return plain and type(now) is type(self.value) and _same(now, self.value)
        except Exception:  # noqa: BLE001 - it cannot be read or compared any more
            return False


def _same(now: Any, then: Any) -> bool:
    if isinstance(now, (float, complex, np.generic)):
        return bool(now == then) and repr(now) == repr(then)  # 0.0 is not -0.0
    return bool(now == then)


@dataclass(frozen=True)
class Items(Noted):
    """The items of a container of plain values, all at once."""

    def unchanged(self) -> bool:
        """Whether they are what they were, each."""
        try:
            now = self.read()
            return len(now) == len(self.value) and (
                all(map(operator.is_, now, self.value))
                or all(type(a) is type(b) and _same(a, b)
                       for a, b in zip(now, self.value, strict=True))
            )  # fmt: skip
        except Exception:  # noqa: BLE001 - it cannot be read or compared any more
            return False


Layout: TypeAlias = tuple[str, Any, tuple[Any, ...]]  # name, array, what may be set in place


def layout_of(array: Any) -> tuple[Any, ...]:
    """What of an array may be set in place, besides its elements."""
    return array.shape, array.strides, array.dtype


@dataclass
class Captures:
    """All values that a function's code names."""

    noted: list[Noted] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)

    def changed(self) -> str:
        """Name of a value that is not what it was; empty if none."""
        for each in self.noted:
            if not each.unchanged():
                return each.name
        for name, held, layout in self.layouts:
            if layout_of(held) != layout:
                return f"{name}.shape"
        return ""

    def watch_layouts(self, inputs: Collection[Any]) -> None:
        """Note the shapes of arrays that the code can reach, but for the ``inputs`` of its graph.

        Those are compared as inputs are; of others it may have read the shape alone.
        """
        known = {id(array) for array in inputs}
        self.layouts = [
            (name, held, layout_of(held)) for name, held in self.arrays if id(held) not in known
        ]  # fmt: skip

    def drop_changed(self) -> None:
        """Forget what is not what it was: the function itself changes it, as a counter is."""
        self.noted = [each for each in self.noted if each.unchanged()]

    def renew(self) -> bool:
        """Note the objects that are there now, equal to those before; whether any is another."""
        now = [
            each if each.fresh else replace(each, value=each.read()) for each in self.noted
        ]  # fmt: skip
        differ = any(a.value is not b.value for a, b in zip(now, self.noted, strict=True))
        self.noted = now
        return differ

    @property
    def arrays(self) -> list[tuple[str, Any]]:
        """The arrays among them."""
        return [(n.name, n.value) for n in self.noted if isinstance(n.value, np.ndarray)]
