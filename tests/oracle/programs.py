"""CUDA programs with known answers: one list, for the oracle and for every device.

A program's arguments come from a seed; ``expected`` computes with NumPy what the launch leaves in
which argument. Arguments that it does not name must stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class CudaProgram:
    """One kernel, one launch of it, and its answer.

    ``build`` gives arrays (device buffers), NumPy scalars, or bytes (structs); ``expected`` gets
    the same values before the launch and returns {argument number: content after it}.
    """

    name: str
    source: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    build: Callable[[np.random.Generator], list[Any]]
    expected: Callable[[list[Any]], dict[int, Array]]
    entry: str = "k"
    rtol: float = 0.0
    atol: float = 0.0
    shared_bytes: int = 0
    arch: str = "compute_80"
    options: tuple[str, ...] = ()

    def arguments(self, seed: int = 0) -> list[Any]:
        """Fresh arguments, the same for the same seed."""
        return self.build(np.random.default_rng(seed))

    def check(self, before: list[Any], after: list[Any]) -> None:
        """Raise AssertionError where ``after`` is not what ``expected`` says."""
        wanted = self.expected(before)
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            if isinstance(old, np.ndarray):
                want = wanted.get(number, old)
                title = f"{self.name}: argument {number}"
                exact = number not in wanted or not (self.rtol or self.atol)
                if exact or old.dtype.kind in "iu":
                    np.testing.assert_array_equal(new, want, err_msg=title)
                else:
                    np.testing.assert_allclose(
                        new.astype(np.float64),
                        want.astype(np.float64),
                        rtol=self.rtol,
                        atol=self.atol,
                        err_msg=title,
                    )


def copies(args: list[Any]) -> list[Any]:
    """The arguments with buffers of their own, a buffer used twice still shared."""
    seen: dict[int, Array] = {}
    out: list[Any] = []
    for a in args:
        if isinstance(a, np.ndarray):
            out.append(seen.setdefault(id(a), a.copy()))
        else:
            out.append(a)
    return out


def programs() -> list[CudaProgram]:
    """All programs, in a fixed order."""
    from oracle import programs_control, programs_plain, programs_tensor, programs_warp

    parts = (programs_plain, programs_control, programs_warp, programs_tensor)
    return [program for part in parts for program in part.PROGRAMS]
