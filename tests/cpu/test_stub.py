"""The native launch stub: it takes the calls it should, and only those."""

from __future__ import annotations

import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import last_error
from ge2rt.run import launch as launching
from ge2rt.run import stub as stubs

TRAP = """
api_version: 1
kernels:
  - name: trapping
    op: TRAPPING
    template: trapping.cu.j2
    score: 1
    inputs: [{name: x, dtype: i32, shape: [N]}]
    outputs: [{name: y, dtype: i32, shape: [N]}]
    launch: {grid: [1], block: [32]}
"""
TRAP_SOURCE = """
extern "C" __global__ void {{ kernel }}({{ params }}) {
  if (x[0] < 0) __trap();
  y[threadIdx.x % {{ N }}] = x[0] + 1;
}
"""


def descs(shape, dtype="f32", **extra):
    return {"buffers": [{"shape": shape, "dtype": dtype, "device": "cpu", **extra}] * 2}


@pytest.fixture
def copied():
    """Arrays, their pointers and descs of a copy that has run once."""
    ge2rt.clear_caches()
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    pointers = [x.ctypes.data, y.ctypes.data]
    assert ge2rt.launch_kernel("copy", pointers, descs([64])) == 0
    y[:] = 0
    return x, y, pointers


needs_stub = pytest.mark.skipif(stubs.get_stub() is None, reason="this interpreter has no stub")


@needs_stub
def test_repeated_calls_are_native(copied, monkeypatch):
    x, y, pointers = copied
    assert isinstance(launching._entry, types.BuiltinFunctionType)

    def unreachable(*_):
        raise AssertionError("the stub missed")

    (entry,) = launching._recent["copy"]
    assert isinstance(entry.plan.run, types.BuiltinFunctionType)
    monkeypatch.setattr(launching, "_launch_new", unreachable)
    monkeypatch.setattr(type(entry.plan), "_slow", unreachable)
    assert ge2rt.launch_kernel("copy", pointers, descs([64]), 0) == 0
    assert (x == y).all()
    assert entry.plan(pointers) == 0


@needs_stub
@pytest.mark.parametrize(
    "changed",
    [descs([64.0]), descs([True]), descs([65]), descs([64], "f16"), descs([64], device="null"),
     descs([64], layout="NCHW"), descs((64,)), {**descs([64]), "kernel": "other"}, None, {}, []],
)  # fmt: skip
def test_descs_that_differ_in_value_or_type_are_not_taken(copied, changed):
    seen = []
    probe = stubs.get_stub().function(
        "launch", (launching._native, lambda *args: seen.append(args) or 7, 0), b""
    )
    _, y, pointers = copied
    assert probe("copy", pointers, changed) == 7
    assert seen == [("copy", pointers, changed)]
    assert (y == 0).all()


@needs_stub
@pytest.mark.parametrize(
    "wrong",
    [[0, 1], [1], [8, 16, 24], (8, 16), [8.0, 16], [True, 16], [-8, 16], [2**70, 16], [2**63, 16],
     [4096, 4096], [4096, 4100], [4096, 4351], [4097, 8192], None, "ab", [np.int64(8), 16]],
)  # fmt: skip
def test_pointers_that_need_a_look_are_not_taken(copied, wrong):
    (entry,) = launching._recent["copy"]
    seen = []
    probe = stubs.get_stub().function(
        "plan", (entry.plan.record.address, lambda *args: seen.append(args) or 7, 0), b""
    )
    assert probe(wrong) == 7
    assert probe(wrong, 0) == 7
    assert probe([4096, 8192], 5) == 7
    assert len(seen) == 3


def test_refusals_after_a_native_call_have_their_messages(copied):
    _, _, (a, b) = copied
    assert ge2rt.launch_kernel("copy", [a, a], descs([64])) == -1
    assert "overlaps" in last_error().message
    assert ge2rt.launch_kernel("copy", [a + 1, b], descs([64])) == -1
    assert "misaligned" in last_error().message
    assert ge2rt.launch_kernel("copy", [a, b], descs([64.0])) == -1
    assert ge2rt.launch_kernel("copy", [a, b], descs([64]), 99) == -1


def test_a_fault_in_a_native_call_is_minus_2_and_runs_once(tmp_path):
    ge2rt.clear_caches()
    (tmp_path / "trapping.cu.j2").write_text(TRAP_SOURCE)
    (tmp_path / "k.yaml").write_text(TRAP)
    ge2rt.load_registry(tmp_path / "k.yaml")
    x, y = np.ones(4, np.int32), np.zeros(4, np.int32)
    call = descs([4], "i32")
    pointers = [x.ctypes.data, y.ctypes.data]
    for _ in range(3):
        assert ge2rt.launch_kernel("trapping", pointers, call) == 0
    assert (y == 2).all()
    x[0] = -1
    assert ge2rt.launch_kernel("trapping", pointers, call) == -2
    assert last_error().kernel == "trapping"
    assert "trap" in last_error().message
    x[0] = 5
    assert ge2rt.launch_kernel("trapping", pointers, call) == 0
    assert (y == 6).all()
    ge2rt.clear_caches()


def test_other_shapes_have_their_own_plans():
    for n in (1, 7, 64, 33, 7, 64, 1):
        x, y = np.random.default_rng(n).random(n, np.float32), np.zeros(n, np.float32)
        assert ge2rt.launch_kernel("copy", [x.ctypes.data, y.ctypes.data], descs([n])) == 0
        assert (x == y).all()


def test_threads_share_a_plan(copied):
    faults = []

    def work(seed):
        x, y = np.full(64, seed, np.float32), np.zeros(64, np.float32)
        pointers = [x.ctypes.data, y.ctypes.data]
        for _ in range(300):
            y[:] = 0
            if ge2rt.launch_kernel("copy", pointers, descs([64])) or not (y == seed).all():
                faults.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_the_python_path_gives_the_same_answers_without_the_stub():
    code = """
import numpy as np, ge2rt
from ge2rt.run import launch
x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
p = [x.ctypes.data, y.ctypes.data]
d = {"buffers": [{"shape": [8], "dtype": "f32", "device": "cpu"}] * 2}
f = {"buffers": [{"shape": [8.0], "dtype": "f32", "device": "cpu"}] * 2}
print([ge2rt.launch_kernel("copy", p, d) for _ in range(3)], (x == y).all(),
      ge2rt.launch_kernel("copy", p, f), launch._entry is launch._look)
"""
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "GE2RT_NO_STUB": "1"},
    )  # fmt: skip
    assert done.stdout.strip() == "[0, 0, 0] True -1 True"
