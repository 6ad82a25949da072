"""``ge2rt cache``: look into the compile cache."""

from __future__ import annotations

import sys
from typing import Any

import click

from ge2rt.build.compile import why_missed
from ge2rt.build.store import default_store
from ge2rt.cli.calls import attrs_option, descs_argument, parse_attrs, parse_inputs
from ge2rt.run.offline import arch_props, problem_for


@click.group()
def cache() -> None:
    """Look into the compile cache, verify or clear it."""


@cache.command()
def info() -> None:
    """Folder, number of entries, size and cap."""
    for name, value in default_store().info().items():
        shown = _size(value) if name in ("bytes", "cap") else value
        click.echo(f"{name:>10}: {shown}")


@cache.command()
def clear() -> None:
    """Remove all entries."""
    click.echo(f"removed {default_store().clear()} entries")


@cache.command()
def verify() -> None:
    """Read every entry and compare checksums; exits with 1 if one is bad."""
    faults = default_store().verify()
    for digest, fault in faults:
        click.echo(f"{digest}: {fault}", err=True)
    click.echo(f"{len(list(default_store().entries()))} entries, {len(faults)} bad")
    sys.exit(1 if faults else 0)


@cache.command()
@click.argument("what")
@descs_argument
@attrs_option
@click.option("--arch", default="sm_80", help="Architecture of the call.")
@click.option("--emit", type=click.Choice(["ptx", "cubin"]), default="ptx")
def explain(
    what: str, descs: tuple[str, ...], attrs: tuple[str, ...], arch: str, emit: str
) -> None:
    """Print the key parts of an entry (WHAT = digest), or why a call (kernel DESCS...) misses."""
    key = default_store().explain(what)
    if key is not None:
        click.echo(str(key))
        return
    problem = problem_for(what, parse_inputs(descs, "cuda"), parse_attrs(attrs), arch_props(arch))
    reasons = why_missed(problem, emit)
    if not reasons:
        click.echo("this call is in the cache")
    elif any(reason.startswith(("name:", "nothing")) for reason in reasons):
        click.echo(f"not in the cache, nor is any other call of {problem.kernel.name}")
    else:
        click.echo("not in the cache; the nearest entry differs in")
        for reason in reasons:
            click.echo(f"  {reason}")


def _size(count: Any) -> str:
    number, units = float(count), iter(("bytes", "KiB", "MiB", "GiB"))
    unit = next(units)
    while number >= 1024 and unit != "GiB":
        number, unit = number / 1024, next(units)
    return f"{number:.4g} {unit}"
