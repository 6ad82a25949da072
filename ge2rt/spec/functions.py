"""Functions of host expressions: sizes, shapes, and questions about buffers and dtypes.

A buffer's name evaluates to its :class:`BufferDesc`, or None for an absent optional one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ge2rt.base import shapes
from ge2rt.base.dtypes import DType, dtype_of
from ge2rt.spec.model import BufferDesc

_RANGE_CAP = 10_000


def _ints(values: Any, what: str) -> tuple[int, ...]:
    if isinstance(values, BufferDesc):
        return values.shape
    if not isinstance(values, (tuple, list)) or not all(isinstance(v, int) for v in values):
        raise TypeError(f"{what} takes a tuple of whole numbers")
    return tuple(values)


def _int(value: Any, what: str) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{what} takes whole numbers, not {value!r}")
    return value


def _buffer(value: Any, what: str) -> BufferDesc:
    if not isinstance(value, BufferDesc):
        raise TypeError(f"{what} takes the name of a buffer" + (" that is there" * (value is None)))
    return value


def _positive(value: Any, what: str) -> int:
    if _int(value, what) <= 0:
        raise ValueError(f"{what} needs a positive number, not {value}")
    return int(value)


def _ceildiv(value: Any, step: Any) -> Any:
    if isinstance(value, tuple):  # of each
        return tuple(_ceildiv(v, step) for v in value)
    return -(-_int(value, "ceildiv") // _int(step, "ceildiv"))


def _align(value: Any, step: Any) -> int:
    return int(_ceildiv(_int(value, "align"), step)) * int(step)


def _next_pow2(value: Any) -> int:
    return 1 << max(_int(value, "next_pow2") - 1, 0).bit_length()


def _prev_pow2(value: Any) -> int:
    return 1 << (_positive(value, "prev_pow2").bit_length() - 1)


def _clamp(value: Any, low: Any, high: Any) -> Any:
    return min(max(value, low), high)


def _prod(values: Any) -> int:
    return math.prod(_ints(values, "prod"))


def _total(values: Any) -> Any:
    if not isinstance(values, (tuple, list)):
        raise TypeError("sum takes a tuple")
    return sum(values)


def _is_list(value: Any) -> bool:
    """Whether it is what the name of a list of buffers stands for."""
    return isinstance(value, tuple) and any(isinstance(v, BufferDesc) for v in value)


def _length(values: Any) -> int:
    return len(values if _is_list(values) else _ints(values, "len"))


def _size(value: Any) -> Any:
    if _is_list(value):
        return tuple(_size(v) for v in value)
    return shapes.size_of(_ints(value, "size"))


def _seen(
    buffer: BufferDesc, shape: Sequence[int], strides: Sequence[int], start: int = 0
) -> BufferDesc:
    extents = tuple(shape)
    kept = shapes.canonical_strides(extents, tuple(strides))
    return replace(buffer, shape=extents, strides=kept, offset=buffer.offset + start)


def _permuted(buffer: Any, axes: Any) -> BufferDesc:
    """A view whose axis i is axis ``axes[i]`` of the buffer; without axes they are reversed."""
    desc = _buffer(buffer, "permuted")
    order = [int(a) for a in _ints(axes, "permuted")] or list(range(len(desc.shape)))[::-1]
    order = [a + len(order) if a < 0 else a for a in order]
    if sorted(order) != list(range(len(desc.shape))):
        raise ValueError(f"{list(axes)} is no order of {len(desc.shape)} axes")
    return _seen(desc, [desc.shape[a] for a in order], [desc.strides[a] for a in order])


def _unpermuted(buffer: Any, axes: Any) -> BufferDesc:
    """The view of which the buffer is ``permuted(view, axes)``."""
    rank = len(_buffer(buffer, "unpermuted").shape)
    order = [a + rank if a < 0 else a for a in _ints(axes, "unpermuted")]
    inverse = sorted(range(rank), key=order.__getitem__) if len(order) == rank else order
    return _permuted(buffer, tuple(inverse))


def _sliced(buffer: Any, starts: Any, sizes: Any, steps: Any = ()) -> BufferDesc:
    """The view of ``sizes`` elements an axis from ``starts`` on, every ``steps``-th."""
    desc = _buffer(buffer, "sliced")
    first, count = _ints(starts, "sliced"), _ints(sizes, "sliced")
    every = _ints(steps, "sliced") or (1,) * len(count)
    if not len(first) == len(count) == len(every) == len(desc.shape):
        raise ValueError(f"starts, sizes and steps must have {len(desc.shape)} items, one an axis")
    for axis, (extent, start, size, step) in enumerate(
        zip(desc.shape, first, count, every, strict=True)
    ):
        last = start + (size - 1) * step
        if size < 0 or step == 0 or (size and not (0 <= start < extent and 0 <= last < extent)):
            raise ValueError(
                f"axis {axis} has {extent} elements: no {size} from {start} on in steps of {step}"
            )
    start = sum(a * s for a, s in zip(first, desc.strides, strict=True)) if all(count) else 0
    strides = [a * s for a, s in zip(desc.strides, every, strict=True)]
    return _seen(desc, count, strides, start)


def _narrowed(buffer: Any, shape: Any, axis: Any = None) -> BufferDesc:
    """The first elements of each axis, as a view of ``shape``; ``axis`` stands still."""
    desc, extents = _buffer(buffer, "narrowed"), _ints(shape, "narrowed")
    still = () if axis is None else shapes.normalize_axes((_int(axis, "narrowed"),), len(extents))
    fits = len(extents) == len(desc.shape) and all(
        a in still or e <= desc.shape[a] for a, e in enumerate(extents)
    )
    if not fits:
        but = f" but along axis {still[0]}" if still else ""
        raise ValueError(f"shape {list(extents)} does not lie within {list(desc.shape)}{but}")
    return _seen(desc, extents, [0 if a in still else s for a, s in enumerate(desc.strides)])


def _dropped(buffer: Any, axis: Any) -> BufferDesc:
    """The view of the first elements along an axis, without that axis."""
    desc = _buffer(buffer, "dropped")
    (gone,) = shapes.normalize_axes((_int(axis, "dropped"),), len(desc.shape))
    rest = [a for a in range(len(desc.shape)) if a != gone]
    return _seen(desc, [desc.shape[a] for a in rest], [desc.strides[a] for a in rest])


def _trailing(buffer: Any, extent: Any) -> BufferDesc:
    """The view that shows each element ``extent`` times along a further last axis."""
    desc = _buffer(buffer, "trailing")
    return _seen(desc, (*desc.shape, _int(extent, "trailing")), (*desc.strides, 0))


def _along(buffer: Any, axis: Any, rank: Any) -> BufferDesc:
    """The view of a vector along one axis of ``rank``; a buffer without axes stays as it is."""
    desc = _buffer(buffer, "along")
    if not desc.shape:
        return desc
    if len(desc.shape) != 1:
        raise ValueError(f"along takes a vector, not {list(desc.shape)}")
    (at,) = shapes.normalize_axes((_int(axis, "along"),), _int(rank, "along"))
    extents, strides = [1] * rank, [0] * rank
    extents[at], strides[at] = desc.shape[0], desc.strides[0]
    return _seen(desc, extents, strides)


def _leading(buffer: Any, shape: Any) -> BufferDesc:
    """The view that shows the whole buffer at each point of further first axes."""
    desc, more = _buffer(buffer, "leading"), _ints(shape, "leading")
    return _seen(desc, (*more, *desc.shape), (*(0 for _ in more), *desc.strides))


def _padded(shape: Any, before: Any, after: Any) -> tuple[int, ...]:
    """The shape with ``before`` and ``after`` elements more on each axis."""
    extents, low, high = (_ints(v, "padded") for v in (shape, before, after))
    if not len(extents) == len(low) == len(high) or min((*low, *high), default=0) < 0:
        raise ValueError(f"before and after take {len(extents)} whole numbers >= 0, one an axis")
    return tuple(e + a + b for e, a, b in zip(extents, low, high, strict=True))


def _joined(buffers: Any, axis: Any) -> tuple[int, ...]:
    """The shape of the items of a list one behind the other along an axis."""
    if not _is_list(buffers):
        raise TypeError("joined takes the name of a list of buffers")
    first = buffers[0].shape
    (along,) = shapes.normalize_axes((_int(axis, "joined"),), len(first))
    for number, buffer in enumerate(buffers):
        fits = len(buffer.shape) == len(first) and all(
            a == along or extent == first[a] for a, extent in enumerate(buffer.shape)
        )
        if not fits:
            raise ValueError(
                f"item {number} is {list(buffer.shape)}, item 0 {list(first)}: they may differ "
                f"along axis {along} only"
            )
    return (*first[:along], sum(b.shape[along] for b in buffers), *first[along + 1 :])


def _range(*limits: Any) -> tuple[int, ...]:
    steps = range(*(_int(v, "range") for v in limits))
    if len(steps) > _RANGE_CAP:
        raise ValueError(f"range has more than {_RANGE_CAP} items")
    return tuple(steps)


def _to_int(value: Any) -> int:
    if not isinstance(value, (int, float)):
        raise TypeError("int takes a number")
    return int(value)


def _to_float(value: Any) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError("float takes a number")
    return float(value)


def _axes_of(axes: Any, rank: Any) -> tuple[int, ...]:
    """Normalised axes; None and () are all of them."""
    if isinstance(axes, int) and not isinstance(axes, bool):
        axes = (axes,)
    given: Sequence[int] | None = _ints(axes, "axes_of") if axes is not None else None
    return shapes.normalize_axes(given or None, _int(rank, "axes_of"))


def _kept(axes: Any, rank: Any) -> tuple[int, ...]:
    """The axes that are not reduced."""
    gone = _axes_of(axes, rank)
    return tuple(a for a in range(rank) if a not in gone)


def _reduced(shape: Any, axes: Any, keepdim: Any = False) -> tuple[int, ...]:
    extents = _ints(shape, "reduced")
    return shapes.reduced_shape(extents, _axes_of(axes, len(extents)), bool(keepdim))


def _broadcast(*given: Any) -> tuple[int, ...]:
    return shapes.broadcast_shapes(*(_ints(s, "broadcast") for s in given))


def _dtype(value: Any) -> DType:
    return value.dtype if isinstance(value, BufferDesc) else dtype_of(value)


def _stride(buffer: Any, axis: Any) -> int:
    return _buffer(buffer, "stride").strides[_int(axis, "stride")]


def _extent(buffer: Any, axis: Any) -> int:
    extents, wanted = _ints(buffer, "extent"), _int(axis, "extent")
    return extents[shapes.normalize_axes((wanted,), len(extents))[0]]


def _contiguous(buffer: Any) -> bool:
    desc = _buffer(buffer, "contiguous")
    return shapes.is_contiguous(desc.shape, desc.strides)


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    def pick(*values: Any) -> Any:
        given = values[0] if len(values) == 1 and isinstance(values[0], tuple) else values
        if not all(isinstance(v, (int, float)) for v in given):
            raise TypeError(f"{function.__name__} takes numbers")
        return function(given)

    return pick


HOST_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ceildiv": _ceildiv,
    "align": _align,
    "next_pow2": _next_pow2,
    "prev_pow2": _prev_pow2,
    "clamp": _clamp,
    "min": _extreme(min),
    "max": _extreme(max),
    "abs": abs,
    "int": _to_int,
    "float": _to_float,
    "prod": _prod,
    "sum": _total,
    "len": _length,
    "range": _range,
    "broadcast": _broadcast,
    "reduced": _reduced,
    "axes_of": _axes_of,
    "kept": _kept,
    "present": lambda buffer: buffer is not None,
    "contiguous": _contiguous,
    "stride": _stride,
    "extent": _extent,
    "rank": lambda buffer: len(_ints(buffer, "rank")),
    "shape": lambda buffer: _buffer(buffer, "shape").shape,
    "size": _size,
    "joined": _joined,
    "padded": _padded,
    "permuted": _permuted,
    "unpermuted": _unpermuted,
    "sliced": _sliced,
    "narrowed": _narrowed,
    "dropped": _dropped,
    "trailing": _trailing,
    "along": _along,
    "leading": _leading,
    "offset": lambda buffer: _buffer(buffer, "offset").offset,
    "dtype": lambda buffer: _buffer(buffer, "dtype").dtype.name,
    "sizeof": lambda t: _dtype(t).itemsize,
    "is_float": lambda t: _dtype(t).is_float,
    "is_integer": lambda t: _dtype(t).is_integer,
    "is_signed": lambda t: _dtype(t).kind in ("float", "int"),
}
