"""``ge2rt cache``: look into the compile cache."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.build.compile import why_missed
from ge2rt.build.store import default_store
from ge2rt.cli.calls import CALL_HELP, attrs_option, descs_argument, parse_attrs, parse_inputs
from ge2rt.run.offline import arch_props, problem_for
from ge2rt.spec.registry import default_registry

_HEX = re.compile(r"[0-9a-f]{3,64}")
_LEAST_DIGITS = 6


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
    """Compare checksums of all entries; exits with 1 if one is bad."""
    faults = default_store().verify()
    for digest, fault in faults:
        click.echo(f"{digest}: {fault}", err=True)
    click.echo(f"{len(list(default_store().entries()))} entries, {len(faults)} bad")
    sys.exit(1 if faults else 0)


@cache.command(epilog=CALL_HELP)
@click.argument("what")
@descs_argument
@attrs_option
@click.option("--arch", default="sm_80", show_default=True, help="Architecture of the call.")
@click.option(
    "--emit",
    type=click.Choice(["ptx", "cubin"]),
    default="ptx",
    show_default=True,
    help="What was compiled: ptx for the cpu device, cubin for a GPU.",
)
def explain(
    what: str, descs: tuple[str, ...], attrs: tuple[str, ...], arch: str, emit: str
) -> None:
    """Print the key parts of an entry, or why a call misses.

    WHAT is a digest (or at least 6 digits of its beginning), or a kernel, with DESCS. A miss shows
    what differs from the nearest entry; of the source, the lines.
    """
    digest = _digest(what)
    if digest:
        click.echo(str(default_store().explain(digest) or "the entry was stored without its key"))
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


def _digest(text: str) -> str:
    """The digest that begins with ``text``; empty if it is no beginning of one."""
    registry = default_registry()
    if not _HEX.fullmatch(text) or text in registry or registry.kernels_of(text):
        return ""
    if len(text) < _LEAST_DIGITS:
        raise InvalidArgumentError(
            "neither a kernel nor enough of a digest", got=text,
            expected=f"a kernel, or at least {_LEAST_DIGITS} hex digits of an entry's digest",
        )  # fmt: skip
    found = [e.digest for e in default_store().entries() if e.digest.startswith(text)]
    if len(found) != 1:
        many = f"{len(found)} entries of the cache begin with this digest"
        raise InvalidArgumentError(
            many if found else "no entry of the cache begins with this digest", got=text,
            next_step="give more digits" if found else "`ge2rt cache info` names the folder",
        )  # fmt: skip
    return found[0]


def _size(count: Any) -> str:
    number, units = float(count), iter(("bytes", "KiB", "MiB", "GiB"))
    unit = next(units)
    while number >= 1024 and unit != "GiB":
        number, unit = number / 1024, next(units)
    return f"{number:.4g} {unit}"
