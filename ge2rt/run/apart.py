"""Cases in a process of their own, so that a kernel which corrupts memory cannot end the check.

The other process runs this module: it reads requests and writes answers, one line of JSON each. A
case is named by its text, since the cases of a kernel are the same in every process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from ge2rt.base.errors import InternalError
from ge2rt.device.registry import get_device
from ge2rt.run.cases import Case
from ge2rt.run.check import Outcome, chosen, run_case
from ge2rt.spec.registry import default_registry, load_registry

DEATHS = 2  # of a kernel; its further cases are left out

_LEFT_OUT = f"its process died {DEATHS} times; the other cases were left out"
_STEP = "Run it with --checks memory to find the access"

# the modules of this process, whatever folder it runs in: a checkout there is not the library
_RUN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from ge2rt.run.apart import main; main(sys.argv[2:])"
)


class Apart:
    """Runs cases on the cpu device; use it in a ``with`` block."""

    def __init__(self, full: bool = False) -> None:
        self._full = full
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        """The outcome of each case (of one kernel), in order, as soon as it is known."""
        deaths = 0
        for case in cases:
            if deaths >= DEATHS:
                yield Outcome(case, (), 0.0, "left out", _LEFT_OUT, compiled=False)
                continue
            answer = self._ask(case)
            if answer is None:
                deaths += 1
                yield Outcome(case, (self._obituary(),), 0.0)
            else:
                yield Outcome(case, **{**answer, "faults": tuple(answer["faults"])})

    def _ask(self, case: Case) -> dict[str, Any] | None:
        """What the other process says of a case; None if it died."""
        if self._child is None:
            self._child = self._start()
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        request = {"kernel": case.kernel.name, "case": str(case), "full": self._full}
        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
        except OSError:  # it died between two cases
            return None
        line = child.stdout.readline()
        answer: dict[str, Any] | None = json.loads(line) if line.endswith("\n") else None
        return answer

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _RUN, json.dumps(sys.path), *default_registry().files]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def _obituary(self) -> str:
        """Say how the process ended; the next case gets a new one."""
        assert self._child is not None
        code = self._child.wait()
        self._stop()
        if code == 1:  # what Python gives for an exception, whose traceback stands above
            return "the process that ran it ended with exit status 1; see its message above"
        how = next((s.name for s in signal.Signals if s == -code), f"exit status {code}")
        return (
            f"the process died of {how}: the kernel used memory that is not its own, in this case"
            f" or in one before it. {_STEP}"
        )

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                _close(pipe)
        if child.poll() is None:
            child.kill()
        child.wait()


def _close(pipe: IO[str]) -> None:
    try:
        pipe.close()
    except OSError:  # what was not flushed to a dead process
        return


def _answer(request: Mapping[str, Any], known: dict[str, Case]) -> dict[str, Any]:
    """Run the case of a request; ``known`` holds the cases of the kernel asked for last."""
    text = request["case"]
    if text not in known:
        known.clear()
        kernel = default_registry().get(request["kernel"])
        known.update({str(case): case for case in chosen(kernel, request["full"])})
    if text not in known:
        raise InternalError(f"the case {text} is not the same in every process")
    outcome = run_case(known[text], get_device("cpu"))
    return {
        "faults": outcome.faults, "seconds": outcome.seconds, "skipped": outcome.skipped,
        "note": outcome.note, "compiled": outcome.compiled,
    }  # fmt: skip


def main(files: Sequence[str]) -> None:
    """Answer the requests on stdin until it ends. What kernels print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for path in files:
        if path not in default_registry().files:
            load_registry(path)
    known: dict[str, Case] = {}
    with contextlib.suppress(KeyboardInterrupt):  # told by the process that asks
        for line in sys.stdin:
            answers.write(json.dumps(_answer(json.loads(line), known)) + "\n")
            answers.flush()
