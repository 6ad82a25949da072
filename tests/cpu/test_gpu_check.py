"""The scripts for a GPU's day, as far as they run without one."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from ge2rt.cli.calls import parse_inputs
from ge2rt.device.cpu import CpuDevice
from ge2rt.device.registry import get_device
from ge2rt.run import cases
from ge2rt.run.offline import arch_props, problem_for
from ge2rt.spec.registry import default_registry

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="module")
def scripts():
    """(gpu_check, static_check) as the command line imports them."""
    sys.path.insert(0, str(SCRIPTS))
    yield importlib.import_module("gpu_check"), importlib.import_module("static_check")
    sys.path.remove(str(SCRIPTS))


class OtherDevice(CpuDevice):
    """The CPU device under another name, with memory of its own."""

    name = "cuda:0"

    def accepts(self, home):
        return home == "cuda:0"


@pytest.mark.parametrize("kernel", ["copy", "gemm_bias_act_f32"])
def test_cases_run_on_both_devices_and_agree(scripts, kernel):
    spec = default_registry().get(kernel)
    found = [
        scripts[0].compare(c, OtherDevice(), get_device("cpu")) for c in cases.cases_for(spec)[:4]
    ]
    assert [c for c in found if c.faults or c.turned_down] == []
    assert all(c.equal for c in found)


def test_a_difference_between_the_devices_is_a_fault(scripts, monkeypatch):
    gpu_check = scripts[0]
    run = gpu_check.execute

    def worse(arrays, device):
        run(arrays, device)
        if device.name == "cuda:0":
            arrays.buffers["D"].view[...] += 1

    monkeypatch.setattr(gpu_check, "execute", worse)
    every = cases.cases_for(default_registry().get("gemm_bias_act_f32"))
    case = next(c for c in every if 0 not in c.shapes["D"])
    found = gpu_check.compare(case, OtherDevice(), get_device("cpu"))
    assert any(text.startswith("cuda:0: D:") for text in found.faults)
    assert any("the devices differ by 1" in text for text in found.faults)
    assert not found.equal


def test_requirements_turn_a_case_down(scripts):
    case = cases.cases_for(default_registry().get("gemm_bias_act_tc_f16"))[0]
    old = OtherDevice()
    old.props = dataclasses.replace(old.props, cc=7.5)
    assert "cc >= 8.0" in scripts[0].compare(case, old, get_device("cpu")).turned_down


def problem(kernel, *inputs, **attrs):
    return problem_for(kernel, parse_inputs(inputs, "cuda"), attrs, arch_props("sm_80"))


def test_tensor_core_kernel_keeps_its_promises(scripts):
    static_check = scripts[1]
    code = static_check.inspect(
        problem("gemm_bias_act_tc_f16", "f16[512,512]", "f16[512,512]"), "x", static_check.TENSOR
    )
    assert code.good, str(code)
    assert 32 < code.registers < 256
    assert code.shared > 0


def test_what_is_promised_and_not_there_is_told(scripts):
    static_check = scripts[1]
    code = static_check.inspect(problem("copy", "f32[4096]"), "f32", static_check.TENSOR)
    assert not code.good
    assert code.missing[:3] == ("mma.sync", "ldmatrix", "cp.async")
    assert "WITHOUT mma.sync" in str(code)


def test_spills_are_seen(scripts, monkeypatch):
    """The same kernel, made to fit eight times on a multiprocessor: 32 registers a thread."""
    static_check = scripts[1]
    made = problem("gemm_bias_act_f32", "f32[512,512]", "f32[512,512]")
    source = static_check.source_of(made)
    tight = re.sub(r"__launch_bounds__\((\d+)\)", r"__launch_bounds__(\1, 8)", source.text)
    assert tight != source.text
    monkeypatch.setattr(
        static_check, "source_of", lambda problem: dataclasses.replace(source, text=tight)
    )
    code = static_check.inspect(made, "tight", {})
    assert (code.spills > 0, code.frame > 0, code.registers) == (True, True, 32)
    assert not code.good
    assert "SPILLED" in str(code)


def test_without_a_gpu_it_says_so_and_writes_json(scripts, monkeypatch, capsys, tmp_path):
    gpu_check, static_check = scripts
    monkeypatch.setattr(gpu_check, "gpu_count", lambda: 0)
    monkeypatch.setattr(static_check, "ARCHES", ("sm_80",))
    monkeypatch.setattr(static_check, "PROMISES", static_check.PROMISES[:1])
    monkeypatch.setattr(static_check, "_of_types", lambda kernel, arch: iter(()))
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", "--json", str(tmp_path / "new" / "out.json")])
    assert gpu_check.main() == 0
    assert "no GPU here" in capsys.readouterr().out
    result = json.loads((tmp_path / "new" / "out.json").read_text())
    assert result["gpu"] is None
    assert [row["kernel"] for row in result["static"]] == ["gemm_bias_act_tc_f16"]


class Array(np.ndarray):
    """What the timings need of a CuPy array."""

    @property
    def data(self):
        return type("Pointer", (), {"ptr": self.ctypes.data})


class FakeCupy:
    """CuPy's names on host memory."""

    uint8, empty = np.uint8, staticmethod(np.empty)
    matmul, copyto = staticmethod(np.matmul), staticmethod(np.copyto)

    class random:
        @staticmethod
        def random(shape, dtype):
            return np.random.default_rng(0).random(shape, dtype).view(Array)


@pytest.mark.parametrize("peer", ["copy", "cublas"])
def test_a_timing_has_rates_and_a_ratio(scripts, monkeypatch, peer):
    gpu_check = scripts[0]
    monkeypatch.setattr(gpu_check, "ROUNDS", 1)
    launch = gpu_check.ge2rt.launch
    monkeypatch.setattr(
        gpu_check.ge2rt, "launch", lambda *args, **kw: launch(*args, **kw).view(Array)
    )
    shapes = ((1000,),) if peer == "copy" else ((40, 50), (50, 60))
    kernel = "copy" if peer == "copy" else "gemm_bias_act_f32"
    row = gpu_check.run_bench(
        gpu_check.Bench(kernel, shapes, "f32", peer, 0.5), get_device("cpu"), FakeCupy
    )
    assert row["ratio"] == pytest.approx(row["peer_seconds"] / row["seconds"])
    assert row["met"] == (row["ratio"] >= 0.5)
    moved = 8000 if peer == "copy" else 4 * (2000 + 3000 + 2400)
    assert row["gbytes_per_s"] == pytest.approx(moved / row["seconds"] / 1e9)
    flops = 0 if peer == "copy" else 2 * 40 * 50 * 60
    assert row["tflops"] == pytest.approx(flops / row["seconds"] / 1e12)
