"""What ``to`` is given: a device, a dtype, or both."""

from __future__ import annotations

from typing import Any

from ge2rt.base.dtypes import DType, dtype_of
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.text import show
from ge2rt.jit.scope import where


def target(what: str, device: Any, dtype: Any) -> tuple[str | None, DType | None]:
    """The device and the dtype, which may stand in the device's place: ``to("float16")``.

    ValueError for a dtype there and something more behind it.
    """
    first = None if device is None else _dtype(device)
    if first is None:
        return device, None if dtype is None else dtype_of(dtype)
    if dtype is not None:
        raise InvalidArgumentError(
            f"{what}: a dtype stands in the place of the device, and another value behind it",
            got=f"{show(device)}, {show(dtype)}", where=where(), argument="device",
            next_step='write the device first: to("cuda:0", "f16"), or a dtype alone',
        )  # fmt: skip
    return None, first


def _dtype(value: Any) -> DType | None:
    """The dtype of this name; None for another string, which names a device."""
    try:
        return dtype_of(value)
    except TypeError:
        if isinstance(value, str):
            return None
        raise
