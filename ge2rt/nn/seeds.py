"""Seeds of layers: those without one of their own take the next of a sequence that begins at 0."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

_seeds: Iterator[int] = itertools.count()


def manual_seed(seed: int) -> None:
    """Start the sequence of seeds from which layers without one draw their weights.

    It begins at 0 in each process, so that a script that never calls this draws the same weights
    each time it runs; two models in one process still differ. The numbers of ``ge2rt.rand`` and
    ``functional.dropout`` come from another stream, ``ge2rt.manual_seed``, which starts anywhere.
    """
    global _seeds
    _seeds = itertools.count(seed << 20)


def next_seed() -> int:
    """The next of the sequence."""
    return next(_seeds)
