"""``ge2rt render`` and ``ge2rt build``: one specialisation, as text or compiled."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ge2rt.base.errors import UnsupportedError
from ge2rt.build.compile import build as build_problem
from ge2rt.build.records import Problem
from ge2rt.build.render import render as render_problem
from ge2rt.cli.calls import attrs_option, descs_argument, parse_attrs, parse_inputs
from ge2rt.run.offline import arch_props, problem_for

_dynamic_option = click.option(
    "--dynamic", is_flag=True, help="Extents and strides as arguments, not compiled in."
)


@click.command()
@click.argument("name")
@descs_argument
@attrs_option
@click.option("--arch", default="sm_80", help="Architecture, e.g. sm_90.")
@_dynamic_option
@click.option("--lines", is_flag=True, help="Show the template's file and line beside each line.")
def render(
    name: str, descs: tuple[str, ...], attrs: tuple[str, ...], arch: str, dynamic: bool, lines: bool
) -> None:
    """Print the CUDA source of kernel (or op type) NAME for inputs DESCS: f32[128,64] ..."""
    source = render_problem(_problem(name, descs, attrs, arch, dynamic))
    for number, line in enumerate(source.text.splitlines(), 1):
        file, at = source.line_map.find(number)
        click.echo(f"{f'{file}:{at}':>32} | {line}" if lines else line)


@click.command()
@click.argument("name")
@descs_argument
@attrs_option
@click.option("--arch", default="sm_80", help="Architectures, separated by commas.")
@click.option(
    "--emit", type=click.Choice(["cuda", "ptx", "cubin"]), default="cubin", help="What to write."
)
@_dynamic_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder; - for stdout.")
def build(
    name: str, descs: tuple[str, ...], attrs: tuple[str, ...], arch: str, emit: str, dynamic: bool,
    output: Path | None,
) -> None:  # fmt: skip
    """Compile kernel (or op type) NAME for inputs DESCS and write one file an architecture."""
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
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{problem.kernel.name}.{problem.arch}.{suffix}"
    path.write_bytes(data)
    click.echo(f"{path}: {len(data)} bytes")
