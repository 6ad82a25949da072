"""Timing by interleaved medians: every ratio is between things measured in the same run."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

ROUNDS = 9


@dataclass(frozen=True)
class Row:
    """One line of the table. ``value`` is compared with ``bar`` by ``rule``.

    The rule is ``>=`` or ``<=``, or "" for a row without a bar.
    """

    name: str
    ours: float  # seconds
    peer: float
    peer_name: str
    value: float
    rule: str
    bar: float
    unit: str = "x"
    note: str = ""
    others: dict[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        if not self.rule:
            return True
        return self.value >= self.bar if self.rule == ">=" else self.value <= self.bar


def interleave(actions: dict[str, Callable[[], Any]], least: float = 0.02) -> dict[str, float]:
    """Median seconds of one call of each action over ``ROUNDS`` interleaved rounds."""
    counts = {name: repeats(action, least) for name, action in actions.items()}
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(ROUNDS):
        for name, action in actions.items():
            times[name].append(seconds_each(action, counts[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def repeats(action: Callable[[], Any], least: float) -> int:
    """How many calls take at least so many seconds."""
    action()
    count = 1
    while (spent := seconds_each(action, count) * count) < least and count < 10_000_000:
        count = max(count * 2, int(count * least / max(spent, 1e-9) / 2))
    return count


def seconds_each(action: Callable[[], Any], count: int) -> float:
    """Seconds of one of ``count`` calls."""
    repeat = range(count)
    start = time.perf_counter()
    for _ in repeat:
        action()
    return (time.perf_counter() - start) / count


def faster(name: str, times: dict[str, float], peer: str, bar: float, *, note: str = "") -> Row:
    """A row whose value says how many times faster than the peer ours is."""
    others = {k: v for k, v in times.items() if k not in ("ge2rt", peer)}
    value = times[peer] / times["ge2rt"]
    return Row(name, times["ge2rt"], times[peer], peer, value, ">=", bar, note=note, others=others)


def slower(name: str, times: dict[str, float], peer: str, bar: float, *, note: str = "") -> Row:
    """A row whose value says what multiple of the peer's time ours is."""
    others = {k: v for k, v in times.items() if k not in ("ge2rt", peer)}
    value = times["ge2rt"] / times[peer]
    return Row(name, times["ge2rt"], times[peer], peer, value, "<=", bar, note=note, others=others)


def beside(name: str, times: dict[str, float], peer: str, *, note: str = "") -> Row:
    """As `faster`, without a bar."""
    return replace(faster(name, times, peer, 0, note=note), rule="")


def _usable_cpus() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def machine() -> dict[str, Any]:
    """CPU model, vector ISA, BLAS kernel and threads: what the figures depend on."""
    import numpy as np

    info: dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": _usable_cpus(),
        "cpu": platform.processor() or platform.machine(),
    }
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        rows = dict(
            (part.strip() for part in line.split(":", 1))
            for line in cpuinfo.read_text().splitlines()
            if ":" in line
        )
        info["cpu"] = rows.get("model name", info["cpu"])
        flags = rows.get("flags", "").split()
        info["isa"] = next((f for f in ("avx512f", "avx2", "avx") if f in flags), "?")
    try:
        import threadpoolctl

        pools = threadpoolctl.threadpool_info()
        info["blas"] = [
            f"{p['internal_api']} {p.get('architecture', '?')} x{p['num_threads']}" for p in pools
        ]
    except ImportError:
        info["blas"] = ["unknown: threadpoolctl is not installed"]
    return info


def save(path: Path, info: dict[str, Any], rows: list[Row]) -> None:
    """Write machine and rows as JSON."""
    table = [{**asdict(row), "met": row.met} for row in rows]
    path.write_text(json.dumps({"machine": info, "rows": table}, indent=1) + "\n")


def show(info: dict[str, Any], rows: list[Row]) -> None:
    """Print the table."""
    print("  ".join(f"{key}: {value}" for key, value in info.items()))
    print(f"{'what':<34} {'ge2rt':>10} {'peer':>10}  {'ratio':>8}  bar")
    for row in rows:
        mark = "ok" if row.met else "MISSED"
        bar = f"{row.rule} {row.bar:g} {mark}" if row.rule else "no bar"
        others = "".join(f"  {k} {_short(v)}" for k, v in row.others.items())
        print(
            f"{row.name:<34} {_short(row.ours):>10} {_short(row.peer):>10}  "
            f"{row.value:>7.2f}{row.unit}  {bar}  ({row.peer_name}{others})"
            f"{'  ' + row.note if row.note else ''}"
        )


def _short(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
