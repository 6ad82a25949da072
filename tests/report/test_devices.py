"""Reports where there is no PTX at hand, and times by a GPU's own clock (recorded, not run)."""

from __future__ import annotations

import gc
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from null.fake_cupy import FakeCupy
from program_samples import sums

from ge2rt.build.records import Binary, Key
from ge2rt.device import cuda
from ge2rt.device.cuda import CudaDevice
from ge2rt.device.null import NullDevice
from ge2rt.fuse.lower import lower
from ge2rt.ir.graph import Graph
from ge2rt.ir.make import input_node, make
from ge2rt.jit.backend import Built
from ge2rt.jit.stages import sass_of
from ge2rt.report.collect import collect_built
from ge2rt.report.measure import measure
from ge2rt.run import launch, plan, program_steps
from ge2rt.run.program import Executable


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    """A recorded GPU, and kernels that nobody compiles."""
    recorded = FakeCupy()
    for name, module in recorded.modules().items():
        monkeypatch.setitem(sys.modules, name, module)

    def build(problem: Any, kind: str) -> Binary:
        key = Key((("kernel", problem.kernel.name), ("attrs", repr(problem.bound.attrs))))
        return Binary(key, kind, b"cubin", "kernel", problem.arch)

    monkeypatch.setattr(plan, "build", build)
    launch.clear()
    program_steps.clear()
    cuda.clear()
    yield recorded
    launch.clear()
    program_steps.clear()
    gc.collect()
    cuda.clear()


def test_a_gpu_is_timed_by_its_events(fake: FakeCupy) -> None:
    found = measure(Executable(sums(2, 64), CudaDevice(0)), rounds=3)
    assert found.rounds == 3
    # the fake numbers its events, and tells the difference of two numbers as milliseconds
    (first, one), (second, other) = found.spans
    assert first == 0
    assert second == pytest.approx(one)
    assert one > 0
    assert other > 0
    assert found.steps == pytest.approx((one, other))
    assert not found.faulted


def tanh_graph() -> Graph:
    x = input_node((8, 16), "f32", "x")
    return Graph("g", (x,), (make("tanh", x),))


def test_ptx_is_made_where_a_cubin_was_loaded() -> None:
    device, graph = NullDevice(binary_kind="cubin"), tanh_graph()
    program = lower(graph)
    built = Built(graph, graph, Executable(program, device), program, device)
    (kernel,) = collect_built(built, "g", timed=False).kernels
    assert ".visible .entry" in kernel.ptx
    assert kernel.links
    program_steps.clear()


def variant() -> Any:
    return SimpleNamespace(binary=SimpleNamespace(data=b"a cubin", kind="cubin"))


def test_machine_code_is_printed_by_nvdisasm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\necho "code of: $1"\n/bin/cat "$2"\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sass_of(variant()) == "code of: -c\na cubin"
    tool.write_text('#!/bin/sh\necho "no such code" >&2\nexit 1\n')
    assert sass_of(variant()) == "nvdisasm failed: no such code"
    tool.unlink()
    assert "no nvdisasm on the PATH" in sass_of(variant())


def test_made_up_arrays_reach_the_end_of_large_inputs() -> None:
    x = input_node((3, 1 << 19), "f32", "x")
    graph = Graph("g", (x,), (make("neg", x),))
    device = NullDevice()
    exe = Executable(lower(graph, [(-(1 << 19), 1)]), device)
    written: list[tuple[int, int]] = []
    plain = device.memory.write

    def write(address: int, data: Any) -> None:
        written.append((address, len(data)))
        assert np.frombuffer(data, np.float32).max() <= 1
        plain(address, data)

    device.memory.write = write  # type: ignore[method-assign]
    measure(exe, rounds=1)
    assert sum(size for _, size in written) == 3 * (1 << 19) * 4
    assert written[1][0] == written[0][0] + written[0][1]
    program_steps.clear()
