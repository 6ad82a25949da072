from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ge2rt.base.errors import DeviceError, InvalidArgumentError
from ge2rt.device import registry
from ge2rt.device.null import NullDevice
from ge2rt.device.registry import get_device, register_device


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("GE2RT_DEVICE", "GE2RT_EMULATE_CUDA", "GE2RT_CPU_ARCH"):
        monkeypatch.delenv(name, raising=False)
    registry.clear()
    yield
    registry.clear()


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ask_driver", lambda: 0)


def test_auto_without_a_gpu_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    assert get_device().name == "cpu"
    assert get_device("auto") is get_device("cpu")


def test_the_switch_names_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GE2RT_DEVICE", "null")
    assert get_device().name == "null"


def test_cuda_without_a_gpu_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    with pytest.raises(DeviceError, match=r"cuda:0 does not exist.*no usable NVIDIA GPU.*EMULATE"):
        get_device("cuda")


def test_an_index_beyond_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ask_driver", lambda: 2)
    with pytest.raises(DeviceError, match=r"cuda:2 does not exist.*index 2, got 2 GPUs"):
        get_device("cuda:2")


def test_auto_takes_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ask_driver", lambda: 1)
    made = []

    def factory(index: int) -> NullDevice:
        made.append(index)
        return NullDevice()

    register_device("cuda", factory)
    assert get_device() is get_device("cuda") is get_device("cuda:0")
    assert made == [0]
    assert get_device("cuda:1") is not get_device("cuda")
    assert made == [0, 1]


def test_emulation_turns_cuda_into_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ask_driver", lambda: 1)
    monkeypatch.setenv("GE2RT_EMULATE_CUDA", "1")
    assert get_device("cuda") is get_device("cuda:3") is get_device("auto") is get_device("cpu")


def test_devices_from_outside() -> None:
    register_device("mine", lambda index: NullDevice(arch=f"sm_{80 + index}"))
    assert get_device("mine:6").props.arch == "sm_86"
    assert get_device("mine:6") is get_device("mine:6")
    register_device("mine", lambda index: NullDevice(arch="sm_90"))
    assert get_device("mine:6").props.arch == "sm_90"
    registry.clear()
    with pytest.raises(
        InvalidArgumentError, match="no such device; expected auto, cpu, cuda, null"
    ):
        get_device("mine")


@pytest.mark.parametrize("name", ["cuda:", "cuda:x", "cpu:-1", "cuda:1:2"])
def test_malformed_names(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not the name of a device"):
        get_device(name)


def test_there_is_one_cpu() -> None:
    with pytest.raises(InvalidArgumentError, match="there is one cpu device"):
        get_device("cpu:1")


@pytest.mark.parametrize("kind", ["auto", "my device", ""])
def test_kinds_that_cannot_be_registered(kind: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not a name for a kind"):
        register_device(kind, lambda index: NullDevice())


def test_asking_for_a_device_imports_neither_cupy_nor_llvm() -> None:
    code = (
        "import sys; from ge2rt.device.registry import get_device, gpu_count; gpu_count();"
        "get_device('cpu'); get_device('null');"
        "print([m for m in ('cupy', 'llvmlite', 'jinja2', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(registry.ctypes, "CDLL", missing)
    assert registry.gpu_count() == 0


def test_an_unknown_switch_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GE2RT_CHEK", "all")
    with pytest.warns(RuntimeWarning, match="GE2RT_CHEK is unknown.*mean 'GE2RT_CHECK'") as told:
        get_device("null")
    assert len(told) == 1
    get_device("cpu")
    monkeypatch.setenv("GE2RT_QQ", "1")
    registry.register_device("other", lambda index: NullDevice())
    with pytest.warns(RuntimeWarning, match="GE2RT_QQ is unknown and does nothing"):
        get_device("other")
