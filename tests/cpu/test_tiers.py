"""Two tiers of native code: quick first, full behind it, in place while launches go on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import ge2rt
from ge2rt.base import events
from ge2rt.device import objects, tiers
from ge2rt.device.cpu import CpuDevice
from ge2rt.run.launch import plan_for
from ge2rt.spec.descs import desc_of


@pytest.fixture
def device(monkeypatch):
    """A device whose every kernel is large, with a store of its own."""
    monkeypatch.setattr("ge2rt.device.translate.LARGE", 0)
    made = CpuDevice(store=objects.MemoryStore())
    yield made
    made.settle()
    ge2rt.clear_caches()


def test_the_full_code_replaces_the_quick_one(device):
    ge2rt.clear_caches()
    events.clear()
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    desc = desc_of((1000,), "f32")
    plan = plan_for("elementwise_unary", (desc, desc), {"op": "gelu"}, device)
    pointers = [x.ctypes.data, y.ctypes.data]
    plan.launch(pointers)
    quick = y.copy()
    launcher = plan.compiled(aligned=True).launcher
    device.settle()
    assert events.counts()["ptx.upgrade"] >= 1
    assert events.counts()["ptx.lower"] == 1
    for _ in range(3):
        y[:] = 0
        plan.launch(pointers)
        np.testing.assert_array_equal(y, quick)
    function = plan.compiled(aligned=True).function
    code = function._module.code(function.name, launcher.shape.block)
    assert code._retired, "the quick code must stay loaded"


def test_a_stored_kernel_is_full_at_once(device):
    desc = desc_of((64,), "f32")
    plan_for("copy", (desc, desc), {}, device).compiled(aligned=True)
    device.settle()
    again = CpuDevice(store=device.store)
    events.clear()
    ge2rt.clear_caches()
    plan_for("copy", (desc, desc), {}, again).compiled(aligned=True)
    assert "ptx.lower" not in events.counts()
    assert again.upgrades._thread is None


def test_a_failed_upgrade_leaves_the_quick_code(device, monkeypatch):
    ge2rt.clear_caches()
    events.clear()
    real = tiers._linked
    calls = []

    def failing(kernel):
        calls.append(kernel)
        if len(calls) > 1:
            raise ge2rt.InternalError("no room")
        return real(kernel)

    monkeypatch.setattr(tiers, "_linked", failing)
    desc = desc_of((32,), "f32")
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    plan = plan_for("copy", (desc, desc), {}, device)
    plan.launch([x.ctypes.data, y.ctypes.data])
    device.settle()
    assert events.counts()["ptx.upgrade_failed"] == 1
    plan.launch([x.ctypes.data, y.ctypes.data])
    assert (x == y).all()


def test_the_process_ends_while_upgrades_wait():
    code = """
import numpy as np, ge2rt
import ge2rt.device.translate as translate
translate.LARGE = 0
x = np.ones(77, np.float32)
for op in ("exp", "tanh", "gelu", "sin"):
    ge2rt.launch("elementwise_unary", x, op=op, device="cpu")
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
