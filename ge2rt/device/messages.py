"""What kernels leave in a launch's log: printf's text, failed asserts, traps.

The layout stands in :mod:`ge2rt.ptx.lower.messages`. ``printf`` follows CUDA: the text appears
after the launch, in the order of blocks and, within a block, of execution; what found no room is
counted and told.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from ge2rt.device.api import Dim3
from ge2rt.ptx.native import LOG_HEAD, LOG_RECORD, LOG_WORKSPACE, LogKind

_ROOM, _USED, _DROPPED = 8, 16, 24
_SPEC = re.compile(
    rb"%(?P<flags>[-+ #0']*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    rb"(?P<size>hh|h|ll|l|z|t|j|L)?(?P<kind>[diouxXeEfFgGaAcspn%])"
)
_WIDE = {b"ll", b"l", b"z", b"t", b"j"}
MAX_FAULTS = 8  # named in an error's text


@dataclass(frozen=True)
class Record:
    """One record: who left it, and its payload."""

    block: int
    thread: int
    kind: int
    payload: bytes


class Log:
    """The log of a launcher's launches, one at a time; ``address`` goes into the launch record."""

    def __init__(self, capacity: int, attend: int, grid: Dim3, block: Dim3) -> None:
        self._grid, self._block = grid, block
        self._memory = mmap.mmap(-1, LOG_HEAD + capacity)  # pages are made when they are written
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        struct.pack_into("<qq", self._memory, 0, attend, capacity)

    def take(self) -> tuple[list[Record], int]:
        """All records, in the order of blocks, and how many were dropped; empties the log."""
        used, dropped = struct.unpack_from("<qq", self._memory, _USED)
        if not used:
            return [], 0
        (room,) = struct.unpack_from("<q", self._memory, _ROOM)
        end = min(used, room)
        found = sorted(self._records(end), key=lambda record: record.block)
        self._memory[LOG_HEAD : LOG_HEAD + end] = bytes(end)
        struct.pack_into("<qq", self._memory, _USED, 0, 0)
        return found, dropped

    def _records(self, end: int) -> Iterator[Record]:
        at = 0
        while at + LOG_RECORD <= end:
            start = LOG_HEAD + at
            nbytes, block, thread, kind = struct.unpack_from("<qqii", self._memory, start)
            if nbytes == 0 or at + nbytes > end:
                return
            payload = self._memory[start + LOG_RECORD : start + nbytes]
            yield Record(block, thread, kind, payload)
            at += nbytes

    def finish(self, kernel: str) -> list[str]:
        """Print what was printed; the texts of failed asserts and traps. Resets the workspace."""
        self._memory[LOG_WORKSPACE:LOG_HEAD] = bytes(LOG_HEAD - LOG_WORKSPACE)
        records, dropped = self.take()
        text = b"".join(_printed(r.payload) for r in records if r.kind == LogKind.PRINTF)
        if text:
            sys.stdout.write(text.decode("utf-8", "replace"))
        if dropped:
            sys.stdout.write(f"[ge2rt: {dropped} printf records of {kernel} found no room]\n")
        return [self._fault(r) for r in records if r.kind != LogKind.PRINTF]

    def _fault(self, record: Record) -> str:
        place = (
            f"block: [{_listed(record.block, self._grid)}], "
            f"thread: [{_listed(record.thread, self._block)}]"
        )
        if record.kind == LogKind.TRAP:
            (line,) = struct.unpack_from("<q", record.payload)
            return f"ptx:{line}: {place} trap"
        expression, file, function, line = struct.unpack_from("<QQQq", record.payload)
        return (
            f"{_text(file)}:{line}: {_text(function)}: {place} Assertion "
            f"`{_text(expression)}` failed."
        )


def _listed(number: int, shape: Dim3) -> str:
    x, y, _ = shape
    return f"{number % x},{number // x % y},{number // (x * y)}"


def _text(address: int) -> str:
    return ctypes.string_at(address).decode("utf-8", "replace") if address else ""


def _printed(payload: bytes) -> bytes:
    (address,) = struct.unpack_from("<Q", payload)
    return formatted(ctypes.string_at(address), payload[8:])


class _Arguments:
    """Variadic arguments as a CUDA caller packs them: naturally aligned, doubles for floats."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, form: str) -> int | float:
        """The next argument; 0 where the caller gave too few."""
        size = struct.calcsize(form)
        at = -(-self._at // size) * size
        self._at = at + size
        if at + size > len(self._data):
            return 0
        value: int | float = struct.unpack_from(f"<{form}", self._data, at)[0]
        return value


def formatted(text: bytes, data: bytes) -> bytes:
    """C's ``printf`` over packed arguments, with CUDA's set of conversions."""
    arguments = _Arguments(data)
    return _SPEC.sub(lambda found: _converted(found, arguments), text)


def _converted(found: re.Match[bytes], arguments: _Arguments) -> bytes:
    kind = found["kind"]
    if kind == b"%":
        return b"%"
    width = _number(found["width"], arguments)
    precision = _number(found["precision"], arguments)
    flags = (found["flags"] or b"").replace(b"'", b"").decode()
    if width.startswith("-"):
        flags, width = f"{flags}-", width[1:]
    dotted = f".{precision}" if found["precision"] is not None else ""
    spec = f"%{flags}{width}{dotted}"
    return _value(kind, found["size"] or b"", spec, arguments)


def _number(given: bytes | None, arguments: _Arguments) -> str:
    if given == b"*":
        return str(arguments.take("i"))
    return (given or b"").decode()


def _value(kind: bytes, size: bytes, spec: str, arguments: _Arguments) -> bytes:
    if kind in b"di":
        return _integer(f"{spec}d", arguments.take("q" if size in _WIDE else "i"), size)
    if kind in b"ouxX":
        value = arguments.take("Q" if size in _WIDE else "I")
        letter = "d" if kind == b"u" else kind.decode()
        text = _integer(f"{spec}{letter}", value, size)
        return text.replace(b"0o", b"0")
    if kind == b"c":
        char = bytes([int(arguments.take("i")) & 255])
        return (spec.encode() + b"c") % char
    if kind == b"s":
        address = int(arguments.take("Q"))
        return (spec.encode() + b"s") % (ctypes.string_at(address) if address else b"(null)")
    if kind == b"p":
        return (spec.encode() + b"s") % f"{int(arguments.take('Q')):#x}".encode()
    if kind in b"aA":
        digits = float(arguments.take("d")).hex()
        return (digits.upper() if kind == b"A" else digits).encode()
    if kind == b"n":
        arguments.take("Q")
        return b""
    return (spec + kind.decode()).encode() % float(arguments.take("d"))


def _integer(spec: str, value: int | float, size: bytes) -> bytes:
    bits = {b"h": 16, b"hh": 8}.get(size)
    number = int(value)
    if bits is not None:
        number &= (1 << bits) - 1
        if spec.endswith("d") and number >> (bits - 1) and value < 0:
            number -= 1 << bits
    return spec.encode() % number
