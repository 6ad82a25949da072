"""Complete CUDA programs in the styles people write, each with its answer by NumPy.

The CUDA text of a program is ``cuda/NAME.cu``; a family file beside it holds the records: data,
launches, expectation.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corpus.program import Program

FAMILIES = (
    "reductions",
    "ordering",
    "images",
    "simulation",
    "linear",
    "searching",
    "codes",
    "language",
    "machine",
)


def family(name: str) -> tuple[Program, ...]:
    """The programs of one family file."""
    found: tuple[Program, ...] = importlib.import_module(f"corpus.{name}").PROGRAMS
    return found
