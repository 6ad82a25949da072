"""Devices by name: ``cpu``, ``cuda``, ``cuda:1``, ``null``, ``auto``, and those from outside."""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Callable

from ge2rt.base import switches
from ge2rt.base.errors import DeviceError, InvalidArgumentError, InvalidTypeError
from ge2rt.base.locks import ForkLock
from ge2rt.base.text import show
from ge2rt.device.api import Device
from ge2rt.spec.suggest import did_you_mean

Factory = Callable[[int], Device]

_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_MOST_DIGITS = 6

_lock = ForkLock(reentrant=True)
_factories: dict[str, Factory] = {}
_devices: dict[tuple[str, int], Device] = {}
_gpus: dict[str, int] = {}
_told: set[str] = set()  # variables of the environment that nobody knows


def _cpu(index: int) -> Device:
    from ge2rt.device.cpu import CpuDevice  # late, as all devices: only the one in use is imported

    return CpuDevice()


def _cuda(index: int) -> Device:
    from ge2rt.device.cuda import CudaDevice

    return CudaDevice(index)


def _null(index: int) -> Device:
    from ge2rt.device.null import NullDevice

    return NullDevice()


_BUILT_IN: dict[str, Factory] = {"cpu": _cpu, "cuda": _cuda, "null": _null}


def register_device(kind: str, factory: Factory) -> None:
    """Make ``get_device(kind)`` and ``get_device("kind:N")`` call ``factory(N)`` once.

    A kind that is known is replaced from now on.
    """
    if not isinstance(kind, str) or not kind.isidentifier() or kind == "auto":
        raise InvalidArgumentError(
            "not a name for a kind of device", expected="a word", got=show(kind)
        )
    if not callable(factory):
        raise InvalidTypeError(
            "not a factory of devices", expected="a function of the index", got=show(factory)
        )
    with _lock:
        _factories[kind] = factory
        for key in [key for key in _devices if key[0] == kind]:
            del _devices[key]


def get_device(name: str | None = None) -> Device:
    """The device ``name`` (``GE2RT_DEVICE`` without one), made once.

    The first one warns (RuntimeWarning) of ``GE2RT_*`` variables that do not exist: a misspelt
    one would do nothing.

    ``auto`` is the first GPU, or the CPU where there is none. With ``GE2RT_EMULATE_CUDA=1`` every
    ``cuda`` device is the CPU device.
    """
    kind, index = _parse(name if name is not None else switches.get("GE2RT_DEVICE"))
    if kind == "cuda" and switches.get("GE2RT_EMULATE_CUDA"):
        kind, index = "cpu", 0
    if kind == "auto":
        kind = "cuda" if gpu_count() and not switches.get("GE2RT_EMULATE_CUDA") else "cpu"
    found = _devices.get((kind, index))
    if found is None:
        with _lock:
            found = _devices.get((kind, index)) or _make(kind, index)
            _devices[kind, index] = found
    return found


def gpu_count() -> int:
    """GPUs that the driver shows; asked once, without CuPy, and 0 where there is no driver."""
    if "count" not in _gpus:
        _gpus["count"] = _ask_driver()
    return _gpus["count"]


def clear() -> None:
    """Forget all devices, those from outside too, and look for GPUs again."""
    with _lock:
        _devices.clear()
        _factories.clear()
        _gpus.clear()
        _told.clear()


def _parse(name: str) -> tuple[str, int]:
    kind, colon, number = name.partition(":") if isinstance(name, str) else ("", ":", "")
    if colon and not (number.isascii() and number.isdigit() and len(number) < _MOST_DIGITS):
        raise InvalidArgumentError(
            "not the name of a device", expected="cpu, cuda, cuda:N or auto", got=show(name),
            detail="device",
        )  # fmt: skip
    return kind, int(number or 0)


def _tell_unknown_switches() -> None:
    for name in sorted(switches.given() - switches.TABLE.keys() - _told):
        _told.add(name)
        hint = did_you_mean(name, switches.TABLE) or "`ge2rt doctor` and the docs list all"
        text = f"environment variable {name} is unknown and does nothing. {hint}"
        warnings.warn(text, RuntimeWarning, stacklevel=4)


def _make(kind: str, index: int) -> Device:
    _tell_unknown_switches()
    factory = _factories.get(kind) or _BUILT_IN.get(kind)
    if factory is None:
        known = ", ".join(("auto", *sorted({*_BUILT_IN, *_factories})))
        raise InvalidArgumentError(
            "no such device", expected=known, got=show(kind), detail="device"
        )
    if kind == "cuda" and kind not in _factories:
        _require_gpu(index)
    if kind == "cpu" and index:
        raise InvalidArgumentError(
            "there is one cpu device", expected="cpu", got=f"cpu:{index}", detail="device"
        )
    made = factory(index)
    if not isinstance(made, Device):
        raise InvalidTypeError(
            f"the factory of {kind!r} gave no device", expected="a ge2rt.device.api.Device",
            got=show(made), detail="device",
        )  # fmt: skip
    return made


def _require_gpu(index: int) -> None:
    count = gpu_count()
    if index >= count:
        there = f"{count} GPU{'s' if count > 1 else ''}" if count else "no usable NVIDIA GPU"
        raise DeviceError(
            f"device cuda:{index} does not exist", expected=f"a GPU with index {index}", got=there,
            detail="device",
            next_step='use device "cpu", or GE2RT_EMULATE_CUDA=1 to run cuda calls on the CPU',
        )  # fmt: skip


def driver_version() -> int:
    """CUDA version that the driver supports, such as 12080; 0 where there is no driver."""
    version = ctypes.c_int(0)
    try:
        failed = ctypes.CDLL(_DRIVER).cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else version.value


def _ask_driver() -> int:
    try:
        driver = ctypes.CDLL(_DRIVER)
        count = ctypes.c_int(0)
        failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else count.value
