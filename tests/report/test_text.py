from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from report.report_samples import kernel, made, report, step

from ge2rt.report.text import (
    bytes_text,
    clip,
    fair_cap,
    kernel_facts,
    print_report,
    rate_text,
    seconds_text,
)
from ge2rt.report.trace import trace_events, write_trace

GOLDEN = """\
f(x: f32[4]) on cpu
  Run: 3.50 us (median of 9, arrays given)
  Kernels: 1 (2 launches)
  Workspace: 128 B (256 B saved by reuse)
  Compiled in: 250 ms (1 of 1 kernels by the compiler)
     step            time   share      read   written       rate  launch
  0  mul exp sub  3.00 us  75.0 %  2.00 KiB  2.00 KiB  1.37 GB/s  2 blocks of 128 threads
  1  mul exp sub  1.00 us  25.0 %  2.00 KiB  2.00 KiB  4.10 GB/s  2 blocks of 128 threads"""


def test_the_text_of_a_report() -> None:
    assert print_report(made()) == GOLDEN


def test_a_real_report_prints_a_line_a_step() -> None:
    found = report("layered")
    lines = print_report(found).splitlines()
    assert len(lines) == 6 + len(found.steps)
    assert "call of NumPy's BLAS" in print_report(found)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, "-"), (0.0, "0 ns"), (2.5e-10, "0.25 ns"), (1.23456e-7, "123 ns"),
        (9.996e-6, "10.0 us"), (9.99e-4, "999 us"), (9.999e-4, "1.00 ms"), (0.0123, "12.3 ms"),
        (75.0, "75.0 s"), (1234.0, "1234 s"),
    ],
)  # fmt: skip
def test_seconds(seconds: float | None, expected: str) -> None:
    assert seconds_text(seconds) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.50 KiB"),
        (3 << 20, "3.00 MiB"),
        (5 << 30, "5.00 GiB"),
    ],
)
def test_bytes(count: int, expected: str) -> None:
    assert bytes_text(count) == expected


def test_rates() -> None:
    assert rate_text(None) == "-"
    assert rate_text(12.34e9) == "12.3 GB/s"


def test_a_launch_in_words() -> None:
    assert step(0).launch == "2 blocks of 128 threads"
    assert step(0, grid=(4, 3, 1), block=(8, 8, 2)).launch == "4 x 3 blocks of 8 x 8 x 2 threads"
    assert step(0, grid=(1, 1, 1), block=(1, 1, 1)).launch == "1 block of 1 thread"
    assert step(0, kernel="", library="BLAS").launch == "call of BLAS"
    assert step(0, kernel="").launch == "nothing to launch"


def test_facts_of_a_kernel() -> None:
    facts = dict(kernel_facts(kernel()))
    assert facts["made from"] == "fused.cu.j2, generated for this graph"
    assert facts["virtual registers"] == "4 f32"
    facts = dict(kernel_facts(kernel(generated=False, static=False, registers=40)))
    assert facts["made from"] == "fused.cu.j2"
    assert facts["compiled for"] == "any shape"
    assert facts["registers a thread"] == "40"


def test_clip_cuts_after_a_line() -> None:
    assert clip("a\nb\n", 10) == ("a\nb\n", "")
    text, told = clip("aaa\nbbb\nccc", 9)
    assert text == "aaa\nbbb\n"
    assert told.startswith("The first 2 of 3 lines")


@pytest.mark.parametrize(
    ("lengths", "total", "expected"),
    [([1, 2, 3], 10, 3), ([10, 10], 10, 5), ([1, 10, 10], 11, 5), ([], 5, 0)],
)
def test_fair_cap(lengths: list[int], total: int, expected: int) -> None:
    assert fair_cap(lengths, total) == expected
    assert sum(min(length, expected) for length in lengths) <= total


def test_the_trace_has_one_event_a_step(tmp_path: Path) -> None:
    events = trace_events(made())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [(e["ts"], e["dur"]) for e in spans] == [(0.0, 2.0), (2.0, 1.0)]
    assert spans[0]["args"]["launch"] == "2 blocks of 128 threads"
    write_trace(made(), tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text("utf-8")) == trace_events(made())


def test_an_untimed_trace_is_empty() -> None:
    found = made(steps=(step(0),))
    assert [e["ph"] for e in trace_events(found)["traceEvents"]] == ["M", "M"]


def test_a_real_trace_does_not_overlap() -> None:
    spans = [e for e in trace_events(report("layered"))["traceEvents"] if e["ph"] == "X"]
    assert len(spans) == len(report("layered").steps)
    for one, other in pairwise(spans):
        assert one["ts"] + one["dur"] <= other["ts"] + 1e-3
