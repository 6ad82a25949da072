"""Locks that a forked child finds free, and work that a fork waits for.

A child of ``fork`` has the forking thread only: a lock that another thread held would stay locked
for ever, and a library that was in the middle of something stays in the middle of it.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from weakref import WeakSet

_PATIENCE_SECONDS = 60.0


class ForkLock:
    """A mutual exclusion lock, as a context manager; ``reentrant`` for the thread that holds it."""

    def __init__(self, *, reentrant: bool = False) -> None:
        self._make = threading.RLock if reentrant else threading.Lock
        self._lock = self._make()
        _locks.add(self)

    def after_fork(self) -> None:
        """In the child: whoever held it is not here."""
        self._lock = self._make()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._lock.release()


class ForkGate:
    """Work of foreign libraries that must not be cut by a fork: ``with gate: ...``."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._held: list[AbstractContextManager[object]] = []

    def hold(self, lock: AbstractContextManager[object]) -> None:
        """Take a foreign library's own lock over each fork, after the gate is closed."""
        self._held.append(lock)

    def __enter__(self) -> None:
        with self._changed:
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Wait until nobody is inside, but not for ever, and let nobody in."""
        self._changed.acquire()
        self._changed.wait_for(lambda: self._inside == 0, _PATIENCE_SECONDS)
        for lock in self._held:
            lock.__enter__()

    def open(self) -> None:
        """Let others in again."""
        self._release()
        self._changed.release()

    def after_fork(self) -> None:
        """In the child: nobody is inside."""
        self._release()
        self._changed = threading.Condition()
        self._inside = 0

    def _release(self) -> None:
        for lock in reversed(self._held):
            lock.__exit__(None, None, None)


_locks: WeakSet[ForkLock] = WeakSet()
compilers = ForkGate()  # NVRTC and LLVM


def _after_in_child() -> None:
    for lock in tuple(_locks):
        lock.after_fork()
    compilers.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=compilers.close, after_in_parent=compilers.open, after_in_child=_after_in_child
    )
