"""The ``descs`` argument of a call -> :class:`BufferDesc` records.

``shape`` is logical. For the layouts ``NCHW`` and ``NHWC`` it is always given in the order N, C, H,
W; the layout says in which order the elements lie in memory, and strides follow from it when they
are not given. Where strides are given, they are the truth. A device that is not named is ``""``:
the default device of the call.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DTYPES, DType, dtype_of
from ge2rt.base.errors import Ge2rtError, InvalidArgumentError, InvalidTypeError
from ge2rt.base.shapes import canonical_strides, contiguous_strides
from ge2rt.base.text import show
from ge2rt.spec.model import BufferDesc
from ge2rt.spec.suggest import did_you_mean, nearest

LAYOUTS = ("rowmajor", "strided", "NCHW", "NHWC")
MAX_RANK = 32

_LIMIT = 2**63
_DEVICE = re.compile(r"[a-z][a-z0-9_]{0,31}(:\d{1,4})?\Z")  # kinds may come from outside
_NUMPY_NAME = re.compile(
    r"[<=|]?[fiub][1248]$|[a-z]{3,8}[0-9]{1,2}(_e[0-9]m[0-9](fn)?)?$|torch\.\w+$"
)


@dataclass(frozen=True)
class CallDescs:
    """What ``descs`` of a call say. ``kernel`` is the name under that key, if any."""

    buffers: tuple[BufferDesc | None, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    kernel: str | None = None


def parse_descs(descs: Any) -> CallDescs:
    """Check and convert ``descs``; None is the same as no buffers at all. Extra keys are ignored.

    Raises :class:`InvalidArgumentError`, which names the field as ``buffers[i].field``.
    """
    if descs is None:
        return CallDescs((), {})
    if not isinstance(descs, Mapping):
        raise _wrong("descs", "a dict", descs)
    kernel = descs.get("kernel")
    if kernel is not None and not isinstance(kernel, str):
        raise _wrong("descs.kernel", "a name", kernel)
    return CallDescs(parse_buffers(descs.get("buffers")), parse_attrs(descs.get("attrs")), kernel)


def parse_buffers(buffers: Any, name: str = "buffers") -> tuple[BufferDesc | None, ...]:
    """The descriptors of a list; None entries (absent optional buffers) stay None."""
    if buffers is None:
        return ()
    if isinstance(buffers, Mapping) and not buffers:
        return ()
    if not isinstance(buffers, (list, tuple)):
        raise _wrong(name, "a list of dicts", buffers)
    return tuple(
        None if b is None else parse_buffer(b, f"{name}[{i}]") for i, b in enumerate(buffers)
    )


def parse_attrs(attrs: Any) -> dict[str, Any]:
    """The attributes as a dict with string keys."""
    if attrs is None:
        return {}
    if not isinstance(attrs, Mapping) or not all(isinstance(k, str) for k in attrs):
        raise _wrong("attrs", "a dict of names", attrs)
    return dict(attrs)


def parse_buffer(entry: Any, name: str = "buffer") -> BufferDesc:
    """One descriptor from a dict (or an object that is one already)."""
    if isinstance(entry, BufferDesc):
        return entry
    if not isinstance(entry, Mapping):
        raise _wrong(name, "a dict", entry)
    if "shape" not in entry or "dtype" not in entry:
        absent = "dtype" if "shape" in entry else "shape"
        near = nearest(absent, [k for k in entry if isinstance(k, str)])
        raise InvalidArgumentError(
            f"{absent} is missing", argument=f"{name}.{absent}", detail="argument",
            next_step=near and f"the key {near!r} is not known",
        )  # fmt: skip
    shape = _extents(entry["shape"], f"{name}.shape")
    layout = _layout(entry.get("layout"), len(shape), f"{name}.layout")
    return BufferDesc(
        shape=shape,
        dtype=_dtype(entry["dtype"], f"{name}.dtype"),
        strides=_strides(entry.get("strides"), shape, layout, f"{name}.strides"),
        offset=_offset(entry.get("offset"), f"{name}.offset"),
        layout=layout,
        device=_device(entry.get("device"), f"{name}.device"),
    )


def desc_of(
    shape: Sequence[int],
    dtype: Any,
    strides: Sequence[int] | None = None,
    device: str = "cpu",
    *,
    offset: int = 0,
    layout: str = "rowmajor",
) -> BufferDesc:
    """A checked descriptor; strides in elements, row-major (or the layout's) when not given."""
    entry = {
        "shape": shape, "dtype": dtype, "strides": strides, "offset": offset,
        "layout": layout, "device": device,
    }  # fmt: skip
    return parse_buffer(entry)


def layout_strides(shape: Sequence[int], layout: str) -> tuple[int, ...]:
    """Strides of a dense array: row-major, or for NHWC with the channels innermost."""
    if layout != "NHWC":
        return contiguous_strides(shape)
    n, c, h, w = shape
    by_n, by_h, by_w, by_c = contiguous_strides((n, h, w, c))
    return by_n, by_c, by_h, by_w


def _wrong(
    argument: str, expected: str, got: Any, detail: str = "argument"
) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the value cannot be used", argument=argument, expected=expected, got=show(got),
        detail=detail,
    )  # fmt: skip


def _whole(value: Any, argument: str, detail: str) -> int:
    # Most values are ints already; bool is an int to Python but never an extent.
    if type(value) is not int:
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            raise _wrong(argument, "a whole number, not a bool", value, detail)
        try:
            value = operator.index(value)
        except TypeError:
            raise _wrong(argument, "a whole number", value, detail) from None
    if not -_LIMIT <= value < _LIMIT:
        raise _wrong(argument, "a number that fits 64 bits", value, detail)
    return int(value)


def _items(value: Any, argument: str, detail: str) -> tuple[int, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Sequence):
        raise _wrong(argument, "a list of whole numbers", value, detail)
    if len(value) > MAX_RANK:
        raise _wrong(argument, f"at most {MAX_RANK} axes", len(value), detail)
    return tuple(_whole(v, argument, detail) for v in value)


def _extents(value: Any, argument: str) -> tuple[int, ...]:
    shape = _items(value, argument, "shape")
    size = 1
    for extent in shape:
        if extent < 0:
            raise _wrong(argument, "extents of at least 0", list(shape), "shape")
        size *= max(extent, 1)
    if size >= _LIMIT:
        raise _wrong(argument, "fewer than 2**63 elements", list(shape), "shape")
    return shape


def _strides(value: Any, shape: tuple[int, ...], layout: str, argument: str) -> tuple[int, ...]:
    if value is None:
        return canonical_strides(shape, layout_strides(shape, layout))
    strides = _items(value, argument, "stride")
    if len(strides) != len(shape):
        raise _wrong(argument, f"{len(shape)} strides, one an axis", list(strides), "stride")
    if sum(abs(s) * max(e - 1, 0) for s, e in zip(strides, shape, strict=True)) >= _LIMIT:
        raise _wrong(argument, "a span of fewer than 2**63 elements", list(strides), "stride")
    return canonical_strides(shape, strides)


def _offset(value: Any, argument: str) -> int:
    return 0 if value is None else _whole(value, argument, "argument")


def _layout(value: Any, rank: int, argument: str) -> str:
    if value is None:
        return "rowmajor"
    if not isinstance(value, str) or value not in LAYOUTS:
        near = did_you_mean(value, LAYOUTS) if isinstance(value, str) else ""
        fault = _wrong(argument, " | ".join(LAYOUTS), value, "layout")
        raise fault.about(next_step=near) if near else fault
    if value in ("NCHW", "NHWC") and rank != 4:
        raise _wrong(argument, f"a shape of 4 axes for {value}", rank, "layout")
    return value


def _device(value: Any, argument: str) -> str:
    if value is None:
        return ""
    if type(value).__module__ == "torch":
        value = str(value)
    if not isinstance(value, str) or not _DEVICE.match(value):
        raise _wrong(argument, "a device such as cpu, cuda or cuda:N", value, "device")
    return value


def _dtype(value: Any, argument: str) -> DType:
    if isinstance(value, str):
        known = DTYPES.get(value)
        if known is not None:
            return known
    if value is None or (isinstance(value, str) and not _NUMPY_NAME.match(value)):
        hint = did_you_mean(value, DTYPES) if isinstance(value, str) else ""
        raise _bad_dtype(argument, value, hint)
    try:
        return dtype_of(value)
    except Ge2rtError as fault:
        raise fault.about(argument=argument) from None
    except (TypeError, ValueError, SyntaxError, OverflowError, RecursionError, AttributeError):
        raise _bad_dtype(argument, value, "") from None


def _bad_dtype(argument: str, value: Any, hint: str) -> InvalidTypeError:
    return InvalidTypeError(
        "dtype cannot be used", argument=argument, expected=", ".join(DTYPES), got=show(value),
        detail="dtype", next_step=hint,
    )  # fmt: skip
