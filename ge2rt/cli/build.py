"""``ge2rt render`` and ``ge2rt build``: one specialisation, as text or compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.build.compile import build as build_problem
from ge2rt.build.records import Problem
from ge2rt.build.render import render as render_problem
from ge2rt.cli.calls import CALL_HELP, attrs_option, descs_argument, parse_attrs, parse_inputs
from ge2rt.run.offline import arch_props, problem_for

_dynamic_option = click.option(
    "--dynamic", is_flag=True, help="Extents and strides as arguments, not compiled in."
)


@click.command(epilog=CALL_HELP)
@click.argument("name")
@descs_argument
@attrs_option
@click.option("--arch", default="sm_80", show_default=True, help="Architecture.")
@_dynamic_option
@click.option("--lines", is_flag=True, help="Beside each line its template's and its own number.")
def render(
    name: str, descs: tuple[str, ...], attrs: tuple[str, ...], arch: str, dynamic: bool, lines: bool
) -> None:
    """Print the CUDA source of kernel (or op type) NAME for inputs DESCS.

    The lines are what is compiled but for blanks at their beginning and above the first.
    """
    source = render_problem(_problem(name, descs, attrs, arch, dynamic))
    begun = False
    for number, line in enumerate(_indented(source.text.splitlines()), 1):
        begun = begun or bool(line.strip())
        file, at = source.line_map.find(number)
        if begun:
            click.echo(f"{f'{file}:{at}':>32} | {number:>4} | {line}" if lines else line)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    """The lines, with those of macros, which begin at the margin, moved into their blocks."""
    depth = 0
    for line in lines:
        text = line.lstrip()
        least = 2 * (depth - (len(text) - len(text.lstrip("}"))))
        moved = text and not text.startswith("#") and len(line) - len(text) < least
        yield " " * least + text if moved else line
        depth = max(depth + text.count("{") - text.count("}"), 0)


@click.command(epilog=CALL_HELP)
@click.argument("name")
@descs_argument
@attrs_option
@click.option(
    "--arch", default="sm_80", show_default=True, help="Architectures, separated by commas."
)
@click.option(
    "--emit",
    type=click.Choice(["cuda", "ptx", "cubin"]),
    default="cubin",
    show_default=True,
    help="What to write: the rendered source, or what NVRTC makes of it.",
)
@_dynamic_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder (default: the current one); - for stdout.",
)
def build(
    name: str, descs: tuple[str, ...], attrs: tuple[str, ...], arch: str, emit: str, dynamic: bool,
    output: Path | None,
) -> None:  # fmt: skip
    """Compile kernel (or op type) NAME for inputs DESCS and write one file an architecture.

    Exits with 1 if the kernel does not run on one of them, after the others are written.
    """
    turned_down = 0
    for each in arch.split(","):
        try:
            problem = _problem(name, descs, attrs, each.strip(), dynamic)
        except UnsupportedError as fault:
            record = fault.record
            wanted = f"; expected {record.expected}, got {record.got}" if record.expected else ""
            click.echo(f"{each.strip()}: turned down, {record.message}{wanted}", err=True)
            turned_down += 1
            continue
        _write(problem, emit, output)
    sys.exit(1 if turned_down else 0)


def _problem(
    name: str, descs: tuple[str, ...], attrs: tuple[str, ...], arch: str, dynamic: bool
) -> Problem:
    inputs = parse_inputs(descs, "cuda")
    return problem_for(name, inputs, parse_attrs(attrs), arch_props(arch), static=not dynamic)


def _write(problem: Problem, emit: str, output: Path | None) -> None:
    if emit == "cuda":
        data = render_problem(problem).text.encode("utf-8")
    else:
        data = build_problem(problem, emit).data
    if str(output) == "-":
        sys.stdout.buffer.write(data)
        return
    suffix = {"cuda": "cu", "ptx": "ptx", "cubin": "cubin"}[emit]
    folder = output or Path()
    path = folder / f"{problem.kernel.name}.{problem.arch}.{suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as fault:
        raise InvalidArgumentError(
            "the result cannot be written", argument="--output", got=f"{path}: {fault.strerror}",
            next_step="name a folder that can be written, or - for stdout",
        ) from None  # fmt: skip
    click.echo(f"{path}: {len(data)} bytes")
