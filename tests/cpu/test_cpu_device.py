from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest
from cpu.ir_kernels import PTX, make_device, translator

from ge2rt.base.errors import CompileError, InvalidArgumentError
from ge2rt.device import objects
from ge2rt.device.api import Device, LaunchShape
from ge2rt.device.cpu import CpuDevice
from ge2rt.device.objects import MemoryStore, decode, encode

SHAPE = LaunchShape((3, 2, 1), (32, 1, 1), 1000)


def look(device: CpuDevice, module: Any = None) -> tuple[np.ndarray, Any]:
    module = module or device.load(PTX, "ptx", "key")
    out = np.zeros(5, np.int64)
    module.function("look").launcher(SHAPE)(struct.pack("=q", out.ctypes.data))
    return out, module


def test_launch_record_reaches_the_kernel() -> None:
    out, module = look(make_device())
    np.testing.assert_array_equal(out.view(np.int32)[:4], [3, 2, 1, 1000])
    assert out[2] % 128 == 0
    assert out[3] == module.globals_address


def test_variables_persist_over_launches_and_belong_to_one_module() -> None:
    device = make_device()
    _, module = look(device)
    address, nbytes = module.global_address("counter")
    assert (nbytes, ctypes.c_int32.from_address(address).value) == (4, 7 + 6)
    look(device, module)
    assert ctypes.c_int32.from_address(address).value == 7 + 12
    other, second = look(device)
    assert second.global_address("counter")[0] != address
    assert other.view(np.int32)[8] == 7 + 5


def test_relocations_hold_addresses() -> None:
    module = make_device().load(PTX, "ptx", "key")
    pointer, _ = module.global_address("pointer")
    assert ctypes.c_uint64.from_address(pointer).value == module.global_address("counter")[0]
    with pytest.raises(InvalidArgumentError, match=r"no variable 'missing'.*counter, pointer"):
        module.global_address("missing")


def test_unknown_kernel_lists_those_there_are() -> None:
    module = make_device().load(PTX, "ptx", "key")
    with pytest.raises(InvalidArgumentError, match=r"no such kernel.*count, stop_at, look"):
        module.function("missing")


def test_param_layout_is_that_of_the_ptx() -> None:
    function = make_device().load(PTX, "ptx", "key").function("tiny")
    assert function.param_layout == (("u64", 0, 8), ("f32", 8, 4))


def test_subnormals_are_kept_and_host_functions_are_found() -> None:
    out = np.zeros(2, np.float32)
    run = (
        make_device()
        .load(PTX, "ptx", "k")
        .function("tiny")
        .launcher(LaunchShape((1, 1, 1), (1, 1, 1)))
    )
    run(struct.pack("=qf", out.ctypes.data, 1.1754944e-38))
    assert out[0] == np.float32(1.1754944e-38) / 2 > 0
    run(struct.pack("=qf", out.ctypes.data, 1.0))
    assert out[1] == pytest.approx(np.e, rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (LaunchShape((0, 1, 1), (32, 1, 1)), r"grid.x is out of range; expected 1 .. 2147483647"),
        (LaunchShape((1, 65536, 1), (32, 1, 1)), r"grid.y is out of range"),
        (LaunchShape((1, 1, 1), (32, 0, 1)), r"block.y is out of range"),
        (LaunchShape((1, 1, 1), (32, 1, 65)), r"block.z is out of range; expected 1 .. 64"),
        (LaunchShape((1, 1, 1), (1024, 2, 1)), r"too many threads a block; expected at most 1024"),
        (LaunchShape((1, 1, 1), (32, 1, 1), 166913), r"too much shared memory a block"),
    ],
)
def test_limits_of_the_virtual_gpu(shape: LaunchShape, message: str) -> None:
    function = make_device().load(PTX, "ptx", "key").function("look")
    with pytest.raises(InvalidArgumentError, match=message):
        function.launcher(shape)


def test_maxntid_is_kept() -> None:
    function = make_device().load(PTX, "ptx", "key").function("bounded")
    function.launcher(LaunchShape((1, 1, 1), (64, 1, 1)))
    with pytest.raises(InvalidArgumentError, match="at most 64"):
        function.launcher(LaunchShape((1, 1, 1), (65, 1, 1)))


def test_largest_shared_memory_is_allowed() -> None:
    function = make_device().load(PTX, "ptx", "key").function("look")
    function.launcher(LaunchShape((1, 1, 1), (32, 1, 1), 166912))


def test_wrong_calls_are_refused() -> None:
    device = make_device()
    run = device.load(PTX, "ptx", "key").function("count").launcher(SHAPE)
    with pytest.raises(
        InvalidArgumentError, match=r"packed arguments are too short.*16 bytes.*got 8"
    ):
        run(bytes(8))
    with pytest.raises(InvalidArgumentError, match="not a stream of this device"):
        run(bytes(16), 12345)
    with pytest.raises(InvalidArgumentError, match="expected ptx, got cubin"):
        device.load(b"", "cubin", "key")


def test_newer_ptx_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GE2RT_CPU_ARCH", "sm_75")
    device = make_device()
    assert (device.props.arch, device.props.cc, device.props.shared_optin) == ("sm_75", 7.5, 65536)
    with pytest.raises(InvalidArgumentError, match=r"needs a newer device.*GE2RT_CPU_ARCH=sm_80"):
        device.load(PTX, "ptx", "key")


def test_unknown_arch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GE2RT_CPU_ARCH", "sm_52")
    with pytest.raises(InvalidArgumentError, match=r"'GE2RT_CPU_ARCH'.*sm_75, sm_80.*got 'sm_52'"):
        make_device()


def test_bytes_that_are_no_text_are_a_compile_error() -> None:
    with pytest.raises(CompileError, match="not UTF-8"):
        make_device().load(b"\xff\xfe", "ptx", "key")


class Refusing:
    """A translator that must not be asked."""

    def __call__(self) -> Any:
        made = translator()

        def fail(*_: Any) -> Any:
            raise AssertionError("the store should have answered")

        return type(made)(fail, fail, fail, fail, fail, fail, made.version)


def test_a_cached_module_needs_no_translator() -> None:
    store = MemoryStore()
    first, _ = look(make_device(store))
    cached = CpuDevice(store=store, translator=Refusing())
    again, module = look(cached)
    np.testing.assert_array_equal(first.view(np.int32)[:4], again.view(np.int32)[:4])
    assert module.function("look").native((32, 1, 1)).notes == ("block (32, 1, 1)",)
    with pytest.raises(AssertionError, match="store"):
        module.function("look").launcher(LaunchShape((1, 1, 1), (64, 1, 1)))


def test_another_text_or_switch_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    look(make_device(store))
    cached = CpuDevice(store=store, translator=Refusing())
    with pytest.raises(AssertionError):
        cached.load(PTX + b"\n", "ptx", "key")
    module = cached.load(PTX, "ptx", "key")
    monkeypatch.setenv("GE2RT_LANES", "16")
    with pytest.raises(AssertionError):
        module.function("look").launcher(SHAPE)


@pytest.mark.parametrize("damage", [b"", b"other", b"ge2rt-object-2\n", None])
def test_damaged_entries_are_misses(damage: bytes | None) -> None:
    store = MemoryStore()
    look(make_device(store))
    for key, data in list(store._entries.items()):
        store._entries[key] = damage if damage is not None else data[:40]
    out, _ = look(make_device(store))
    assert out.view(np.int32)[0] == 3


def test_entries_round_trip() -> None:
    meta = {"a": [1, "é"], "b": {"c": None}}
    assert decode(encode(meta, b"\0payload")) == (meta, b"\0payload")
    assert decode(None) is None


def test_features_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GE2RT_CPU_FEATURES", raising=False)
    native = objects.host_target()
    assert native.cpu
    monkeypatch.setenv("GE2RT_CPU_FEATURES", "avx2")
    assert objects.host_target() == objects.HostTarget("x86-64-v3", "")
    monkeypatch.setenv("GE2RT_CPU_FEATURES", "-avx512f,+fma")
    assert objects.host_target().features.endswith(",-avx512f,+fma")
    monkeypatch.setenv("GE2RT_CPU_FEATURES", "fast")
    with pytest.raises(InvalidArgumentError, match="GE2RT_CPU_FEATURES is malformed"):
        objects.host_target()


def test_streams_and_events() -> None:
    device: Device = make_device()
    run = device.load(PTX, "ptx", "key").function("look").launcher(SHAPE)
    stream = device.create_stream()
    assert stream != 0
    out = np.zeros(5, np.int64)
    first = device.record_event(stream)
    run(struct.pack("=q", out.ctypes.data), stream)
    second = device.record_event(stream)
    device.wait_event(second)
    assert device.elapsed_ms(first, second) > 0
    device.synchronize(stream)
    device.destroy_stream(stream)
    with pytest.raises(InvalidArgumentError):
        device.check_stream(stream)


def test_a_broken_object_is_an_internal_error() -> None:
    from ge2rt.base.errors import InternalError

    with pytest.raises(InternalError, match="did not link"):
        objects.link(b"not an object", ("f",))
