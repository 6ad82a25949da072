"""The report of a compiled function in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ge2rt.jit.compiled import Compiled
from ge2rt.report.collect import collect
from ge2rt.report.html import page


def write_report(compiled: Compiled, path: str | Path, arrays: Sequence[Any] | None = None) -> None:
    """Write one self-contained HTML page about a compiled function.

    ``arrays`` are the arguments' arrays, leaf by leaf, to time it on; without them numbers are made
    up.
    """
    Path(path).write_text(page(collect(compiled, arrays)), "utf-8")
