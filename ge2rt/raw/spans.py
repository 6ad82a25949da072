"""What memory the arguments of a raw kernel stand for, for checked launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidTypeError
from ge2rt.base.shapes import byte_span, is_contiguous
from ge2rt.device.checks_report import Span, array_span
from ge2rt.device.pointers import describe
from ge2rt.raw.arguments import Placed


def argument_spans(values: Sequence[Any], names: Sequence[str]) -> list[Span]:
    """A span for each array among the arguments; those beyond ``names`` go by number."""
    listed = [*names, *(f"args[{k}]" for k in range(len(names), len(values)))]
    return [_span(v, n) for v, n in zip(values, listed, strict=False) if isinstance(v, Placed)]


def _span(value: Placed, name: str) -> Span:
    if isinstance(value.source, np.ndarray):
        return array_span(name, value.source)
    start = value.address
    try:
        found = describe(value.source)
    except InvalidTypeError:  # complex and the like: only the extent matters
        return Span(name, start, start + int(getattr(value.source, "nbytes", 0)), value.dtype)
    item = found.dtype.itemsize
    low, high = byte_span(found.shape, found.strides, item)
    shape = found.shape if is_contiguous(found.shape, found.strides) else ()
    text = f"{value.dtype}[{','.join(map(str, found.shape))}]"
    return Span(name, start + low, start + high, text, item, tuple(shape))
