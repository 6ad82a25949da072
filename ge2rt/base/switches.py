"""All ``GE2RT_*`` environment variables, in one table. Nothing else reads the environment.

Values are read at each call of :func:`get`, so a test or a program may set them at any time; rooms
that cache a derived value say so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ge2rt.base.errors import InvalidArgumentError

_WHOLE = re.compile(r"[-+]?[0-9]{1,100}")


def _flag(text: str) -> bool:
    low = text.strip().lower()
    if low in ("1", "true", "yes", "on"):
        return True
    if low in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("0 or 1")


def _count(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()) or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return int(text)


def _seed(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError("a whole number")
    return int(text)


CHECKS = ("memory", "race", "init", "sync")


def _names(text: str) -> frozenset[str]:
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    if names == {"all"}:
        return frozenset(CHECKS)
    if not names <= set(CHECKS):
        raise ValueError(f"names out of {', '.join(sorted(CHECKS))}, or all")
    return names


def _paths(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(os.pathsep) if part)


def _width(text: str) -> int:
    if text.strip() not in ("1", "2", "4", "8", "16", "32"):
        raise ValueError("1, 2, 4, 8, 16 or 32")
    return int(text)


@dataclass(frozen=True)
class Switch:
    """One environment variable."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    doc: str


_ROWS = (
    Switch("GE2RT_DEVICE", str, "auto", "default device: auto, cpu, cuda or cuda:N"),
    Switch("GE2RT_EMULATE_CUDA", _flag, False, "run `cuda` descs on the cpu device"),
    Switch("GE2RT_RAISE", _flag, False, "launch_kernel raises instead of returning a code"),
    Switch("GE2RT_CPU_ARCH", str, "sm_80", "compute capability the cpu device presents"),
    Switch("GE2RT_THREADS", _count, None, "threads of the cpu device (default: usable cores)"),
    Switch("GE2RT_LANES", _width, None, "lanes of the cpu device: 32, ... 1; unset: by kernel"),
    Switch("GE2RT_CPU_FEATURES", str, "", "host CPU features: native when empty, or e.g. avx2"),
    Switch("GE2RT_CHECK", _names, frozenset(), "checks on the cpu device: memory,race,init,sync"),
    Switch("GE2RT_SEED", _seed, None, "shuffles the order of warps on the cpu device"),
    Switch("GE2RT_CACHE_DIR", str, "", "folder of the compile cache"),
    Switch("GE2RT_CACHE_SIZE", _count, 2**31, "cap of the compile cache in bytes"),
    Switch("GE2RT_NO_CACHE", _flag, False, "keep compiled kernels in memory only"),
    Switch("GE2RT_NO_JIT", _flag, False, "never compile: run from cache or bundle only"),
    Switch("GE2RT_NO_CONVERT", _flag, False, "never cast operands for want of a kernel"),
    Switch("GE2RT_REGISTRY", _paths, (), "kernels files added to the shipped registry"),
    Switch("GE2RT_NO_STUB", _flag, False, "do not use the native launch stub"),
    Switch("GE2RT_STATIC_BUDGET", _count, 4, "static shapes before a kernel turns shape-generic"),
)  # fmt: skip

TABLE: dict[str, Switch] = {row.name: row for row in _ROWS}


def get(name: str) -> Any:
    """The value of a switch; a malformed one raises :class:`InvalidArgumentError`."""
    switch = TABLE[name]
    text = os.environ.get(name)
    if text is None or text == "":
        return switch.default
    try:
        return switch.parse(text)
    except ValueError as fault:
        raise InvalidArgumentError(
            f"environment variable {name} is malformed",
            expected=str(fault), got=repr(text), next_step=f"{name}: {switch.doc}",
        ) from None  # fmt: skip


@contextmanager
def setting(name: str, text: str) -> Iterator[None]:
    """Set a switch of this process for a while."""
    before = os.environ.get(TABLE[name].name)
    os.environ[name] = text
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def given() -> set[str]:
    """Names of all ``GE2RT_*`` variables that are set, known or not."""
    return {name for name in os.environ if name.startswith("GE2RT_")}
