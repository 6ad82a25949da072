"""The native module: which one it is, addresses of foreign objects, C structs of parameters."""

from __future__ import annotations

import ctypes
import importlib
import os
from typing import Any

_INT, _FLOAT = ctypes.c_int, ctypes.c_float


def load_native() -> Any:
    """The module that ``GE_NATIVE`` names."""
    module = importlib.import_module(os.environ.get("GE_NATIVE", "graph_executor_v2"))
    if not hasattr(module, "launch_kernel"):
        raise ImportError(f"{module.__name__} has no launch_kernel")
    return module


def pointer_of(handle: Any) -> int:
    """The device address of whatever a tensor holds; None is 0."""
    if handle is None:
        return 0
    if isinstance(handle, int):
        return handle
    if hasattr(handle, "data_ptr"):
        return int(handle.data_ptr())
    inner = getattr(getattr(handle, "data", None), "ptr", None)
    if inner is not None:
        return int(inner)
    for name in ("ptr", "device_ptr"):
        if hasattr(handle, name):
            return int(getattr(handle, name))
    if hasattr(handle, "t"):
        return pointer_of(handle.t)
    raise TypeError(f"no address in a {type(handle).__name__}")


class Basic(ctypes.Structure):
    """``act``: 0 none, 1 relu."""

    _fields_ = [(name, _INT) for name in ("M", "N", "K", "has_bias", "act")]


class Forward(ctypes.Structure):
    """The extended forward block."""

    _fields_ = [
        *((name, _INT) for name in ("M", "N", "K", "lda", "ldb", "ldc", "ldd")),
        ("alpha", _FLOAT), ("beta", _FLOAT),
        *((name, _INT) for name in ("use_C", "has_bias", "bias_kind", "act_kind")),
        ("leaky_slope", _FLOAT), ("save_preact", _INT), ("ldZ", _INT),
    ]  # fmt: skip


class Backward(ctypes.Structure):
    """The extended backward block."""

    _fields_ = [
        *((name, _INT) for name in ("M", "N", "K", "lda", "ldb", "ldc", "ldgY", "ldZ")),
        *((name, _INT) for name in ("ldgA", "ldgB", "ldgC")),
        ("alpha", _FLOAT), ("beta", _FLOAT), ("bias_kind", _INT), ("act_kind", _INT),
        ("leaky_slope", _FLOAT),
    ]  # fmt: skip


def call_with_block(native: Any, kernel: str, pointers: list[int], block: Any) -> Any:
    """Launch, then let the block's memory become garbage, as a stack frame's does."""
    code = native.launch_kernel(kernel, [*pointers, ctypes.addressof(block)], {"buffers": []}, 0)
    ctypes.memset(ctypes.addressof(block), 0xDD, ctypes.sizeof(block))
    return code
