from __future__ import annotations

import numpy as np
import pytest

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InvalidArgumentError, OutOfMemoryError
from ge2rt.device.api import LaunchShape
from ge2rt.device.host import HostMemory
from ge2rt.device.limits import ARCHS, KernelNeeds, arch_number, check_shape, virtual_gpu
from ge2rt.device.null import NullDevice, RecordedLaunch

SHAPE = LaunchShape((3, 1, 1), (64, 1, 1), 16)
PTX = b".version 8.0\n.visible .entry one(\n)\n{ ret; }\n.weak .entry two$x() { ret; }\n"


def test_launches_are_recorded_and_not_run() -> None:
    device = NullDevice()
    stream = device.create_stream()
    launch = device.load(PTX, "ptx", "key").function("two$x").launcher(SHAPE)
    launch(b"args", stream)
    launch(b"more")
    assert device.launches == [
        RecordedLaunch("two$x", "key", SHAPE, b"args", stream),
        RecordedLaunch("two$x", "key", SHAPE, b"more", 0),
    ]


def test_names_of_ptx_are_known_and_a_cubin_has_any() -> None:
    device = NullDevice(binary_kind="cubin")
    with pytest.raises(InvalidArgumentError, match=r"three: no such kernel.*one, two\$x"):
        device.load(PTX, "ptx", "key").function("three")
    assert device.load(b"\x7fELF", "cubin", "key").function("three").name == "three"


def test_wrong_streams_and_variables_are_refused() -> None:
    device = NullDevice()
    module = device.load(PTX, "ptx", "key")
    with pytest.raises(InvalidArgumentError, match="stream"):
        module.function("one").launcher(SHAPE)(b"", 99)
    with pytest.raises(InvalidArgumentError, match="no variable"):
        module.global_address("x")
    with pytest.raises(InvalidArgumentError):
        device.synchronize(99)
    device.synchronize()


def test_host_arrays_are_accepted() -> None:
    device = NullDevice()
    assert device.accepts("cpu")
    assert device.accepts("null")
    assert not device.accepts("cuda:0")
    assert device.empty((2, 0), DTYPES["i16"]).dtype == np.int16


def test_memory_is_aligned_readable_and_known() -> None:
    memory = HostMemory()
    first, second = memory.allocate(1), memory.allocate(1000)
    assert first % 256 == second % 256 == 0
    memory.fill(second, 7, 1000)
    memory.write(second, np.arange(3, dtype=np.uint8).data)
    assert memory.read(second, 5) == b"\0\1\2\7\7"
    assert memory.live() == sorted([(first, 1), (second, 1000)])
    assert memory.find(second + 999) == (second, 1000)
    assert memory.find(second + 1000) is None
    memory.free(second)
    with pytest.raises(InvalidArgumentError, match="not allocated on this device"):
        memory.free(second)
    assert memory.live() == [(first, 1)]


def test_no_bytes_is_address_zero_and_too_many_are_refused() -> None:
    memory = HostMemory()
    assert memory.allocate(0) == 0
    memory.free(0)
    with pytest.raises(OutOfMemoryError, match="no host memory for"):
        memory.allocate(2**62)
    with pytest.raises(InvalidArgumentError, match="negative size"):
        memory.allocate(-1)


@pytest.mark.parametrize(("name", "number"), [("sm_80", 80), ("compute_75", 75), ("sm_90a", 90)])
def test_names_of_architectures(name: str, number: int) -> None:
    assert arch_number(name) == number


@pytest.mark.parametrize("name", ["80", "sm80", "sm_", "sm_80x", "gfx90"])
def test_what_is_no_architecture(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not the name of an architecture"):
        arch_number(name)


def test_every_virtual_gpu_is_consistent() -> None:
    for number in ARCHS:
        props = virtual_gpu(f"sm_{number}", 2)
        assert arch_number(props.arch) == round(props.cc * 10) == number
        assert props.shared_static <= props.shared_optin
        assert props.multiprocessors == 2


def test_required_block_shape() -> None:
    needs = KernelNeeds.from_directives("k", 0, {"reqntid": (32, 2)})
    props = virtual_gpu("sm_80", 1)
    check_shape(props, needs, LaunchShape((1, 1, 1), (32, 2, 1)))
    with pytest.raises(InvalidArgumentError, match=r"requires its block shape.*\(32, 2, 1\)"):
        check_shape(props, needs, LaunchShape((1, 1, 1), (64, 1, 1)))


def test_static_and_dynamic_shared_memory_add_up() -> None:
    needs = KernelNeeds("k", shared=1024)
    props = virtual_gpu("sm_75", 1)
    check_shape(props, needs, LaunchShape((1, 1, 1), (1, 1, 1), 63 * 1024))
    with pytest.raises(InvalidArgumentError, match="at most 65536 bytes, 1024 of them static"):
        check_shape(props, needs, LaunchShape((1, 1, 1), (1, 1, 1), 63 * 1024 + 1))
    with pytest.raises(InvalidArgumentError):
        check_shape(props, needs, LaunchShape((1, 1, 1), (1, 1, 1), -1))
