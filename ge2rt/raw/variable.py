"""A module's ``__device__`` or ``__constant__`` variable, as the host sees it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.device.api import Device


class Variable:
    """Memory of a variable: ``ptr`` and ``nbytes``, array interfaces, copies to and from the host.

    NumPy (on host devices) and CuPy (on GPUs) take it as an array of bytes without copying.
    """

    def __init__(self, name: str, address: int, nbytes: int, device: Device, keep: object) -> None:
        self.name = name
        self.ptr = address
        self.nbytes = nbytes
        self.device = device
        self._keep = keep

    def __repr__(self) -> str:
        return f"<Variable {self.name}: {self.nbytes} bytes at {self.ptr:#x} on {self.device.name}>"

    def __getattr__(self, name: str) -> Any:
        host = self.__dict__["device"].accepts("cpu")
        if name == ("__array_interface__" if host else "__cuda_array_interface__"):
            data = (self.ptr, False)
            return {"version": 3, "shape": (self.nbytes,), "typestr": "|u1", "data": data}
        raise AttributeError(name)

    def array(self, dtype: Any = np.uint8, shape: Any = -1) -> np.ndarray[Any, Any]:
        """The variable itself as a NumPy array, on devices in host memory."""
        if not self.device.accepts("cpu"):
            raise UnsupportedError(
                f"variable {self.name!r} lies on {self.device.name}", detail="device",
                next_step="use get() and set(), or cupy.asarray(variable).view(dtype)",
            )  # fmt: skip
        return self._shaped(np.asarray(self), dtype, shape)

    def get(self, dtype: Any = np.uint8, shape: Any = -1) -> np.ndarray[Any, Any]:
        """A copy of its value."""
        data = bytearray(self.device.memory.read(self.ptr, self.nbytes))
        return self._shaped(np.frombuffer(data, np.uint8), dtype, shape)

    def set(self, value: Any) -> None:
        """Write ``value`` (an array or bytes of exactly its size), seen by later launches."""
        is_bytes = isinstance(value, (bytes, bytearray, memoryview))
        data = bytes(value) if is_bytes else np.ascontiguousarray(value).tobytes()
        if len(data) != self.nbytes:
            raise InvalidArgumentError(
                f"variable {self.name!r} has another size", expected=f"{self.nbytes} bytes",
                got=str(len(data)), next_step="give the values the variable's dtype",
            )  # fmt: skip
        self.device.synchronize()
        self.device.memory.write(self.ptr, data)

    def _shaped(self, data: np.ndarray[Any, Any], dtype: Any, shape: Any) -> np.ndarray[Any, Any]:
        try:
            shaped: np.ndarray[Any, Any] = data.view(dtype).reshape(shape)
        except ValueError as fault:
            raise InvalidArgumentError(
                f"variable {self.name!r} has {self.nbytes} bytes: {fault}", detail="shape"
            ) from None
        return shaped
