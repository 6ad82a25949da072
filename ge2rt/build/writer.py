"""Disk writes behind the caller's back: syncing takes longer than compiling on many disks."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from weakref import WeakSet

Task = Callable[[], None]

_all: WeakSet[Writer] = WeakSet()


class Writer:
    """Runs tasks in order, in a thread that lives while there is work.

    The thread is not a daemon: the interpreter waits for it, so nothing is lost at a normal exit.
    """

    def __init__(self) -> None:
        self.after_fork()
        _all.add(self)

    def after_fork(self) -> None:
        """In the child: the parent's thread does the parent's tasks."""
        self._tasks: deque[Task] = deque()
        self._changed = threading.Condition()
        self._running = False

    def submit(self, task: Task) -> None:
        """Run ``task`` soon, after those submitted before. It must not raise."""
        with self._changed:
            self._tasks.append(task)
            if self._running:
                return
            self._running = True
        if threading.main_thread().is_alive():
            threading.Thread(target=self._work, name="ge2rt-cache").start()
        else:
            self._work()  # the interpreter is ending and would not wait for a new thread

    def flush(self) -> None:
        """Wait until everything that was submitted is done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._tasks:
                    self._running = False
                    self._changed.notify_all()
                    return
                task = self._tasks.popleft()
            task()


def _after_fork() -> None:
    for writer in tuple(_all):
        writer.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
