"""The repeated launch: a function written for one plan, which only checks ints and packs them.

Whatever it does not recognise at a glance goes to the plan's slow path, which owns all messages.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ge2rt.base.shapes import byte_span
from ge2rt.device.api import Launcher, NativeEntry
from ge2rt.run.stub import separation
from ge2rt.spec.model import Bound, BufferDesc

Run: TypeAlias = Callable[[Sequence[int], int], int]

_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)


_MOST_BUFFERS = 32


@dataclass(frozen=True)
class Target:
    """What a fast launch needs: packing, and the native entry or the launcher."""

    pack: Callable[..., bytes]
    pointers: tuple[tuple[int, int], ...]  # (index into kernel.buffers, byte offset) an argument
    scalars: tuple[Any, ...]
    launcher: Launcher
    fault: Callable[[int], int]  # raises what a native status other than 0 means
    native: NativeEntry | None
    aligned: bool


def compile_fast(bound: Bound, target: Target, slow: Run) -> Run:
    """A function ``(buffers, stream) -> 0`` for this plan; falls back to ``slow``."""
    if any(desc is None for desc in bound.descs):
        return slow  # optional buffers may come as null or be left out: not worth a fast form
    if len(bound.descs) > _MOST_BUFFERS:
        return slow  # each pair would be a condition
    names = [f"b{index}" for index in range(len(bound.descs))]
    tests = [
        f"type({n}) is int and {n} > {_below(d)}" for n, d in zip(names, bound.descs, strict=True)
    ]
    tests += _separate(bound, names)
    mask = 15 if target.aligned else max(d.dtype.itemsize for d in bound.descs if d) - 1
    tests.append(f"not ({' | '.join(names)}) & {mask}")
    args = [names[i] + (f" + {offset}" if offset else "") for i, offset in target.pointers]
    scalars = [f"s{index}" for index in range(len(target.scalars))]
    scope: dict[str, Any] = {"pack": target.pack, "slow": slow, "launcher": target.launcher}
    scope["too_large"] = struct.error
    scope.update(zip(scalars, target.scalars, strict=True))
    if target.native is not None:
        scope["context"] = target.native.context
        scope["native"] = _NATIVE(target.native.address)
        tests.append("type(stream) is int and stream == 0")
        scope["fault"] = target.fault
        launch = [
            "status = native(context, packed)",
            "if status == 0:",
            "    return 0",
            "fault(status)",
        ]
    else:
        launch = ["launcher(packed, stream)", "return 0"]
    body = [
        "def run(buffers, stream=0):",
        f"    if type(buffers) is list and len(buffers) == {len(names)}:",
        f"        {', '.join(names)}{',' if len(names) == 1 else ''} = buffers",
        f"        if {' and '.join(tests)}:",
        "            try:",
        f"                packed = pack({', '.join(args + scalars)})",
        "            except too_large:",  # a pointer of more than 64 bits: told by the slow way
        "                return slow(buffers, stream)",
        *(f"            {line}" for line in launch),
        "    return slow(buffers, stream)",
    ]
    exec("\n".join(body), scope)  # the text is made of numbers and of the names above only
    run: Run = scope["run"]
    return run


def _below(desc: BufferDesc | None) -> int:
    """The largest address that cannot be the buffer's: its lowest byte would lie at 0 or before."""
    assert desc is not None
    low, _ = byte_span(desc.shape, desc.strides, desc.dtype.itemsize)
    return max(0, -(low + desc.offset * desc.dtype.itemsize))


def _separate(bound: Bound, names: Sequence[str]) -> list[str]:
    """Conditions that each output's bytes lie apart from every other buffer's."""
    return [
        f"({names[out]} - {names[other]} >= {most} or {names[out]} - {names[other]} <= {least})"
        for out, other, most, least in separation(bound)
    ]
