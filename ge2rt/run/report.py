"""What a failed call leaves behind: the thread's last error, a log line, a code or an exception."""

from __future__ import annotations

import logging
import sys

from ge2rt.base import switches
from ge2rt.base.errors import Ge2rtError, InternalError, InvalidArgumentError, set_last_error
from ge2rt.base.text import one_line

# no handler of its own: without one Python writes errors to stderr, where callers see them
log = logging.getLogger("ge2rt")

_OWN = frozenset({"ge2rt", "numpy", "ml_dtypes", "jinja2", "yaml", "pydantic", "llvmlite", "cupy"})


def failed(fault: Ge2rtError, kernel: str) -> int:
    """Record and log the error of a contract call; its code, or the exception in raising mode.

    Callers of the old binding drop return values, so every failure is logged at error level.
    """
    full = fault.about(kernel=kernel)
    set_last_error(full.record)
    log.error("%s", full.record)
    if _raising():
        raise full
    return int(full.record.code)


def answer(fault: Exception, kernel: str) -> int:
    """:func:`failed` for any exception: a contract call answers with a code, whatever happens."""
    return failed(fault if isinstance(fault, Ge2rtError) else unexpected(fault, kernel), kernel)


def _raising() -> bool:
    try:
        return bool(switches.get("GE2RT_RAISE"))
    except InvalidArgumentError as fault:
        log.error("%s", fault.record)
        return False  # the mode that the contract has by default


def unexpected(fault: Exception, kernel: str) -> Ge2rtError:
    """What an error that no room foresaw becomes: -1 if an object of the caller's raised it."""
    text = f"{type(fault).__name__}: {_text(fault)}"
    if _is_foreign(fault):
        return InvalidArgumentError(
            f"an object of the call raised {text}", kernel=kernel,
            next_step="pass plain lists, dicts, strings and ints",
        )  # fmt: skip
    return InternalError(
        f"unexpected {text}", kernel=kernel,
        next_step="please report it with this text and the call that led to it",
    )  # fmt: skip


def _text(fault: Exception) -> str:
    try:
        return one_line(str(fault), 500)
    except Exception:  # noqa: BLE001 - a foreign exception may raise anything when it is printed
        return "(without a text)"


def _is_foreign(fault: Exception) -> bool:
    """Whether it was raised by code that is no part of ge2rt, its libraries or Python."""
    trace = fault.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    return (package not in _OWN and package not in sys.stdlib_module_names) or package == "__main__"
