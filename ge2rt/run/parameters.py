"""The parameters of a compiled kernel against those that a launch packs for it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ge2rt.base.errors import CompileError
from ge2rt.build.records import ArgSlot, Problem

Layout = Sequence[tuple[str, int, int]]  # (PTX type, offset, bytes) a parameter

# struct code -> the PTX type that NVRTC gives such a parameter
_TYPES = {"Q": "u64", "q": "s64", "i": "s32", "f": "f32", "d": "f64", "?": "u8"}


def check_parameters(problem: Problem, layout: Layout) -> None:
    """:class:`CompileError` where a template's own parameter list is not ``{{ params }}``."""
    fault = _difference(problem.args, layout)
    if fault:
        raise CompileError(
            fault, kernel=problem.kernel.name, where=problem.kernel.template,
            next_step="write {{ params }} as the kernel's parameter list",
        )  # fmt: skip


def _difference(args: Sequence[ArgSlot], layout: Layout) -> str:
    if len(args) != len(layout):
        wanted = ", ".join(_wanted(slot) for slot in args) or "none"
        return f"the kernel has {len(layout)} parameters; expected {len(args)}: {wanted}"
    for number, (slot, (kind, _, nbytes)) in enumerate(zip(args, layout, strict=True), 1):
        if nbytes != struct.calcsize(slot.format) or _is_float(kind) != (slot.format in "fd"):
            return f"parameter {number} is {kind} ({nbytes} bytes); expected {_wanted(slot)}"
    return ""


def _is_float(kind: str) -> bool:
    return kind.startswith("f")


def _wanted(slot: ArgSlot) -> str:
    what = "a pointer" if slot.kind == "pointer" else _TYPES[slot.format]
    return f"{slot.name} ({what}, {struct.calcsize(slot.format)} bytes)"
