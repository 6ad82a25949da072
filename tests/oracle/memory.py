"""State spaces as checked byte arrays, one window of generic addresses each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SHARED, LOCAL, CODE, GLOBAL = 1 << 32, 2 << 32, 3 << 32, 16 << 32
GAP = 256


class MemoryFault(RuntimeError):
    """An access outside of every allocation, misaligned, or a write to constant memory."""


class Space:
    """``copies`` private stretches of ``size`` bytes each, behind one window of addresses."""

    def __init__(self, name: str, window: int, size: int, copies: int = 1) -> None:
        self.name, self.window = name, window
        self.size = -(-max(size, 1) // 16) * 16
        self.data = np.zeros(self.size * copies, np.uint8)
        self.valid = np.zeros(self.size, bool)
        self.fixed = np.zeros(self.size, bool)

    def allow(self, start: int, size: int, *, constant: bool = False) -> None:
        """Make ``size`` bytes from ``start`` an allocation."""
        self.valid[start : start + size] = True
        self.fixed[start : start + size] = constant

    def places(self, addr: Array, copy: Array, width: int, *, write: bool = False) -> Array:
        """Element indices (units of ``width``) for window-relative addresses."""
        if (addr % np.uint64(width)).any():
            self._fault("misaligned", addr[addr % np.uint64(width) != 0], width)
        far = addr > np.uint64(self.size - width)
        if far.any():
            self._fault("out of bounds", addr[far], width)
        at = addr.astype(np.int64)
        bad = ~(self.valid[at] & self.valid[at + width - 1])
        if bad.any():
            self._fault("out of bounds", addr[bad], width)
        if write and self.fixed[at].any():
            self._fault("write to constant memory", addr[self.fixed[at]], width)
        place: Array = (at + copy * self.size) // width
        return place

    def _fault(self, what: str, addr: Array, width: int) -> None:
        first = int(addr[0])
        raise MemoryFault(
            f"{what}: {width} bytes at {self.name}+{first:#x}, {addr.size} lane(s) in all"
        )

    def view(self, width: int) -> Array:
        """The whole space as unsigned elements of ``width`` bytes."""
        return self.data.view(f"u{width}")


class Arena:
    """Lays out device buffers, module variables and parameters in the global window."""

    def __init__(self) -> None:
        self.top = GAP
        self.pieces: list[tuple[int, bytes, bool]] = []

    def place(self, content: bytes, align: int = GAP, *, constant: bool = False) -> int:
        """Reserve room for ``content``; the generic address comes back."""
        start = -(-self.top // align) * align
        self.pieces.append((start, content, constant))
        self.top = start + len(content) + GAP
        return GLOBAL + start

    def build(self) -> Space:
        """The filled space."""
        space = Space("global", GLOBAL, self.top)
        for start, content, constant in self.pieces:
            space.data[start : start + len(content)] = np.frombuffer(content, np.uint8)
            space.allow(start, len(content), constant=constant)
        return space
