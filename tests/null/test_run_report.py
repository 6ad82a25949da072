"""What a failed contract call says when nobody asks."""

from __future__ import annotations

import subprocess
import sys

FAILING = "import ge2rt; print(ge2rt.launch_kernel('nowhere', [], {'buffers': []}))"
SILENCED = (
    f"import logging; logging.getLogger('ge2rt').addHandler(logging.NullHandler()); {FAILING}"
)


def _said(code: str) -> tuple[str, str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_a_failure_is_told_on_stderr_unless_it_is_handled() -> None:
    out, err = _said(FAILING)
    assert out == "-1\n"
    assert err.count("\n") == 1
    assert "nowhere: no kernel of this name" in err
    assert _said(SILENCED) == ("-1\n", "")
