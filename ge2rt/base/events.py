"""Counters and listeners: what happened in this process (compiles, cache hits, launches...)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ge2rt.base.locks import ForkLock

Listener = Callable[[str, dict[str, Any]], None]

_lock = ForkLock()
_counts: Counter[str] = Counter()
_listeners: list[Listener] = []


def emit(name: str, **details: Any) -> None:
    """Count the event and tell the listeners. Never used on the path of a repeated launch."""
    with _lock:
        _counts[name] += 1
        listeners = tuple(_listeners)
    for listener in listeners:
        listener(name, details)


def counts() -> dict[str, int]:
    """How often each event happened since the start or :func:`clear`."""
    with _lock:
        return dict(_counts)


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call ``listener(name, details)`` at each event; returns the function that ends it."""
    with _lock:
        _listeners.append(listener)

    def unsubscribe() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return unsubscribe


def clear() -> None:
    """Forget the counts."""
    with _lock:
        _counts.clear()
