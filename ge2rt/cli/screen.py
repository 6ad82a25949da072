"""How commands print: tables and text for a terminal of any width, or whole lines for a pipe."""

from __future__ import annotations

import os
import sys

from rich.console import Console, JustifyMethod
from rich.table import Table

_PIPE_WIDTH = 500  # nobody wraps there: let each row be one line for grep


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or very wide where the output is read by a program."""
    stream = sys.stderr if stderr else sys.stdout
    free = not stream.isatty() and not os.environ.get("COLUMNS")
    return Console(stderr=stderr, width=_PIPE_WIDTH if free else None, highlight=False, emoji=False)


def table(*columns: str, right: tuple[str, ...] = (), broken: tuple[str, ...] = ()) -> Table:
    """A table without lines. No cell is cut, or broken but in ``broken`` and the last column."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        whole = name != columns[-1] and name not in broken
        side: JustifyMethod = "right" if name in right else "left"
        made.add_column(name, no_wrap=whole, overflow="fold", justify=side)
    return made
