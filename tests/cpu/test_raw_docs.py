"""The page on running CUDA code, and its example: they run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ge2rt
from ge2rt.base import switches

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "run_your_cuda"
PAGE = (ROOT / "docs" / "run-your-cuda.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(capsys):
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "run-your-cuda.md", "exec"), names)
    assert capsys.readouterr().out == "[1]\n"
    z = np.asarray(names["z"])
    np.testing.assert_array_equal(z, (np.arange(10.0).reshape(2, 5) - np.arange(5.0)) ** 2)
    reverse, l2norm = names["reverse"], names["l2norm"]
    assert isinstance(reverse, ge2rt.ElementwiseKernel)
    assert isinstance(l2norm, ge2rt.ReductionKernel)
    x = np.arange(4.0)
    np.testing.assert_array_equal(reverse(x, x), [3, 3, 3, 3])
    np.testing.assert_allclose(l2norm(z, axis=1, keepdims=True).ravel(), [0, np.sqrt(5 * 25.0**2)])


def test_the_fault_that_the_page_shows():
    shown = re.search(r"my_program\.py\n(\[-2 DEVICE\].*?)\n```", PAGE, re.DOTALL)
    assert shown is not None
    code = """extern "C" __global__ void shift(const float* x, float* y) {
      int t = threadIdx.x;
      y[t] = x[t];
    }"""
    x, y = np.zeros(100, np.float32), np.zeros(128, np.float32)
    with switches.setting("GE2RT_CHECK", "all"), pytest.raises(ge2rt.DeviceError) as caught:
        ge2rt.RawKernel(code, "shift")((1,), (128,), (x, y))
    assert str(caught.value) == shown[1].replace("\n", " ")


def test_the_page_names_what_there_is():
    for name in re.findall(r"`ge2rt\.(\w+)", PAGE):
        assert hasattr(ge2rt, name), name


def test_the_example_runs_as_its_own_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE / "run.py"], cwd=tmp_path, capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<RawFunction matmul(const float* a, const float* b, float* c,")
    assert "of the values inside" in done.stdout
