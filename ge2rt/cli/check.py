"""``ge2rt check``: validate, compile for architectures, run against the reference."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.device.registry import get_device
from ge2rt.run.cases import cases_for
from ge2rt.run.check import Compiled, Outcome, compile_for, run_case
from ge2rt.spec.model import KernelSpec
from ge2rt.spec.registry import Registry, default_registry, load_registry

SHOWN_FAULTS = 5


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--kernel", "names", multiple=True, help="Only these kernels.")
@click.option("--device", default="auto", help="Where to run: cpu, cuda, cuda:N or auto.")
@click.option("--arch", default="", help="Also build cubins: sm_75,sm_80,...")
@click.option("--compile-only", is_flag=True, help="Do not run anything.")
@click.option("--full", is_flag=True, help="The whole grid of cases, not the quick one.")
def check(
    file: Path | None, names: tuple[str, ...], device: str, arch: str, compile_only: bool,
    full: bool,
) -> None:  # fmt: skip
    """Check all kernels of FILE (default: the registry): YAML, templates, compilation, results.

    Exits with 1 on any fault.
    """
    kernels = _kernels(file, names)
    console = Console()
    good = True
    if arch or compile_only:
        arches = [part.strip() for part in (arch or "sm_80").split(",")]
        good = _compile(console, kernels, arches)
    if not compile_only:
        good = _run(console, kernels, device, full) and good
    sys.exit(0 if good else 1)


def _kernels(file: Path | None, names: Iterable[str]) -> list[KernelSpec]:
    registry = default_registry()
    for path in [file] if file else registry.files:
        alone = load_registry(path, into=Registry())  # validates everything, reports all faults
    if file is not None and str(file.resolve()) not in registry.files:
        load_registry(file)
    names_found = alone.names() if file is not None else registry.names()
    found = [registry.get(name) for name in names_found]
    wanted = set(names)
    unknown = wanted - {kernel.name for kernel in found}
    if unknown:
        raise InvalidArgumentError(
            "no kernel of this name to check", got=", ".join(sorted(unknown)),
            expected=", ".join(kernel.name for kernel in found),
        )  # fmt: skip
    return [kernel for kernel in found if not wanted or kernel.name in wanted]


def _compile(console: Console, kernels: list[KernelSpec], arches: list[str]) -> bool:
    table = Table("kernel", *arches, box=None)
    faults: list[str] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("compile", total=len(kernels) * len(arches))
        for kernel in kernels:
            cells = []
            for arch in arches:
                result = compile_for(kernel, arch)
                cells.append(_cell(result))
                if result.fault:
                    faults.append(f"{kernel.name} for {arch}: {result.fault}")
                progress.advance(task)
            table.add_row(kernel.name, *cells)
    console.print(table)
    for fault in faults:
        console.print(fault, style="red", markup=False)
    return not faults


def _cell(result: Compiled) -> str:
    if result.fault:
        return "[red]FAULT[/]"
    if result.turned_down:
        return f"[yellow]turned down: {escape(result.turned_down)}[/]"
    return f"{len(result.sizes)} cubin{'s' if len(result.sizes) > 1 else ''}"


def _run(console: Console, kernels: list[KernelSpec], device: str, full: bool) -> bool:
    where = get_device(device)
    table = Table("kernel", "cases", "passed", "plain", "turned down", "seconds", box=None)
    faults: list[Outcome] = []
    totals = [0, 0]
    with Progress(console=console, transient=True) as progress:
        for kernel in kernels:
            cases = cases_for(kernel, full)
            task = progress.add_task(kernel.name, total=len(cases))
            outcomes = []
            for case in cases:
                outcomes.append(run_case(case, where))
                progress.advance(task)
            progress.remove_task(task)
            bad = [o for o in outcomes if o.faults]
            faults += bad
            skipped = sum(1 for o in outcomes if o.skipped)
            passed = len(outcomes) - len(bad) - skipped
            totals[0] += len(outcomes)
            totals[1] += passed
            table.add_row(
                kernel.name, str(len(outcomes)), f"[{'red' if bad else 'green'}]{passed}[/]",
                str(sum(o.case.plain for o in outcomes)), str(skipped or ""),
                f"{sum(o.seconds for o in outcomes):.1f}",
            )  # fmt: skip
    console.print(table)
    for outcome in faults[:SHOWN_FAULTS]:
        console.print(f"{outcome.case}: {'; '.join(outcome.faults)}", style="red", markup=False)
    if len(faults) > SHOWN_FAULTS:
        console.print(f"... and {len(faults) - SHOWN_FAULTS} more")
    console.print(f"{totals[1]} of {totals[0]} cases passed on {where.name}", markup=False)
    return not faults
