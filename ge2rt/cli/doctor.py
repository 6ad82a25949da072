"""``ge2rt doctor``: what was found on this machine."""

from __future__ import annotations

import sys

import click
from rich.markup import escape

from ge2rt.cli.screen import console, table
from ge2rt.run.diagnose import Finding, findings


@click.command()
def doctor() -> None:
    """Show what was found: NVRTC, headers, CuPy, driver, devices, cache; and the fix of each fault.

    Exits with 1 if something that kernels need is missing.
    """
    rows = []
    screen = console()
    with screen.status("looking..."):
        for row in findings():
            rows.append(row)
    shown = table("", "what", "found")
    for row in rows:
        shown.add_row(_mark(row), row.name, escape(row.found))
        if not row.ok and row.fix:
            shown.add_row("", "", f"[cyan]{escape(row.fix)}[/]")
    screen.print(shown)
    missing = [row.name for row in rows if row.needed and not row.ok]
    if missing:
        click.echo(f"\nmissing: {', '.join(missing)}; the fix stands below each row")
    sys.exit(1 if missing else 0)


def _mark(row: Finding) -> str:
    if row.ok:
        return "[green]ok[/]"
    return "[red]missing[/]" if row.needed else "[yellow]-[/]"
