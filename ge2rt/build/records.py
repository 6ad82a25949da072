"""The frozen records of building: Problem -> Source -> Key -> Binary."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ge2rt.spec.model import Bound, KernelSpec


@dataclass(frozen=True)
class Space:
    """A collapsed iteration space: extents, and each operand's strides (elements) for them."""

    name: str
    shape: tuple[int, ...]
    strides: Mapping[str, tuple[int, ...]]

    @property
    def size(self) -> int:
        """Number of points."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True)
class ArgSlot:
    """One parameter of the compiled kernel.

    ``kind`` is ``"pointer"`` (``value`` = index into the kernel's buffers, ``offset`` bytes added),
    ``"workspace"`` (``offset`` bytes behind its start; ``value`` = the C type of an element)
    or ``"scalar"`` (``value`` = the number, packed by ``format``, a struct code such as ``"i"``).
    """

    kind: str
    name: str
    format: str
    value: Any
    offset: int = 0


@dataclass(frozen=True)
class Geometry:
    """One launch. ``entry`` is the suffix of the function's name; an unwanted one is left out."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    wanted: bool = True


@dataclass(frozen=True)
class Problem:
    """A specialisation: all that the source depends on, plus the launch geometry.

    ``static`` compiles extents and strides in; otherwise they are scalar arguments. ``aligned``
    says that every pointer is a multiple of 16 bytes. ``grid``, ``block`` and ``shared`` are those
    of ``launch``; ``launches`` are all, in order.
    """

    bound: Bound
    arch: str
    static: bool
    aligned: bool
    tunables: Mapping[str, int]
    spaces: Mapping[str, Space]
    index_bits: int
    args: tuple[ArgSlot, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    launches: tuple[Geometry, ...]
    workspace: int = 0  # bytes
    host: Mapping[str, Any] = field(default_factory=dict)  # cc, kind, tensor_cores: as matched

    @property
    def kernel(self) -> KernelSpec:
        """The kernel that is specialised."""
        return self.bound.kernel


@dataclass(frozen=True)
class LineMap:
    """Rendered line (1-based) -> (template file, line)."""

    lines: tuple[tuple[str, int], ...]

    def find(self, line: int) -> tuple[str, int]:
        """Where the rendered line came from."""
        return self.lines[min(max(line, 1), len(self.lines)) - 1] if self.lines else ("", line)


@dataclass(frozen=True)
class Source:
    """Rendered CUDA of one specialisation."""

    text: str
    entry: str
    name: str  # for messages and .file lines: the template's path
    options: tuple[str, ...] = ()
    line_map: LineMap = field(default_factory=lambda: LineMap(()))


@dataclass(frozen=True)
class Key:
    """A cache key: named parts in order, and the digest over all of them."""

    parts: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """Hex SHA-256 over names and values, unambiguous about their borders."""
        h = hashlib.sha256()
        for name, value in self.parts:
            for piece in (name, value):
                data = piece.encode("utf-8", "surrogatepass")
                h.update(len(data).to_bytes(8, "little"))
                h.update(data)
        return h.hexdigest()

    def __str__(self) -> str:
        return "\n".join(f"{name:>20}: {value[:100]}" for name, value in self.parts)


@dataclass(frozen=True)
class Binary:
    """A compiled kernel: PTX text (UTF-8) or a cubin."""

    key: Key
    kind: str  # "ptx" | "cubin"
    data: bytes
    entry: str
    arch: str
    log: str = ""
    cached: str = ""  # "" (compiled now) | "memory" | "disk"
    line_map: LineMap = field(default_factory=lambda: LineMap(()), repr=False)
    lowered: Mapping[str, str] = field(default_factory=dict)  # C++ name expression -> symbol
