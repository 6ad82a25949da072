"""The module that launches: our own runtime, or another one with the same functions.

ge_v2's compilers name it by ``GE_NATIVE``. It needs ``launch_kernel(name, buffers, descs,
stream)``; ``query_capability(op_type, in_descs, out_descs)`` and ``last_error()`` are used where
they are there.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.errors import last_error as own_last_error
from ge2rt.base.text import show
from ge2rt.device.api import DeviceProps
from ge2rt.run import launch
from ge2rt.run.select import capable
from ge2rt.spec.descs import parse_descs
from ge2rt.spec.registry import default_registry


class Native(Protocol):
    """What an injected module has at least."""

    def launch_kernel(
        self, kernel_name: str, buffers: Sequence[int], descs: Mapping[str, Any] | None,
        stream: int = 0, /,
    ) -> int:  # fmt: skip
        """Run a kernel; 0 or a negative status code."""


class Own:
    """ge2rt itself, by the same functions."""

    def __init__(self, props: DeviceProps) -> None:
        self._props = props

    def launch_kernel(
        self, kernel_name: str, buffers: Sequence[int], descs: Mapping[str, Any] | None,
        stream: int = 0, /,
    ) -> int:  # fmt: skip
        """Run a kernel; 0 or a negative status code."""
        return launch.launch_kernel(kernel_name, buffers, descs, stream)

    def query_capability(
        self, op_type: str, in_descs: Mapping[str, Any], out_descs: Mapping[str, Any]
    ) -> dict[str, int]:
        """Kernel name -> declared score, for the kernels that can run this call."""
        inputs, outputs = parse_descs(in_descs), parse_descs(out_descs)
        attrs = {**inputs.attrs, **outputs.attrs}
        return {
            kernel.name: kernel.score
            for kernel in default_registry().kernels_of(op_type)
            if capable(kernel, inputs.buffers, outputs.buffers, attrs, self._props)
        }

    def last_error(self) -> Any:
        """The last error record of this thread."""
        return own_last_error()


def find_native(given: Any, props: DeviceProps) -> Native:
    """The module to launch through: an object, a module's name, ``GE_NATIVE``, or ge2rt itself."""
    if given is None:
        given = os.environ.get("GE_NATIVE") or Own(props)  # ge_v2's name, not one of ours
    if isinstance(given, str):
        try:
            given = importlib.import_module(given)
        except ImportError as fault:
            raise InvalidArgumentError(
                f"the native module {given!r} does not import: {fault}",
                argument="native",
                next_step="unset GE_NATIVE to launch through ge2rt",
            ) from fault
    if not callable(getattr(given, "launch_kernel", None)):
        raise InvalidTypeError(
            "not a module to launch through", argument="native", got=show(given),
            expected="an object with launch_kernel(name, buffers, descs, stream)",
        )  # fmt: skip
    return cast(Native, given)
