"""Programs on a recorded CUDA device: what is enqueued where, arenas by stream, graphs, cuBLAS."""

from __future__ import annotations

import gc
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from null.fake_cupy import FakeCupy
from program_samples import Builder, sums, take_kernel, take_program

from ge2rt.base.errors import DeviceError, UnsupportedError
from ge2rt.build.records import Binary, Key
from ge2rt.device import cuda
from ge2rt.device.cuda import CudaDevice
from ge2rt.device.null import NullDevice
from ge2rt.fuse.program import View
from ge2rt.run import launch, plan, program_steps
from ge2rt.run.program import Executable


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    """A recorded GPU, and kernels that nobody compiles."""
    made = FakeCupy()
    for name, module in made.modules().items():
        monkeypatch.setitem(sys.modules, name, module)

    def build(problem: Any, kind: str) -> Binary:
        key = Key((("kernel", problem.kernel.name), ("attrs", repr(problem.bound.attrs))))
        return Binary(key, kind, b"cubin", "kernel", problem.arch)

    monkeypatch.setattr(plan, "build", build)
    launch.clear()
    program_steps.clear()
    cuda.clear()
    yield made
    launch.clear()
    program_steps.clear()
    gc.collect()
    cuda.clear()


@dataclass
class GpuArray:
    """What CuPy's arrays offer, over memory that the fake device allocated."""

    host: np.ndarray

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.host.__array_interface__, "version": 3}


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaDevice, "empty", lambda s, shape, dtype, like: gpu(shape, dtype.numpy))


def gpu(shape: Any, dtype: Any = np.float32) -> GpuArray:
    return GpuArray(np.zeros(shape, dtype))


def address(array: GpuArray) -> int:
    return int(array.host.ctypes.data)


def pointers(call: Any) -> tuple[int, ...]:
    return struct.unpack("3Q", call.args[:24])


def test_steps_are_enqueued_in_order_on_the_stream(fake: FakeCupy, arrays: None) -> None:
    device = CudaDevice(0)
    exe = Executable(sums(3), device)
    x, y = gpu(1024), gpu(1024)
    stream = device.create_stream()
    (out,) = exe.run([x, y], stream)
    assert isinstance(out, GpuArray)
    assert [call.stream for call in fake.launches] == [stream] * 3
    first, second, third = map(pointers, fake.launches)
    assert first[:2] == (address(x), address(y))
    assert second[0] == first[2]
    assert third[0] == second[2]
    assert third[2] == address(out)
    assert first[2] == address(out)  # which nothing needs yet
    assert not second[2] % 128


def test_memory_of_a_stream_is_not_that_of_another(fake: FakeCupy, arrays: None) -> None:
    device = CudaDevice(0)
    exe = Executable(sums(2), device)
    streams = [device.create_stream() for _ in range(2)]
    for stream in (*streams, *streams):
        exe.run([gpu(1024), gpu(1024)], stream)
    temps = [pointers(call)[2] for call in fake.launches[::2]]
    assert temps[0] != temps[1]
    assert temps[:2] == temps[2:]


def test_arrays_live_until_the_work_is_done(fake: FakeCupy, arrays: None) -> None:
    device = CudaDevice(0)
    x = gpu(64)
    fake.pending = set(range(1000, 2000))
    Executable(sums(1, 64), device).run([x, x])
    held = [thing for _, things in device._held[0] for thing in things]
    assert any(thing is x for thing in held)
    device.synchronize()
    assert not device._held


def test_host_arrays_are_refused(fake: FakeCupy) -> None:
    exe = Executable(sums(1, 64), CudaDevice(0))
    x = np.zeros(64, np.float32)
    with pytest.raises(TypeError, match=r"another device.*cuda:0.*got cpu"):
        exe.run([x, x])
    assert exe.function(lambda *_: None) is None
    assert not fake.launches


def test_device_memory_goes_with_the_executable(fake: FakeCupy, arrays: None) -> None:
    exe = Executable(sums(2), CudaDevice(0))
    exe.run([gpu(1024), gpu(1024)])
    assert len(fake.buffers) == 1
    exe.device.synchronize()
    del exe
    gc.collect()
    assert not fake.buffers


def test_products_go_to_cublas_on_the_stream(fake: FakeCupy, arrays: None) -> None:
    device = CudaDevice(0)
    made = Builder()
    a, b = made.buffer("input", 4, 8), made.buffer("input", 6, 8)
    out = made.buffer("output", 4, 6)
    made.matmul(a, View(b, (8, 6), (1, 8)), out)
    exe = Executable(made.program(), device)
    x, w = gpu((4, 8)), gpu((6, 8))
    stream = device.create_stream()
    (y,) = exe.run([x, w], stream)
    assert fake.log[-4:].count(
        ("matmul", (address(x), (4, 8), "float32", (32, 4)),
         (address(w), (8, 6), "float32", (4, 32)), (address(y), (4, 6), "float32", (24, 4)), stream)
    ) == 1  # fmt: skip
    assert exe.steps[0].reason == "cuBLAS: asked for"


def test_a_fault_flag_is_read_after_the_work(
    fake: FakeCupy, arrays: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = CudaDevice(0)
    exe = Executable(take_program(take_kernel(tmp_path), 10, 5), device)
    given = [gpu(10), gpu(5, np.int32), gpu(5, np.int32)]
    exe.run(given)
    flag = struct.unpack("4Q", fake.launches[1].args[:32])[3]
    assert ("synchronize", 0) in fake.log
    raised = device.memory.read
    monkeypatch.setattr(
        device.memory, "read", lambda at, n: (device.memory.write(flag, b"\1"), raised(at, n))[1]
    )
    with pytest.raises(ValueError, match="sample: an index lies outside"):
        exe.run(given)


# -- graphs --------------------------------------------------------------------------------------


def names(fake: FakeCupy) -> list[str]:
    wanted = ("stream", "graph", "memcpyAsync")
    return [entry[0] for entry in fake.log if entry[0].startswith(wanted)]


def test_a_captured_program_is_one_launch(fake: FakeCupy, arrays: None) -> None:
    device = CudaDevice(0)
    captured = Executable(sums(3), device).capture()
    assert names(fake) == [
        "streamBeginCapture", "streamEndCapture", "graphInstantiate", "graphDestroy",
        "streamDestroy",
    ]  # fmt: skip
    before = len(fake.launches)
    assert before == 3  # the run before the capture
    fake.log.clear()
    x, y = gpu(1024), gpu(1024)
    (out,) = captured.run([x, y])
    assert len(fake.launches) == before
    copies = [entry for entry in fake.log if entry[0] == "memcpyAsync"]
    assert [entry[2] for entry in copies[:2]] == [address(x), address(y)]
    assert copies[2][1] == address(out)
    assert {entry[3] for entry in copies} == {4096}
    assert names(fake) == ["memcpyAsync", "memcpyAsync", "graphLaunch", "memcpyAsync"]


def test_every_call_of_a_graph_copies_its_own_arrays(fake: FakeCupy, arrays: None) -> None:
    captured = Executable(sums(1, 8), CudaDevice(0)).capture()
    given = [gpu(8), gpu(8)]
    given[0].host[:] = 7
    first, second = (captured.run(given)[0] for _ in range(2))
    assert first is not second
    inner = [entry[1] for entry in fake.log if entry[0] == "memcpyAsync"]
    assert inner[0] == inner[3]  # the graph's own memory


def test_strided_inputs_of_a_graph_are_copied_as_they_lie(fake: FakeCupy, arrays: None) -> None:
    made = Builder()
    x = made.buffer("input", 4, strides=(-2,))
    made.kernel("UNARY", [x], [made.buffer("output", 4)], op="neg")
    captured = Executable(made.program(), CudaDevice(0)).capture()
    x = gpu(7)
    view = GpuArray(x.host[6::-2])
    captured.run([view])
    copy = next(entry for entry in fake.log if entry[0] == "memcpyAsync")
    assert copy[2:4] == (address(x), 28)


def test_a_launch_on_another_stream_waits_for_the_last(fake: FakeCupy, arrays: None) -> None:
    device = CudaDevice(0)
    captured = Executable(sums(1, 8), device).capture()
    streams = [device.create_stream() for _ in range(2)]
    fake.log.clear()
    captured.run([gpu(8), gpu(8)], streams[0])
    captured.run([gpu(8), gpu(8)], streams[0])
    captured.run([gpu(8), gpu(8)], streams[1])
    waits = [entry for entry in fake.log if entry[0] == "synchronize"]
    assert waits == [("synchronize", 0), ("synchronize", streams[0])]


def test_a_capture_that_fails_is_ended(fake: FakeCupy, arrays: None) -> None:
    device = CudaDevice(0)
    exe = Executable(sums(2, 8), device)
    fake.fail["graphInstantiate"] = 1
    with pytest.raises(DeviceError, match="cudaError 1"):
        exe.capture()
    assert names(fake)[-3:] == ["streamEndCapture", "graphDestroy", "streamDestroy"]
    del fake.fail["graphInstantiate"]
    real = exe.enqueue
    calls = []

    def enqueue(*args: Any, **more: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise KeyError("mine")
        real(*args, **more)

    exe.enqueue = enqueue  # type: ignore[method-assign]
    fake.log.clear()
    with pytest.raises(KeyError, match="mine"):
        exe.capture()
    assert names(fake) == [
        "streamBeginCapture", "streamEndCapture", "graphDestroy", "streamDestroy",
    ]  # fmt: skip


def test_a_graph_and_its_memory_are_given_back(fake: FakeCupy, arrays: None) -> None:
    captured = Executable(sums(3), CudaDevice(0)).capture()
    assert fake.buffers
    del captured
    gc.collect()
    assert not fake.buffers
    assert any(entry[0] == "graphExecDestroy" for entry in fake.log)


def test_other_devices_have_no_graphs() -> None:
    with pytest.raises(UnsupportedError, match="device null has no graphs"):
        Executable(sums(0), NullDevice()).capture()
