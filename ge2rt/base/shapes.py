"""Shape and stride algebra. Strides are in elements unless a name says bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ge2rt.base.errors import InvalidArgumentError

Shape = tuple[int, ...]


def size_of(shape: Sequence[int]) -> int:
    """Number of elements (1 for 0-d)."""
    return math.prod(shape)


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Row-major strides in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def canonical_strides(shape: Sequence[int], strides: Sequence[int]) -> Shape:
    """Strides with those of size-1 axes set to 0: they never matter, so they never differ."""
    return tuple(0 if extent == 1 else s for extent, s in zip(shape, strides, strict=True))


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements lie row-major without gaps (size-1 axes never matter)."""
    if 0 in shape:
        return True
    dense = canonical_strides(shape, contiguous_strides(shape))
    return canonical_strides(shape, strides) == dense


def element_span(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Lowest and highest element offset that is touched, relative to the first element.

    An empty array touches nothing: ``(0, -1)``.
    """
    if 0 in shape:
        return 0, -1
    steps = [(extent - 1) * s for extent, s in zip(shape, strides, strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)


def byte_span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Half-open range of byte offsets that is touched, relative to the first element."""
    low, high = element_span(shape, strides)
    return (0, 0) if high < low else (low * itemsize, (high + 1) * itemsize)


def index_bits(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """32 or 64: the width that holds every byte offset and every linear index."""
    low, high = byte_span(shape, strides, itemsize)
    reach = max(-low, high, size_of(shape) * itemsize)
    return 32 if reach < 2**31 else 64


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """NumPy's broadcasting rule; raises :class:`InvalidArgumentError` where it fails."""
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        extents = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(extents) > 1:
            listed = ", ".join(str(tuple(s)) for s in shapes)
            raise InvalidArgumentError(
                f"shapes {listed} do not broadcast: axis {axis} has {sorted(extents)}",
                detail="shape",
            )
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def broadcast_strides(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> Shape:
    """Strides of an array of ``shape`` seen as ``to``: 0 on broadcast axes."""
    pad = len(to) - len(shape)
    kept = (0 if have == 1 else s for have, s in zip(shape, strides, strict=True))
    return (0,) * pad + tuple(kept)


def normalize_axes(axes: Sequence[int] | int | None, rank: int) -> Shape:
    """Sorted axes in ``0 <= a < rank``; None means all. Raises on an axis out of range or twice."""
    if axes is None:
        return tuple(range(rank))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    if any(not -rank <= a < rank for a in given):
        raise InvalidArgumentError(
            "axis out of range", expected=f"-{rank} <= axis < {rank}", got=str(given),
            detail="shape",
        )  # fmt: skip
    result = tuple(sorted(a % rank for a in given))
    if len(set(result)) != len(result):
        raise InvalidArgumentError("axis named twice", got=str(given), detail="shape")
    return result


def reduced_shape(shape: Sequence[int], axes: Sequence[int], keepdim: bool) -> Shape:
    """Shape after reducing the (normalised) axes."""
    if keepdim:
        return tuple(1 if a in axes else e for a, e in enumerate(shape))
    return tuple(e for a, e in enumerate(shape) if a not in axes)


def collapse(
    shape: Sequence[int], operands: Sequence[Sequence[int]]
) -> tuple[Shape, tuple[Shape, ...]]:
    """Drop size-1 axes and merge neighbours that all operands step through evenly.

    The order of axes is kept, so row-major iteration visits the same elements in the same order.
    Returns the collapsed shape and each operand's strides for it; a 0-d or one-element space is
    ``()``.
    """
    axes = [a for a, extent in enumerate(shape) if extent != 1]
    new_shape: list[int] = []
    new: list[list[int]] = [[] for _ in operands]
    for axis in axes:
        extent = shape[axis]
        steps = [op[axis] for op in operands]
        if new_shape and all(n[-1] == s * extent for n, s in zip(new, steps, strict=True)):
            new_shape[-1] *= extent
            for n, s in zip(new, steps, strict=True):
                n[-1] = s
        else:
            new_shape.append(extent)
            for n, s in zip(new, steps, strict=True):
                n.append(s)
    return tuple(new_shape), tuple(tuple(n) for n in new)


def may_self_overlap(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two indices may name one element: a zero stride, or strides that do not nest."""
    pairs = sorted((abs(s), e) for e, s in zip(shape, strides, strict=True) if e > 1)
    if 0 in shape:
        return False
    reach = 0
    for step, extent in pairs:
        if step <= reach:
            return True
        reach += step * (extent - 1)
    return False
