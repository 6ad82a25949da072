from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Iterator

import pytest
from null.fake_cupy import FakeCupy, Launch

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import DeviceError, InvalidArgumentError, OutOfMemoryError
from ge2rt.device import cuda
from ge2rt.device.api import LaunchShape
from ge2rt.device.cuda import CudaDevice

SHAPE = LaunchShape((7, 2, 1), (128, 1, 1), 256)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    made = FakeCupy()
    for name, module in made.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    cuda.clear()
    yield made
    cuda.clear()


def test_props_are_the_attributes_of_the_gpu(fake: FakeCupy) -> None:
    device = CudaDevice(0)
    props = device.props
    assert device.name == "cuda:0"
    assert (props.name, props.arch, props.cc) == ("Fake H100", "sm_90", 9.0)
    assert (props.kind, props.binary_kind, props.tensor_cores) == ("cuda", "cubin", True)
    assert (props.shared_static, props.shared_optin) == (49152, 232448)
    assert (props.multiprocessors, props.max_threads, props.registers) == (132, 1024, 65536)
    assert props.max_block == (1024, 1024, 64)
    assert props.max_grid == (2**31 - 1, 65535, 65535)


def test_launch_passes_packed_bytes_geometry_shared_and_stream(fake: FakeCupy) -> None:
    device = CudaDevice(0)
    launch = device.load(b"cubin", "cubin", "key").function("kernel").launcher(SHAPE)
    args = struct.pack("=QQi", 1, 2**63, -5)
    launch(args, 4242)
    launch(b"", 0)
    assert fake.launches == [
        Launch(77, (7, 2, 1), (128, 1, 1), 256, 4242, args, 0),
        Launch(77, (7, 2, 1), (128, 1, 1), 256, 0, b"", 0),
    ]


def test_ptx_is_terminated_and_a_cubin_is_left_alone(fake: FakeCupy) -> None:
    device = CudaDevice(0)
    device.load(b".version 8.0", "ptx", "key")
    device.load(b"\x7fELF", "cubin", "key")
    assert [entry for entry in fake.log if entry[0] == "load"] == [
        ("load", b".version 8.0\0"), ("load", b"\x7fELF"),
    ]  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="cubin or ptx, got llvm"):
        device.load(b"", "llvm", "key")


def test_large_shared_memory_opts_in(fake: FakeCupy) -> None:
    function = CudaDevice(0).load(b"c", "cubin", "key").function("kernel")
    function.launcher(LaunchShape((1, 1, 1), (32, 1, 1), 48 * 1024 - 1024))
    assert not [entry for entry in fake.log if entry[0] == "funcSetAttribute"]
    function.launcher(LaunchShape((1, 1, 1), (32, 1, 1), 100_000))
    assert ("funcSetAttribute", 77, 8, 100_000) in fake.log
    with pytest.raises(InvalidArgumentError, match=r"too much shared memory.*1024 of them static"):
        function.launcher(LaunchShape((1, 1, 1), (32, 1, 1), 232448 - 1023))


def test_launch_bounds_of_the_kernel_are_kept(fake: FakeCupy) -> None:
    fake.max_threads = 256
    function = CudaDevice(0).load(b"c", "cubin", "key").function("kernel")
    with pytest.raises(
        InvalidArgumentError, match="too many threads a block; expected at most 256"
    ):
        function.launcher(LaunchShape((1, 1, 1), (512, 1, 1)))


def test_unknown_names(fake: FakeCupy) -> None:
    module = CudaDevice(0).load(b"c", "cubin", "key")
    with pytest.raises(InvalidArgumentError, match="missing: no such kernel"):
        module.function("missing")
    with pytest.raises(InvalidArgumentError, match="no variable 'missing'"):
        module.global_address("missing")
    assert module.global_address("there")[0] == 4096


def test_the_second_gpu_is_current_only_during_calls(fake: FakeCupy) -> None:
    device = CudaDevice(1)
    assert device.name == "cuda:1"
    device.load(b"c", "cubin", "key").function("kernel").launcher(SHAPE)(b"1234")
    assert fake.launches[0].device == 1
    assert fake.device == 0


def test_each_thread_gets_the_context(fake: FakeCupy) -> None:
    device = CudaDevice(0)
    launch = device.load(b"c", "cubin", "key").function("kernel").launcher(SHAPE)
    fake.log.clear()
    launch(b"1")
    assert ("setDevice", 0) not in fake.log
    thread = threading.Thread(target=launch, args=(b"2",))
    thread.start()
    thread.join()
    assert ("setDevice", 0) in fake.log


def test_memory(fake: FakeCupy) -> None:
    memory = CudaDevice(0).memory
    assert memory.allocate(0) == 0
    memory.free(0)
    address = memory.allocate(16)
    memory.write(address, b"0123456789abcdef")
    memory.fill(address + 4, ord("x"), 4)
    assert memory.read(address, 16) == b"0123xxxx89abcdef"
    memory.write(address, memoryview(b"ABC"))
    assert memory.read(address, 4) == b"ABC3"
    memory.free(address)
    with pytest.raises(InvalidArgumentError, match="not allocated on this device"):
        memory.free(address)
    with pytest.raises(OutOfMemoryError, match="out of memory on cuda:0"):
        memory.allocate(1 << 40)


def test_a_fault_names_the_launches_since_the_last_good_point(fake: FakeCupy) -> None:
    device = CudaDevice(0)
    module = device.load(b"c", "cubin", "key")
    module.function("before").launcher(SHAPE)(b"")
    device.synchronize()
    module.function("first").launcher(SHAPE)(b"")
    module.function("second").launcher(SHAPE)(b"")
    fake.fail["synchronize"] = 700
    with pytest.raises(DeviceError, match=r"since the last good point: first, second\. restart"):
        device.synchronize()
    with pytest.raises(DeviceError, match=r"was lost by an earlier fault: cudaError 700"):
        module.function("third").launcher(SHAPE)


def test_a_failed_launch_that_is_no_fault_leaves_the_device_usable(fake: FakeCupy) -> None:
    device = CudaDevice(0)
    launch = device.load(b"c", "cubin", "key").function("kernel").launcher(SHAPE)
    fake.fail["launch"] = 1
    with pytest.raises(DeviceError, match="CUDA_ERROR 1"):
        launch(b"")
    fake.fail.clear()
    launch(b"")
    assert len(fake.launches) == 1


def test_streams(fake: FakeCupy) -> None:
    device = CudaDevice(0)
    stream = device.create_stream()
    assert stream > 0
    device.check_stream(stream)
    device.check_stream(0)
    device.check_stream(140_000_000_000)  # anybody's cudaStream_t
    for wrong in (-1, "0", True):
        with pytest.raises(InvalidArgumentError, match="not a stream"):
            device.check_stream(wrong)
    device.synchronize(stream)
    assert fake.log[-1] == ("synchronize", stream)
    device.destroy_stream(stream)
    with pytest.raises(InvalidArgumentError, match="not a stream of this device"):
        device.destroy_stream(stream)


def test_events(fake: FakeCupy) -> None:
    device = CudaDevice(0)
    first, second = device.record_event(5), device.record_event(5)
    assert ("eventRecord", first, 5) in fake.log
    device.wait_event(first)
    assert device.elapsed_ms(first, second) == 1.0


def test_objects_are_held_until_their_event_is_reached(fake: FakeCupy) -> None:
    device = CudaDevice(0)
    device.keep_alive(["a"], 9)
    (event, _) = device._held[9][0]
    fake.pending.add(event)
    device.keep_alive(["b"], 9)
    assert [held for _, held in device._held[9]] == [("a",), ("b",)]
    fake.pending.clear()
    device.keep_alive(["c"], 9)
    assert [held for _, held in device._held[9]] == [("c",)]
    device.synchronize(9)
    assert not device._held


def test_empty_is_an_array_of_the_asked_type(fake: FakeCupy) -> None:
    array = CudaDevice(0).empty((2, 3), DTYPES["f16"])
    assert (array.shape, array.dtype.name) == ((2, 3), "float16")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_is_told_to_spawn(fake: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    device = CudaDevice(0)
    monkeypatch.setattr(cuda.os, "getpid", lambda: -1)
    with pytest.raises(DeviceError, match=r'forked process.*get_context\("spawn"\)'):
        device.synchronize()


def test_cupy_that_does_not_import_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda.clear()
    with pytest.raises(DeviceError, match=r'CuPy does not import.*pip install "ge2rt\[cuda12\]"'):
        CudaDevice(0)


def test_unwritable_home_gets_a_cache_folder(
    fake: FakeCupy, monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    monkeypatch.setenv("HOME", "/proc/nowhere")
    monkeypatch.setenv("USERPROFILE", "/proc/nowhere")
    monkeypatch.setenv("GE2RT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CUPY_CACHE_DIR", "x")
    monkeypatch.delenv("CUPY_CACHE_DIR")
    CudaDevice(0)
    assert os.environ["CUPY_CACHE_DIR"] == os.path.join(tmp_path, "cupy")
