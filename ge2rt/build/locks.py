"""A lock that only saves double work: bounded, and never waited for when its holder has died."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import filelock

PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.01


def build_lock(path: str, *, patience: float = PATIENCE_SECONDS) -> Callable[[], None] | None:
    """Lock ``path``; returns the function that unlocks (in any thread), or None: go on without.

    The system frees the lock of a process that dies. A child of the holder can keep it, though:
    hence the process id beside it.
    """
    import filelock  # late: only a real compile needs it

    lock = filelock.FileLock(f"{path}.lock", thread_local=False)
    holder = f"{path}.pid"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if not _acquire(lock, holder, time.monotonic() + patience):
            return None
    except OSError:
        return None  # no locks on this file system

    def release() -> None:
        with suppress(OSError):
            os.unlink(holder)
        lock.release()

    return release


def _acquire(lock: filelock.BaseFileLock, holder: str, deadline: float) -> bool:
    import filelock

    while True:
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            if time.monotonic() > deadline or not _alive(holder):
                return False
            time.sleep(_POLL_SECONDS)
            continue
        with open(holder, "w", encoding="ascii") as stream:
            stream.write(str(os.getpid()))
        return True


def _alive(holder: str) -> bool:
    """Whether the process that wrote ``holder`` may still be at work."""
    try:
        with open(holder, encoding="ascii") as stream:
            pid = int(stream.read() or 0)
    except (OSError, ValueError):
        return True  # it has only just begun, or has just ended
    if sys.platform == "win32" or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
