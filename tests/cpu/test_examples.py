"""What README and the first-kernel page show is what is there, and it runs."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ge2rt
from ge2rt.device.registry import get_device
from ge2rt.run.cases import cases_for
from ge2rt.run.check import run_case
from ge2rt.spec.registry import default_registry

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "first_kernel"
PAGE = (ROOT / "docs" / "your-first-kernel.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _own_registry():
    ge2rt.clear_caches()
    yield
    ge2rt.clear_caches()


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def without_comments(yaml: str) -> list[str]:
    return [re.sub(r"\s+#.*", "", line) for line in yaml.splitlines()]


def test_the_page_shows_the_files_of_the_example():
    (declaration,) = blocks(PAGE, "yaml")
    assert without_comments(declaration) == (EXAMPLE / "my_kernels.yaml").read_text().splitlines()
    (template,) = blocks(PAGE, "jinja")
    assert template == (EXAMPLE / "templates" / "saxpy.cu.j2").read_text()
    (program,) = blocks(PAGE, "python")
    assert program == (EXAMPLE / "run.py").read_text()


def test_the_example_runs(capsys):
    runpy.run_path(str(EXAMPLE / "run.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert shown == f"saxpy: {3 * np.arange(0, 20, 2, dtype=np.float32) + 1}\n"


def test_the_example_runs_as_its_own_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE / "run.py"], cwd=tmp_path, capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("saxpy: [ 1.  7. 13.")


def test_the_example_agrees_with_its_reference():
    ge2rt.load_registry(EXAMPLE / "my_kernels.yaml")
    kernel = default_registry().get("saxpy")
    outcomes = [run_case(case, get_device("cpu")) for case in cases_for(kernel)]
    assert [o for o in outcomes if o.faults or o.skipped] == []
    assert len(outcomes) >= 20


def test_the_python_of_the_readme_runs(capsys):
    names: dict[str, object] = {}
    for block in blocks(README, "python"):
        exec(compile(block, "README.md", "exec"), names)
    x, w, y, z = (np.asarray(names[n]) for n in "xwyz")
    pre = x.astype(np.float64) @ w
    gelu = pre * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (pre + 0.044715 * pre**3)))
    np.testing.assert_allclose(y, gelu, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(z.sum(-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(names["out"], x)
    assert names["code"] == 0
    assert "-> gemm_bias_act_f32" in capsys.readouterr().out


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    import shlex

    from ge2rt.cli import main as entry

    (shell,) = (b for b in blocks(README, "sh") if "ge2rt doctor" in b)
    monkeypatch.chdir(tmp_path)
    for line in shell.splitlines():
        words = shlex.split(line, comments=True)
        if words[1] == "check":
            words[2] = str(EXAMPLE / "my_kernels.yaml")
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as status:
            entry.main()
        assert not status.value.code, line
    assert len(list((tmp_path / "out").iterdir())) == 2
