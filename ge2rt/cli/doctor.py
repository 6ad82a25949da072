"""``ge2rt doctor``: what was found on this machine."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ge2rt.run.diagnose import findings


@click.command()
def doctor() -> None:
    """Show what was found: NVRTC, headers, CuPy, driver, devices, cache; and the fix of each fault.

    Exits with 1 if something that kernels need is missing.
    """
    rows = findings()
    table = Table("", "what", "found", "fix", box=None)
    for row in rows:
        mark = "[green]ok[/]" if row.ok else ("[red]missing[/]" if row.needed else "[yellow]-[/]")
        table.add_row(mark, row.name, escape(row.found), escape("" if row.ok else row.fix))
    Console().print(table)
    sys.exit(0 if all(row.ok or not row.needed for row in rows) else 1)
