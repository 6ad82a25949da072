"""What a failed call leaves behind: the thread's last error, a log line, a code or an exception."""

from __future__ import annotations

import logging

from ge2rt.base import switches
from ge2rt.base.errors import Ge2rtError, InternalError, set_last_error

log = logging.getLogger("ge2rt")
log.addHandler(logging.NullHandler())


def failed(fault: Ge2rtError, kernel: str) -> int:
    """Record and log the error of a contract call; its code, or the exception in raising mode.

    Callers of the old binding drop return values, so every failure is logged at error level.
    """
    full = fault.about(kernel=kernel)
    set_last_error(full.record)
    log.error("%s", full.record)
    if switches.get("GE2RT_RAISE"):
        raise full
    return int(full.record.code)


def unexpected(fault: Exception, kernel: str) -> InternalError:
    """Wrap an error that no room foresaw."""
    return InternalError(
        f"unexpected {type(fault).__name__}: {fault}", kernel=kernel,
        next_step="please report it with this text and the call that led to it",
    )  # fmt: skip
