"""Runs CUDA text under checks, with the arrays as the memory that the launch may touch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from corpus.run import pack

from ge2rt.build.compile import compile_text
from ge2rt.device.api import Device, LaunchShape
from ge2rt.device.checks_report import Span

CHECKS = "memory,race,init,sync"


@contextmanager
def checking(names: str = CHECKS, **switches: object) -> Iterator[None]:
    """Set ``GE2RT_CHECK`` and further switches for a while."""
    wanted = {"GE2RT_CHECK": names, **{f"GE2RT_{k}": str(v) for k, v in switches.items()}}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def spans_of(args: Sequence[Any]) -> list[Span]:
    """A span for each array."""
    found = []
    for k, value in enumerate(args):
        if isinstance(value, np.ndarray):
            low = value.ctypes.data
            text = f"{value.dtype.name}{list(value.shape)}"
            found.append(Span(f"buffer {k}", low, low + value.nbytes, text, value.itemsize,
                              value.shape))  # fmt: skip
    return found


class _Given:
    def __init__(self, array: Any) -> None:
        self.array = array


def run_text(
    source: str, device: Device, args: Sequence[Any], *, grid: Sequence[int] = (1,),
    block: Sequence[int] = (64,), shared: int = 0, entry: str = "k", arch: str = "sm_80",
    name: str = "bad.cu",
) -> None:  # fmt: skip
    """Compile and launch once."""
    binary = compile_text(source, arch, name=name)
    function = device.load(binary.data, "ptx", binary.key.digest).function(entry)
    shape = LaunchShape((*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared)
    launcher: Any = function.launcher(shape)
    values = [a.ctypes.data.to_bytes(8, "little") if isinstance(a, np.ndarray) else a for a in args]
    if hasattr(launcher, "watching"):
        launcher = launcher.watching(spans_of(args))
    launcher(pack(values, function.param_layout), 0)
