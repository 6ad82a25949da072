"""``ge2rt check``: validate, compile for architectures, run against the reference."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.progress import Progress, TaskID

from ge2rt.base import switches
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.cli.screen import console, table
from ge2rt.device.api import Device
from ge2rt.device.registry import get_device
from ge2rt.run.apart import Apart
from ge2rt.run.cases import why_none
from ge2rt.run.check import NOTHING_RAN, Compiled, Outcome, chosen, compile_for, run_case, settle
from ge2rt.spec.model import KernelSpec
from ge2rt.spec.registry import Registry, default_registry, load_registry

SHOWN_FAULTS = 2  # cases of each kernel
_FEW = 8  # kernels whose results are not waited for long

T = TypeVar("T")

_NUMBER = re.compile(r"[0-9][0-9.e+-]*")


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--kernel", "names", multiple=True, help="Only these kernels.")
@click.option(
    "--device", default="auto", show_default=True, help="Where to run: cpu, cuda, cuda:N or auto."
)
@click.option("--arch", default="", help="Also build cubins: sm_75,sm_80,...")
@click.option("--compile-only", is_flag=True, help="Build cubins (for sm_80) and run nothing.")
@click.option("--full", is_flag=True, help="The whole grid of cases, not the quick one.")
@click.option(
    "--checks",
    default="",
    help="Under checks on the cpu device: memory,race,init,sync, all or none."
    " Default: memory for FILE, none for the registry.",
)
def check(
    file: Path | None, names: tuple[str, ...], device: str, arch: str, compile_only: bool,
    full: bool, checks: str,
) -> None:  # fmt: skip
    """Check all kernels of FILE (default: the registry): YAML, templates, compilation, results.

    Each kernel runs over a grid of sizes, dtypes, strides and attributes and is compared with its
    reference. Exits with 1 on any fault. The whole registry takes tens of minutes, with --full more
    than an hour; --kernel picks some of it.
    """
    kernels = _kernels(file, names)
    screen = console()
    good = True
    if arch or compile_only:
        arches = [part.strip() for part in (arch or "sm_80").split(",")]
        good = _compile(screen, kernels, arches)
    if not compile_only:
        where, wanted = _where(device, checks, file is not None)
        checking = switches.setting("GE2RT_CHECK", wanted) if wanted is not None else None
        with checking or contextlib.nullcontext():
            good = _run(screen, kernels, where, full) and good
    sys.exit(0 if good else 1)


def _checks(text: str) -> str:
    names = switches.CHECKS if text == "all" else [part.strip() for part in text.split(",")]
    unknown = sorted(set(names) - set(switches.CHECKS))
    if unknown:
        known = ", ".join((*switches.CHECKS, "all", "none"))
        raise click.BadParameter(f"{', '.join(unknown)}: not out of {known}", param_hint="--checks")
    return ",".join(names)


def _where(name: str, checks: str, own: bool) -> tuple[Device, str | None]:
    """The device, and what to set GE2RT_CHECK to (None: leave it as it is)."""
    if checks not in ("", "none"):
        if name not in ("auto", "cpu"):
            raise click.UsageError("checks run on the cpu device only: leave out --device")
        return get_device("cpu"), _checks(checks)
    device = get_device(name)
    if checks == "none":
        return device, ""
    if own and not switches.get("GE2RT_CHECK") and _is_here(device):
        return device, "memory"
    return device, None


def _is_here(device: Device) -> bool:
    """Whether kernels run in this process, so that a wrong one can harm it."""
    return device.name == "cpu"


def _kernels(file: Path | None, names: Iterable[str]) -> list[KernelSpec]:
    """The kernels to check; every file among them is validated anew, with all its faults."""
    registry = default_registry()
    files = registry.files if file is None else (str(file),)
    found_names = [name for path in files for name in load_registry(path, into=Registry()).names()]
    known = {Path(path).resolve() for path in registry.files}
    if file is not None and file.resolve() not in known:
        load_registry(file)
    found = [registry.get(name) for name in dict.fromkeys(found_names)]
    unknown = set(names) - {kernel.name for kernel in found}
    if unknown:
        raise InvalidArgumentError(
            "no kernel of this name to check", got=", ".join(sorted(unknown)),
            expected=", ".join(kernel.name for kernel in found),
        )  # fmt: skip
    return [kernel for kernel in found if not names or kernel.name in names]


def _compile(screen: Console, kernels: list[KernelSpec], arches: list[str]) -> bool:
    """Build cubins and print a table, then why kernels were turned down or failed."""
    shown = table("kernel", *arches)
    reasons: list[str] = []
    faults: list[str] = []
    with _progress(screen) as progress:
        task = progress.add_task("compile", total=len(kernels) * len(arches))
        for kernel in kernels:
            results = [compile_for(kernel, arch) for arch in _stepping(progress, task, arches)]
            shown.add_row(kernel.name, *(_cell(result) for result in results))
            reasons += [f"{kernel.name} for {r.arch}: turned down, {r.turned_down}"
                        for r in results if r.turned_down]  # fmt: skip
            faults += [f"{kernel.name} for {r.arch}: {r.fault}" for r in results if r.fault]
    screen.print(shown)
    for reason in reasons:
        screen.print(reason, style="yellow", markup=False)
    for fault in faults:
        screen.print(fault, style="red", markup=False, soft_wrap=True)
    count = len(kernels) * len(arches)
    screen.print(f"{count - len(reasons) - len(faults)} of {count} compiled, "
                 f"{len(reasons)} turned down, {len(faults)} faulty")  # fmt: skip
    return not faults


def _cell(result: Compiled) -> str:
    if result.fault:
        return "[red]fault[/]"
    if result.turned_down:
        return "[yellow]-[/]"
    return f"{len(result.sizes)} cubin{'s' if len(result.sizes) > 1 else ''}"


def _run(screen: Console, kernels: list[KernelSpec], where: Device, full: bool) -> bool:
    """Run all cases and print a table, then the first faults."""
    numbers = ("cases", "passed", "not plain", "left out", "seconds")
    shown = table("kernel", *numbers, right=numbers)
    everything: list[Outcome] = []
    without: list[str] = []
    with _progress(screen) as progress, Apart(full) as apart:
        for kernel in kernels:
            cases = chosen(kernel, full)
            task = progress.add_task(kernel.name, total=len(cases))
            steps = _stepping(progress, task, cases)
            ran = apart.run(list(cases)) if _is_here(where) else (run_case(c, where) for c in cases)
            outcomes = settle([outcome for outcome, _ in zip(ran, steps, strict=True)])
            progress.remove_task(task)
            if not screen.is_terminal and len(kernels) > _FEW:  # where no bar is seen
                good = sum(not (o.faults or o.skipped) for o in outcomes)
                click.echo(f"{kernel.name}: {good} of {len(outcomes)} passed", err=True)
            shown.add_row(kernel.name, *_figures(outcomes))
            everything += outcomes
            if not cases:
                without.append(f"{kernel.name}: no case can be made: {why_none(kernel)}")
    screen.print(shown)
    faulty = [o for o in everything if o.faults]
    for line in (*without, *_faults(faulty)):
        screen.print(line, style="red", markup=False, soft_wrap=True)
    for line in _notes(everything):
        screen.print(line, style="yellow", markup=False, soft_wrap=True)
    passed = sum(1 for o in everything if not o.faults and not o.skipped)
    under = ", ".join(sorted(switches.get("GE2RT_CHECK")))
    screen.print(f"{passed} of {len(everything)} cases passed on {where.name}"
                 + (f" under checks: {under}" if under and _is_here(where) else ""))  # fmt: skip
    return not faulty and not without


def _notes(outcomes: list[Outcome]) -> list[str]:
    """What was left out, once for each kernel."""
    notes = [f"{o.case.kernel.name}: {o.note}" for o in outcomes if o.note]
    notes += [f"{o.case.kernel.name}: cases left out: {NOTHING_RAN}"
              for o in outcomes if o.skipped == NOTHING_RAN]  # fmt: skip
    return list(dict.fromkeys(notes))


def _figures(outcomes: list[Outcome]) -> list[str]:
    bad = sum(1 for o in outcomes if o.faults)
    skipped = sum(1 for o in outcomes if o.skipped)
    passed = len(outcomes) - bad - skipped
    return [
        str(len(outcomes)), f"[{'red' if bad else 'green'}]{passed}[/]",
        str(sum(not o.case.plain for o in outcomes)), str(skipped),
        f"{sum(o.seconds for o in outcomes):.1f}",
    ]  # fmt: skip


def _faults(faulty: list[Outcome]) -> list[str]:
    """Some faulty cases of each kernel, with different faults as far as there are any."""
    told: dict[str, dict[str, str]] = {}
    for outcome in faulty:
        text = "; ".join(outcome.faults)
        of_kernel = told.setdefault(outcome.case.kernel.name, {})
        kind = _NUMBER.sub("#", text.partition("\n")[0])  # extents, and code that is quoted, vary
        if len(of_kernel) < SHOWN_FAULTS:
            of_kernel.setdefault(kind, f"{outcome.case}: {text}")
    lines = [line for of_kernel in told.values() for line in of_kernel.values()]
    more = len(faulty) - len(lines)
    return [*lines, *([f"... and {more} more case{'s' if more > 1 else ''}"] if more else [])]


def _progress(screen: Console) -> Progress:
    return Progress(console=screen, transient=True, disable=not screen.is_terminal)


def _stepping(progress: Progress, task: TaskID, items: Sequence[T]) -> Iterator[T]:
    """The items, advancing the task after each."""
    for item in items:
        yield item
        progress.advance(task)
