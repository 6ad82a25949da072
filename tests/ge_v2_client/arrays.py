"""Memory as clients hold it: NumPy arrays behind the several kinds of handles."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

_RNG = np.random.default_rng(11)


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Normal numbers."""
    return _RNG.standard_normal(shape).astype(dtype)


def address(array: np.ndarray[Any, Any]) -> int:
    """Where it begins."""
    return int(array.__array_interface__["data"][0])


def as_torch(array: np.ndarray[Any, Any]) -> Any:
    """A handle like a Torch tensor."""
    return SimpleNamespace(data_ptr=lambda: address(array))


def as_cupy(array: np.ndarray[Any, Any]) -> Any:
    """A handle like a CuPy array."""
    return SimpleNamespace(data=SimpleNamespace(ptr=address(array)))


def as_pointer(array: np.ndarray[Any, Any]) -> Any:
    """A handle with ``ptr``."""
    return SimpleNamespace(ptr=address(array))


def as_device_pointer(array: np.ndarray[Any, Any]) -> Any:
    """A handle with ``device_ptr``."""
    return SimpleNamespace(device_ptr=address(array))


def wrapped(array: np.ndarray[Any, Any]) -> Any:
    """A wrapper around another handle."""
    return SimpleNamespace(t=as_torch(array))
