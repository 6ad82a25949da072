"""One run as a Chrome trace: for about:tracing, Perfetto and other viewers of that format.

The format: "Trace Event Format" (Chromium project), complete events (``"ph": "X"``), microseconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ge2rt.report.records import Report, StepRecord


def trace_events(report: Report) -> dict[str, Any]:
    """The trace as a JSON object; no event where nothing was timed."""
    names = [
        _meta("process_name", f"{report.name} on {report.device}"),
        _meta("thread_name", "steps"),
    ]
    events = [_event(step) for step in report.steps if step.start is not None]
    return {"traceEvents": names + events, "displayTimeUnit": "ns"}


def write_trace(report: Report, path: str | Path) -> None:
    """Write the trace's JSON text."""
    Path(path).write_text(json.dumps(trace_events(report), indent=1) + "\n", "utf-8")


def _meta(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": 1, "tid": 1, "args": {"name": value}}


def _event(step: StepRecord) -> dict[str, Any]:
    return {
        "name": step.label, "cat": "library" if step.library else "kernel", "ph": "X",
        "pid": 1, "tid": 1, "ts": (step.start or 0.0) * 1e6, "dur": (step.lasted or 0.0) * 1e6,
        "args": {
            "step": step.number, "kernel": step.kernel or step.library,
            "launch": step.launch, "bytes read": step.bytes_read,
            "bytes written": step.bytes_written,
        },
    }  # fmt: skip
