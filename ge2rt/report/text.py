"""A report as text for a terminal: what ran, how long, how much memory. Also units in words."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.base.text import counted, one_line
from ge2rt.report.records import KernelRecord, Report, StepRecord

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_BYTES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def seconds_text(seconds: float | None) -> str:
    """Three digits and a unit; a dash without a time."""
    if seconds is None:
        return "-"
    for size, unit in _TIMES:
        if seconds >= 0.9995 * size:
            return f"{_three(seconds / size)} {unit}"
    return "0 ns" if seconds <= 0 else f"{_three(seconds / 1e-9)} ns"


def bytes_text(count: float) -> str:
    """Three digits and a unit of powers of 1,024."""
    for size, unit in _BYTES:
        if count >= size:
            return f"{_three(count / size)} {unit}"
    return f"{count:.0f} B"


def rate_text(rate: float | None) -> str:
    """Gigabytes (10^9) a second; a dash without a time."""
    return "-" if rate is None else f"{_three(rate / 1e9)} GB/s"


def share_text(share: float) -> str:
    """Per cent."""
    return f"{share * 100:.1f} %"


def _three(value: float) -> str:
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}"


def summary(report: Report) -> list[tuple[str, str, str]]:
    """The figures on top: (name, figure, explanation)."""
    distinct = len(report.kernels)
    libraries = sum(bool(step.library) for step in report.steps)
    memory = report.memory
    other = f", {counted(libraries, 'library call')}" if libraries else ""
    return [
        ("Run", seconds_text(report.timing.whole), _timed(report)),
        ("Kernels", str(distinct), counted(report.launches, "launch", "es") + other),
        ("Workspace", bytes_text(memory.workspace),
         f"{bytes_text(memory.saved)} saved by reuse" if memory.saved else "nothing to reuse"),
        ("Compiled in", seconds_text(report.compile_seconds),
         f"{report.compiled} of {distinct} kernels by the compiler"),
    ]  # fmt: skip


def _timed(report: Report) -> str:
    timing = report.timing
    if timing.whole is None:
        return timing.note or "not run"
    return f"median of {timing.rounds}, arrays {timing.arrays.partition(':')[0]}"


def print_report(report: Report) -> str:
    """The summary and one line a step."""
    lines = [f"{report.name}({one_line(report.signature, 300)}) on {report.device}"]
    lines += [f"  {name}: {figure} ({told})" for name, figure, told in summary(report)]
    rows: list[tuple[str, ...]] = [
        ("", "step", "time", "share", "read", "written", "rate", "launch")
    ]
    rows += [_row(report, step) for step in report.steps]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines += ["  " + "  ".join(_cells(row, widths)).rstrip() for row in rows]
    lines += [f"  note: {note}" for note in (*report.notes, report.timing.note) if note]
    return "\n".join(lines)


def _row(report: Report, step: StepRecord) -> tuple[str, ...]:
    return (
        str(step.number), _short(step.label), seconds_text(step.seconds),
        share_text(report.share(step)), bytes_text(step.bytes_read),
        bytes_text(step.bytes_written), rate_text(step.bandwidth), step.launch,
    )  # fmt: skip


def _short(label: str) -> str:
    return label if len(label) <= 44 else f"{label[:41]}..."


def _cells(row: tuple[str, ...], widths: list[int]) -> list[str]:
    """Words to the left, figures to the right."""
    return [
        cell.ljust(width) if i in (1, 7) else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def kernel_facts(kernel: KernelRecord) -> list[tuple[str, str]]:
    """(name, text) of what is known of a kernel."""
    made = ", generated for this graph" if kernel.generated else ""
    facts = [
        ("made from", kernel.template + made),
        ("compiled for", "this shape" if kernel.static else "any shape"),
        ("PTX instructions", str(kernel.instructions.total)),
    ]  # fmt: skip
    if kernel.registers >= 0:
        facts.append(("registers a thread", str(kernel.registers)))
    else:
        declared = kernel.instructions.registers
        listed = ", ".join(f"{count} {kind}" for kind, count in declared.items())
        facts.append(("virtual registers", listed or "none"))
    facts.append(("static shared memory", bytes_text(kernel.shared_static)))
    return facts


def clip(text: str, most: int) -> tuple[str, str]:
    """A text cut after whole lines, and a sentence about it ("" where nothing was cut)."""
    if len(text) <= most:
        return text, ""
    shown = text[: text.rfind("\n", 0, most) + 1] or text[:most]
    lines, total = shown.count("\n"), text.count("\n") + 1
    return shown, f"The first {lines} of {total} lines; compiled.stages has all."


def fair_cap(lengths: Sequence[int], total: int) -> int:
    """The largest cap under which the lengths, each cut to it, sum up to at most ``total``."""
    left, cap = total, 0
    ordered = sorted(lengths)
    for number, length in enumerate(ordered):
        cap = left // (len(ordered) - number)
        if length > cap:
            return cap
        left -= length
    return max(ordered, default=0)
