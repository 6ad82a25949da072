"""Types from above that jitted functions take: each says how a call with it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

# (function, args, kwargs) -> its result, in the type's own terms
Adapter: TypeAlias = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]

ADAPTERS: dict[type, Adapter] = {}


def adapt(kind: type) -> Callable[[Adapter], Adapter]:
    """Have calls with leaves of this type made by the decorated function."""

    def enter(adapter: Adapter) -> Adapter:
        ADAPTERS[kind] = adapter
        return adapter

    return enter


def adapter_of(leaves: list[Any]) -> Adapter | None:
    """The adapter for a call with these leaves, if one of them needs any."""
    for leaf in leaves:
        for kind, adapter in ADAPTERS.items():
            if isinstance(leaf, kind):
                return adapter
    return None
