"""Status codes, the exception family, and the thread's last error: one table for all three."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ge2rt.base.text import one_line


class Status(IntEnum):
    """Return codes of the contract."""

    OK = 0
    INVALID = -1
    DEVICE = -2
    NOT_IMPLEMENTED = -3
    COMPILE = -4
    MEMORY = -5
    VERSION = -6
    INTERNAL = -7


# ge_v2's later detail numbers, kept in the record.
DETAIL: dict[str, int] = {
    "ok": 0, "invalid": 1, "unimplemented": 2, "runtime": 3, "argument": 4, "missing_input": 10,
    "missing_output": 11, "device": 100, "dtype": 101, "layout": 102, "shape": 103, "stride": 104,
    "transpose": 105, "cuda": 130, "unknown": 999,
}  # fmt: skip


# the most characters of a record's parts that repeat a caller's values
_FOREIGN = {"kernel": 100, "argument": 200, "got": 1000}


@dataclass(frozen=True)
class ErrorRecord:
    """What went wrong: where, what was expected, what came, and the next step."""

    code: Status
    message: str
    kernel: str = ""
    argument: str = ""
    expected: str = ""
    got: str = ""
    next_step: str = ""
    detail: str = "unknown"
    where: str = ""  # file:line:col, block/thread, ...
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The code's name, such as ``INVALID``."""
        return self.code.name

    @property
    def detail_number(self) -> int:
        """ge_v2's number for ``detail``."""
        return DETAIL.get(self.detail, DETAIL["unknown"])

    def __str__(self) -> str:
        text = ": ".join(part for part in (self.where, self.subject, self.message) if part)
        if self.expected:
            text += f"; expected {self.expected}"
        if self.got:
            text += f", got {self.got}" if self.expected else f"; got {self.got}"
        if self.next_step:
            text += ("\n" if "\n" in text else ". ") + self.next_step
        return f"[{int(self.code)} {self.name}] {text}"

    @property
    def subject(self) -> str:
        """Kernel and argument, as far as they are known."""
        return ", ".join(
            p for p in (self.kernel, self.argument and f"argument {self.argument!r}") if p
        )


class Ge2rtError(Exception):
    """Base of all errors of this library; ``record`` holds the parts."""

    code = Status.INTERNAL
    _made: tuple[int, int] = (0, 0)  # thread, and which of its errors

    def __init__(self, message: str, **parts: Any) -> None:
        for name in parts.keys() & _FOREIGN.keys():  # these repeat what a caller handed in
            parts[name] = one_line(parts[name], _FOREIGN[name])
        self.record = ErrorRecord(code=self.code, message=message, **parts)
        super().__init__(str(self.record))
        _last.begin(self)

    def __del__(self) -> None:
        _last.settle(self)  # what was raised and dropped is still the thread's last error

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.record, self.__dict__)

    def about(self, **parts: Any) -> Ge2rtError:
        """The same error with parts filled in that its origin could not know (kernel, where...)."""
        kept = vars(self.record)
        return self.replaced(**{k: v for k, v in parts.items() if not kept.get(k)})

    def replaced(self, **parts: Any) -> Ge2rtError:
        """The same error with parts changed."""
        kept = {k: v for k, v in vars(self.record).items() if k not in ("code", "message")}
        return type(self)(self.record.message, **{**kept, **parts})


def _rebuilt(kind: type[Ge2rtError], record: ErrorRecord, state: dict[str, Any]) -> Ge2rtError:
    """An error out of a pickle (pools of processes hand errors on that way)."""
    made = kind.__new__(kind, str(record))
    made.args = (str(record),)
    made.__dict__.update(state)
    _last.begin(made)  # its number was that of another process
    return made


class InvalidArgumentError(Ge2rtError, ValueError):
    """-1: the call breaks the kernel's declaration. Nothing was launched or written."""

    code = Status.INVALID


class InvalidTypeError(InvalidArgumentError, TypeError):
    """-1: a dtype or Python type that cannot be used here."""


class DeviceError(Ge2rtError, RuntimeError):
    """-2: the device failed or faulted."""

    code = Status.DEVICE


class UnsupportedError(Ge2rtError, NotImplementedError):
    """-3: a known gap, named."""

    code = Status.NOT_IMPLEMENTED


class CompileError(Ge2rtError, RuntimeError):
    """-4: rendering or compiling a kernel failed."""

    code = Status.COMPILE


class OutOfMemoryError(Ge2rtError, MemoryError):
    """-5: no memory on the device."""

    code = Status.MEMORY


class VersionError(Ge2rtError, RuntimeError):
    """-6: API versions do not agree."""

    code = Status.VERSION


class InternalError(Ge2rtError, RuntimeError):
    """-7: a fault of ge2rt itself."""

    code = Status.INTERNAL


class RegistryError(InvalidArgumentError):
    """-1: faults in a kernels file; ``faults`` lists all of them."""

    def __init__(self, message: str, *, faults: tuple[str, ...] = (), **parts: Any) -> None:
        self.faults = faults
        super().__init__(message, **parts)

    def replaced(self, **parts: Any) -> RegistryError:
        """The same error with parts changed."""
        return super().replaced(**{"faults": self.faults, **parts})  # type: ignore[return-value]


@dataclass(frozen=True)
class StatusRow:
    """One row of the table that code and docs share."""

    status: Status
    exception: type[Ge2rtError] | None
    meaning: str
    next_step: str


STATUS_TABLE: tuple[StatusRow, ...] = (
    StatusRow(Status.OK, None, "the launch was done or enqueued", ""),
    StatusRow(Status.INVALID, InvalidArgumentError, "invalid arguments; nothing was launched",
              "compare the call with `ge2rt kernels NAME`"),
    StatusRow(Status.DEVICE, DeviceError, "the device failed or a kernel faulted",
              "run again with GE2RT_CHECK=memory on the cpu device"),
    StatusRow(Status.NOT_IMPLEMENTED, UnsupportedError, "not implemented for this call",
              "see the reason; another dtype, layout or device may work"),
    StatusRow(Status.COMPILE, CompileError, "the kernel did not render or compile",
              "see the compiler's message with the template's line"),
    StatusRow(Status.MEMORY, OutOfMemoryError, "out of memory",
              "free buffers or use smaller ones"),
    StatusRow(Status.VERSION, VersionError, "API versions do not agree",
              "install the version the client was written for"),
    StatusRow(Status.INTERNAL, InternalError, "a fault inside ge2rt",
              "please report it with the text of last_error()"),
)  # fmt: skip


class _Last(threading.local):
    """The last error that came out of a call; those that the library itself handled are none.

    Whether one came out shows when it has been caught: by whose frame.
    """

    record: ErrorRecord | None = None
    made: int = 0  # errors made in this thread
    number: int = 0  # which of them ``record`` is of
    newest: Any = None  # a weak reference: an error holds its frames, and they hold arrays

    def begin(self, fault: Ge2rtError) -> None:
        """Number an error that is about to be raised."""
        self.look()
        self.made += 1
        fault._made = threading.get_ident(), self.made
        self.newest = weakref.ref(fault)

    def look(self) -> None:
        """Take the newest error if it has come out of a call meanwhile."""
        fault = self.newest() if self.newest is not None else None
        if fault is not None:
            self.settle(fault)

    def settle(self, fault: Ge2rtError) -> None:
        """Take an error as the last one if it came out of a call and is newer than what is here."""
        thread, number = fault._made
        trace = fault.__traceback__
        if thread != threading.get_ident() or number <= self.number or trace is None:
            return
        if str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0] != "ge2rt":
            self.record, self.number = fault.record, number

    def put(self, record: ErrorRecord | None) -> None:
        """Take the record of a call that answers with a code."""
        self.record, self.number = record, self.made


_last = _Last()


def set_last_error(record: ErrorRecord | None) -> None:
    """Remember ``record`` as this thread's last error."""
    _last.put(record)


def last_error() -> ErrorRecord | None:
    """The record of the calling thread's most recent error, or None where no call has failed.

    Of the last call that failed, whether it returned a code or raised; calls that succeed do not
    change it.
    """
    _last.look()
    return _last.record
