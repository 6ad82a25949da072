"""One build a key at a time, over all threads; failures are remembered and fail the same way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from weakref import WeakSet

from ge2rt.base.errors import CompileError
from ge2rt.build.records import Binary

_all: WeakSet[Flights] = WeakSet()


def _after_fork() -> None:
    for flights in tuple(_all):
        flights.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Flights:
    """Finished builds, failed builds, and builds under way, by digest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: dict[str, Binary] = {}
        self._failed: dict[str, CompileError] = {}
        self._flying: dict[str, threading.Event] = {}

        _all.add(self)

    def after_fork(self) -> None:
        """In the child, the threads that were building or held the lock are gone."""
        self._lock = threading.Lock()
        self._flying = {}

    def clear(self) -> None:
        """Forget everything finished."""
        with self._lock:
            self._done.clear()
            self._failed.clear()

    def find(self, digest: str) -> Binary | None:
        """The finished build."""
        return self._done.get(digest)

    def run(self, digest: str, build: Callable[[], Binary]) -> tuple[Binary, bool]:
        """The build of ``digest``, and whether this call did it; others wait for the first.

        Raises a fresh copy of the :class:`CompileError` of a build that failed before.
        """
        while True:
            with self._lock:
                if digest in self._done:
                    return self._done[digest], False
                if digest in self._failed:
                    raise self._failed[digest].about()
                landed = self._flying.get(digest)
                if landed is None:
                    own = self._flying[digest] = threading.Event()
            if landed is None:
                return self._fly(digest, build, own), True
            landed.wait()  # then look again: the builder may have been interrupted

    def _fly(self, digest: str, build: Callable[[], Binary], landed: threading.Event) -> Binary:
        try:
            binary = build()
        except CompileError as fault:
            # one that names a place is about the source; others (no compiler...) may pass
            if fault.record.where:
                with self._lock:
                    self._failed[digest] = fault
            raise
        else:
            with self._lock:
                self._done[digest] = binary
            return binary
        finally:
            with self._lock:
                self._flying.pop(digest, None)
            landed.set()
