"""What native functions set up first: stack slots, the launch record, the arena's parts."""

from __future__ import annotations

from ge2rt.ptx.lower.places import Frames
from ge2rt.ptx.lower.values import Code
from ge2rt.ptx.native import ARENA_ALIGN

_FIELDS = (
    ("params", 0, "ptr"), ("globals", 8, "ptr"), ("abort", 16, "ptr"), ("log", 24, "ptr"),
    ("grid.x", 32, "i32"),
    ("grid.y", 36, "i32"), ("grid.z", 40, "i32"), ("dynamic", 44, "i32"),
)  # fmt: skip


def head(code: Code, frames: Frames) -> list[str]:
    """The entry block of a function with ``%launch`` and ``%arena``, but for its end."""
    lines = ["entry:"]
    lines += [f"  %{n} = alloca {t}, align 64" for n, t in code.allocas.items()]
    lines += [
        f"  store {t} 0, ptr %{n}"
        for n, t in code.allocas.items()
        if n.startswith("mask.") or n == "beat"
    ]
    for name, offset, type in _FIELDS:
        lines += [
            f"  %{name}.p = getelementptr i8, ptr %launch, i64 {offset}",
            f"  %{name} = load {type}, ptr %{name}.p, align 4, !invariant.load !0",
        ]
    local = f"  %local.int = add i64 %frames.int, {frames.local_start}"
    if code.is_callee:
        size = max(code.places.local_bytes * code.width, 1)
        lines += [f"  %locals = alloca [{size} x i8], align 64"]
        local = "  %local.int = ptrtoint ptr %locals to i64"
        lines += ["  %args.int = ptrtoint ptr %args to i64"]
    return [
        *lines,
        "  %arena.int = ptrtoint ptr %arena to i64",
        "  %params.int = ptrtoint ptr %params to i64",
        "  %globals.int = ptrtoint ptr %globals to i64",
        "  %dynamic.wide = zext i32 %dynamic to i64",
        f"  %shared.all = add i64 %dynamic.wide, {code.places.shared_bytes + ARENA_ALIGN - 1}",
        f"  %frames.at = and i64 %shared.all, {-ARENA_ALIGN}",
        "  %frames = getelementptr i8, ptr %arena, i64 %frames.at",
        "  %frames.int = add i64 %arena.int, %frames.at",
        local,
        f"  %arena.end = add i64 %frames.int, {frames.total}",
    ]
