"""What a check found, in words and as the parts of an error record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.errors import DeviceError
from ge2rt.base.shapes import contiguous_strides
from ge2rt.device.api import Dim3, LaunchShape
from ge2rt.device.checks_ir import (
    BARRIERS,
    BYPASSED,
    INACTIVE,
    MISALIGNED,
    NOT_NAMED,
    OUTSIDE,
    RACING,
    SPACES,
    UNWRITTEN,
)
from ge2rt.ptx.native import WHAT, Checked, Site

_NAMES = {
    OUTSIDE: "memory", MISALIGNED: "memory", RACING: "race", UNWRITTEN: "init", BARRIERS: "sync",
    BYPASSED: "sync", NOT_NAMED: "sync", INACTIVE: "sync",
}  # fmt: skip
_NEXT = {
    OUTSIDE: "compare the index with the extents; guard the access",
    MISALIGNED: "vector accesses need addresses that are multiples of their size",
    RACING: "put a __syncthreads (within a warp: __syncwarp) between, or use atomics",
    UNWRITTEN: "write it first, and put a __syncthreads between",
    BARRIERS: "move the barrier out of the condition",
    BYPASSED: "move the barrier out of the condition",
    NOT_NAMED: "the mask must name the lane that executes the instruction",
    INACTIVE: "name the lanes that come here (a ballot of the condition), or call it outside of it",
}


FAR = 1 << 16  # bytes from a buffer beyond which an address has nothing to do with it


@dataclass(frozen=True)
class Span:
    """Memory that a kernel may touch: ``low <= byte < high``.

    ``name`` says what it is (``input A``), ``text`` its type (``f32[64,128]``); ``item`` is the
    bytes of an element, ``shape`` that of a contiguous buffer, where they are known.
    """

    name: str
    low: int
    high: int
    text: str = ""
    item: int = 0
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.text}".rstrip()


def array_span(name: str, array: np.ndarray[Any, Any]) -> Span:
    """The span of a NumPy array."""
    ends = [s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)]
    start = int(array.__array_interface__["data"][0])
    low = start + sum(end for end in ends if end < 0)
    high = start + sum(end for end in ends if end > 0) + array.itemsize if array.size else low
    text = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
    shape = array.shape if array.flags.c_contiguous else ()
    return Span(name, low, high, text, array.itemsize, shape)


@dataclass(frozen=True)
class Found:
    """A fault as the checks' state holds it; threads are linear, sites are numbers."""

    kind: int
    site: int
    block: int
    thread: int
    space: int
    address: int
    detail: int  # the access in one word, or a mask of lanes
    other_site: int
    other_block: int
    other_thread: int

    @property
    def size(self) -> int:
        """Bytes of the access."""
        return self.detail & 255

    @property
    def access(self) -> str:
        """``read``, ``write`` or ``atomic access``."""
        if self.detail & WHAT["READ"] and self.detail & WHAT["WRITE"]:
            return "atomic access"
        return "write" if self.detail & WHAT["WRITE"] else "read"


@dataclass(frozen=True)
class Scene:
    """The launch in which it was found."""

    checked: Checked
    shape: LaunchShape
    spans: tuple[Span, ...]
    shared_start: int
    line_map: Any = None  # of the rendered source, or None

    def site(self, number: int) -> Site:
        """A site by its number."""
        return self.checked.sites[number]

    def place(self, site: Site) -> str:
        """``file:line`` of the template or source; of the PTX where no line is known."""
        if not site.source_line:
            return f"ptx:{site.line}"
        files = {os.path.basename(f) for f, _ in getattr(self.line_map, "lines", ())}
        if os.path.basename(site.file) in files:
            file, line = self.line_map.find(site.source_line)
            return f"{file}:{line}"
        here = os.getcwd() + os.sep
        return f"{site.file.removeprefix(here)}:{site.source_line}"

    def thread(self, number: int) -> Dim3:
        """A thread's coordinates."""
        return _coordinates(number, self.shape.block)

    def block(self, number: int) -> Dim3:
        """A block's coordinates."""
        return _coordinates(number, self.shape.grid)

    def who(self, thread: int, block: int) -> str:
        """A thread in words."""
        return f"thread {_dim(self.thread(thread))} of block {_dim(self.block(block))}"


def _coordinates(number: int, extents: Dim3) -> Dim3:
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)


def _dim(at: Dim3) -> str:
    return f"({at[0]},{at[1]},{at[2]})"


def describe(found: Found, scene: Scene, kernel: str) -> DeviceError:
    """The error for a fault."""
    site = scene.site(found.site)
    name = _NAMES[found.kind]
    message, more = _TELL[found.kind](found, scene)
    extra = {
        "check": name, "block": scene.block(found.block), "thread": scene.thread(found.thread),
        "instruction": site.form, "ptx_line": site.line, **more,
    }  # fmt: skip
    who = scene.who(found.thread, found.block)
    return DeviceError(
        f"{name} check: {who} {message}", kernel=kernel, where=scene.place(site), extra=extra,
        next_step=_next_step(found, scene),
    )  # fmt: skip


def _next_step(found: Found, scene: Scene) -> str:
    if found.kind == RACING and scene.site(found.other_site).form.startswith("cp.async"):
        return "wait for the copy (cp.async.wait_group), then put a __syncthreads"
    return _NEXT[found.kind]


def _memory(found: Found, scene: Scene) -> tuple[str, dict[str, Any]]:
    verb = {"read": "reads", "write": "writes"}.get(found.access, "changes")
    spot, more = _spot(found.address, found.size, found.space, scene)
    more.update(address=found.address, size=found.size, access=found.access)
    plural = "s" if found.size != 1 else ""
    what = f"{verb} {found.size} byte{plural}"
    if found.kind == MISALIGNED:
        text = f"{what} at the address {found.address:#x}, no multiple of {found.size}, {spot}"
        return text, more
    if found.kind == UNWRITTEN:
        return f"{what} that no thread of the block has written, {spot}", more
    return f"{what} {spot}", more


def _race(found: Found, scene: Scene) -> tuple[str, dict[str, Any]]:
    text, more = _memory(found, scene)
    other = scene.site(found.other_site)
    place = scene.place(other)
    deed = _deed(other, found.space)
    who = scene.who(found.other_thread, found.other_block)
    if found.other_block == found.block:
        who = f"thread {_dim(scene.thread(found.other_thread))}"
    more["second"] = _second(found, scene)
    return f"{text}, which {who} {deed} at {place}, with nothing that orders the two", more


def _deed(site: Site, space: int) -> str:
    op = site.form.split(".")[0]
    if op in ("atom", "red"):
        return "changed"
    wrote = op in ("st", "stmatrix") or (op == "cp" and SPACES[space] == "shared")
    return "wrote" if wrote else "read"


def _second(found: Found, scene: Scene) -> dict[str, Any]:
    other = scene.site(found.other_site)
    return {
        "block": scene.block(found.other_block), "thread": scene.thread(found.other_thread),
        "where": scene.place(other), "instruction": other.form, "ptx_line": other.line,
    }  # fmt: skip


def _barriers(found: Found, scene: Scene) -> tuple[str, dict[str, Any]]:
    place = scene.place(scene.site(found.other_site))
    who = _dim(scene.thread(found.other_thread))
    more = {"second": _second(found, scene)}
    return f"comes to this barrier while thread {who} waits at the one of {place}", more


def _bypassed(found: Found, scene: Scene) -> tuple[str, dict[str, Any]]:
    who = _dim(scene.thread(found.other_thread))
    return f"goes past the barrier that thread {who} waits at", {"second": _second(found, scene)}


def _lanes(found: Found, scene: Scene) -> tuple[str, dict[str, Any]]:
    form = scene.site(found.site).form
    more = {"mask": found.detail}
    if found.kind == NOT_NAMED:
        return f"executes {form} with the mask {found.detail:#010x}, which lacks its lane", more
    return f"executes {form} for lanes that do not come to it, {found.detail:#010x}", more


_TELL = {
    OUTSIDE: _memory, MISALIGNED: _memory, UNWRITTEN: _memory, RACING: _race, BARRIERS: _barriers,
    BYPASSED: _bypassed, NOT_NAMED: _lanes, INACTIVE: _lanes,
}  # fmt: skip


# -- where an address lies ---------------------------------------------------------------------
def _spot(address: int, size: int, space: int, scene: Scene) -> tuple[str, dict[str, Any]]:
    kind = SPACES[space]
    if kind == "shared":
        offset = address - scene.shared_start
        return f"of shared memory at byte {offset}", {"space": kind, "offset": offset}
    if kind in ("local", "param"):
        what = {"local": "local memory", "param": "parameters"}[kind]
        return f"of its {what} at {address:#x}", {"space": kind}
    span = _nearest(address, size, scene.spans)
    if span is None:
        return f"at {address:#x}, where the kernel has no memory", {"space": kind}
    if max(span.low - address, address - span.high) > FAR:
        return f"at {address:#x}, far from all that it was given", {"space": kind}
    offset = address - span.low
    more: dict[str, Any] = {"space": kind, "buffer": span.name, "offset": offset}
    if address < span.low:
        return f"{_bytes(span.low - address)} before the start of {span}", more
    if address >= span.high:
        distance = _bytes(address - span.high) if address > span.high else "directly"
        return f"{distance} past the end of {span}", more
    if address + size > span.high:
        return f"across the end of {span}", more
    if span.item:
        more["element"] = _element(offset, span)
        return f"in element {_listed(more['element'])} of {span}", more
    return f"at byte {offset} of {span}", more


def _bytes(count: int) -> str:
    return f"{count} byte{'s' if count != 1 else ''}"


def _listed(index: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, index)) + "]"


def _element(offset: int, span: Span) -> tuple[int, ...]:
    """The index of the element at ``offset``; one number where the shape is not known."""
    flat = offset // span.item
    if not span.shape:
        return (flat,)
    index = []
    for stride in contiguous_strides(span.shape):
        index.append(flat // stride)
        flat %= stride
    return tuple(index)


def _nearest(address: int, size: int, spans: Sequence[Span]) -> Span | None:
    """The span that holds an address or lies nearest to it."""

    def gap(span: Span) -> int:
        if address < span.low:
            return span.low - address
        return max(0, address - span.high + 1)

    return min(spans, key=gap, default=None)
