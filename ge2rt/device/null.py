"""The null device: records launches and runs nothing. Planning is testable anywhere with it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.device.api import DeviceProps, Function, Launcher, LaunchShape, Module
from ge2rt.device.host import HostDevice
from ge2rt.device.limits import KernelNeeds, arch_number, check_shape

_ENTRY = re.compile(rb"\.entry\s+([A-Za-z_$][\w$]*)")


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch that a real device would have run."""

    kernel: str
    key: str
    shape: LaunchShape
    args: bytes
    stream: int


class NullFunction(Function):
    """A kernel that only has a name."""

    def __init__(self, device: NullDevice, key: str, name: str) -> None:
        self.name = name
        self.param_layout: tuple[tuple[str, int, int], ...] = ()
        self._device = device
        self._key = key

    def launcher(self, shape: LaunchShape) -> Launcher:
        """Check ``shape`` and return what records a launch."""
        device, name, key = self._device, self.name, self._key
        check_shape(device.props, KernelNeeds(name), shape)

        def launch(args: bytes, stream: int = 0) -> None:
            device.check_stream(stream)
            device.launches.append(RecordedLaunch(name, key, shape, args, stream))

        return launch


class NullModule(Module):
    """A module of which only the names of the kernels are read."""

    def __init__(self, device: NullDevice, binary: bytes, key: str) -> None:
        self._device = device
        self._key = key
        self._names = [name.decode() for name in _ENTRY.findall(binary)]

    def function(self, name: str) -> Function:
        """The kernel ``name``; any name where the binary is not PTX text."""
        if self._names and name not in self._names:
            raise InvalidArgumentError(
                "no such kernel in the module", kernel=name, expected=", ".join(self._names)
            )
        return NullFunction(self._device, self._key, name)

    def global_address(self, name: str) -> tuple[int, int]:
        """There are no variables here."""
        raise InvalidArgumentError(f"no variable {name!r} on the null device")


class NullDevice(HostDevice):
    """Records in ``launches`` what it was asked to run; its memory is host memory."""

    def __init__(self, arch: str = "sm_80", binary_kind: str = "ptx") -> None:
        super().__init__()
        self.props = DeviceProps(
            name="null", kind="null", arch=arch, cc=arch_number(arch) / 10, tensor_cores=True,
            binary_kind=binary_kind,
        )  # fmt: skip
        self.launches: list[RecordedLaunch] = []

    def load(self, binary: bytes, kind: str, key: str, line_map: object = None) -> Module:
        """Accept any binary of any kind."""
        del kind, line_map
        return NullModule(self, binary, key)
