"""Threads that wait for each other make progress; run in another process, which may hang."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from cpu.waiting_programs import PROGRAMS

HERE = Path(__file__).parent
PARTS = {"one thread": "1", "two threads": "2"}


@cache
def answers(threads: str) -> dict[str, str]:
    path = os.pathsep.join([str(HERE.parent), *sys.path])
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / "waiting_programs.py")], capture_output=True, text=True,
            timeout=300, env={**os.environ, "PYTHONPATH": path, "GE2RT_THREADS": threads},
        )  # fmt: skip
        out = done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        out = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
    return dict(line.split(" ", 1) for line in out.splitlines() if " " in line)


@pytest.mark.parametrize("threads", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_waiting_programs_end_with_the_right_values(name: str, threads: str) -> None:
    assert answers(threads).get(name, "did not end") == "ok"
