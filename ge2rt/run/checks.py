"""Checks of a call's pointers, all before a launch: count, type, null, alignment, overlap."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.shapes import byte_span, size_of
from ge2rt.base.text import show
from ge2rt.spec.model import Bound, BufferDesc, BufferSpec

# How hard NumPy may think about interleaved views before they count as overlapping.
_OVERLAP_WORK = 10_000
_MOST_BUFFERS = 4096  # a kernel's parameters end at 4 KB, or 32 KB since sm_70
_ADDRESSES = 2**63  # no process, and no GPU, has memory beyond


def as_pointers(buffers: Any, kernel: str) -> list[int]:
    """The call's buffers as plain ints; None is the null pointer 0."""
    if isinstance(buffers, str | bytes | Mapping) or not hasattr(buffers, "__iter__"):
        raise InvalidArgumentError(
            "buffers cannot be read", kernel=kernel, expected="a list of device pointers as ints",
            got=show(buffers),
        )  # fmt: skip
    given = itertools.islice(buffers, _MOST_BUFFERS + 1)  # an iterator may never end
    pointers = [_as_pointer(value, index, kernel) for index, value in enumerate(given)]
    if len(pointers) > _MOST_BUFFERS:
        raise InvalidArgumentError(
            "too many buffers", kernel=kernel, expected=f"at most {_MOST_BUFFERS}"
        )
    return pointers


def _as_pointer(value: Any, index: int, kernel: str) -> int:
    if value is None:
        return 0
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        pointer = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(
            "not a pointer", kernel=kernel, argument=f"buffers[{index}]", expected="an int",
            got=type(value).__name__,
            next_step="pass x.ctypes.data, x.data.ptr, x.data_ptr() or a ctypes pointer's value",
        ) from None  # fmt: skip
    if not 0 <= pointer < 2**64:
        raise InvalidArgumentError(
            "pointer out of range", kernel=kernel, argument=f"buffers[{index}]",
            expected="0 <= pointer < 2**64", got=show(pointer),
        )  # fmt: skip
    return pointer


def place(bound: Bound, pointers: Sequence[int]) -> list[int]:
    """Pointers parallel to ``kernel.buffers``: absent optional inputs filled in as 0."""
    kernel = bound.kernel
    present = [desc is not None for desc in bound.descs]
    if len(pointers) == len(present):
        return list(pointers)
    if len(pointers) != sum(present):
        wanted = ", ".join(b.name + ("?" if b.optional else "") for b in kernel.buffers)
        raise InvalidArgumentError(
            "wrong number of buffers", kernel=kernel.name,
            expected=f"{sum(present)} ({wanted})", got=str(len(pointers)),
            detail="missing_input" if len(pointers) < sum(present) else "argument",
        )  # fmt: skip
    given = iter(pointers)
    return [next(given) if there else 0 for there in present]


def check_pointers(bound: Bound, pointers: Sequence[int]) -> None:
    """Refuse null and misaligned pointers and overlaps that the kernel does not allow."""
    name = bound.kernel.name
    for spec, desc, pointer in zip(bound.kernel.buffers, bound.descs, pointers, strict=True):
        if desc is None or size_of(desc.shape) == 0:
            continue
        if pointer == 0:
            role = "missing_output" if spec.role == "output" else "missing_input"
            raise InvalidArgumentError(
                "null pointer", kernel=name, argument=spec.name, detail=role,
                expected=f"the address of {desc}",
            )  # fmt: skip
        if pointer % desc.dtype.itemsize:
            raise InvalidArgumentError(
                "misaligned pointer", kernel=name, argument=spec.name,
                expected=f"a multiple of {desc.dtype.itemsize} bytes for {desc.dtype}",
                got=hex(pointer), next_step="copy the data to an aligned buffer",
            )  # fmt: skip
        low, high = _range(desc, pointer)
        if not 0 < low <= high <= _ADDRESSES:
            raise InvalidArgumentError(
                "the buffer reaches beyond the address space", kernel=name, argument=spec.name,
                expected=f"addresses of 1 to 2**63 for {desc}", got=f"{low:#x} to {high:#x}",
                next_step="check pointer, offset and strides",
            )  # fmt: skip
    for index, other in overlaps(bound, pointers):
        first, second = bound.kernel.buffers[index], bound.kernel.buffers[other]
        raise InvalidArgumentError(
            f"output overlaps {second.role} {second.name!r} in memory", kernel=name,
            argument=first.name, expected="separate memory"
            + (" or exactly the same view" if second.name in first.overlap else ""),
            next_step="use another output, or ge2rt.launch, which copies the input first",
        )  # fmt: skip


def check_values(bound: Bound, pointers: Sequence[int]) -> None:
    """Refuse values outside the bounds that inputs are declared ``within``; reads host memory."""
    for spec, desc, pointer in zip(bound.kernel.buffers, bound.descs, pointers, strict=True):
        if spec.within is None or desc is None or size_of(desc.shape) == 0:
            continue
        low, high, *besides = (limit.evaluate(bound.names) for limit in spec.within)
        values = _view(desc, pointer).view(desc.dtype.numpy)
        if low <= values.min() and values.max() < high:
            continue
        wrong = (values < low) | (values >= high)
        for value in besides:
            wrong &= values != value
        if not wrong.any():
            continue
        at = np.unravel_index(int(np.argmax(wrong)), values.shape)
        where = f" at {list(map(int, at))}" if desc.shape else ""
        raise InvalidArgumentError(
            "value out of range", kernel=bound.kernel.name, argument=spec.name,
            expected=" or ".join(map(str, [f"{low} <= {spec.name} < {high}", *besides])),
            got=f"{values[at]}{where}",
        )  # fmt: skip


def overlaps(bound: Bound, pointers: Sequence[int]) -> list[tuple[int, int]]:
    """(output, other buffer) pairs that share memory in a way the kernel does not allow."""
    kernel = bound.kernel
    found = []
    for index, other in _near(bound, pointers):
        a, b = bound.descs[index], bound.descs[other]
        assert a is not None
        assert b is not None
        same = kernel.buffers[other].name in kernel.buffers[index].overlap and _same_view(
            a, b, pointers[index], pointers[other]
        )
        if not same and share_memory(a, pointers[index], b, pointers[other]):
            found.append((index, other))
    return found


def _near(bound: Bound, pointers: Sequence[int]) -> list[tuple[int, int]]:
    """(output, earlier buffer) pairs whose ranges of addresses meet, found by a sweep over them."""
    first = len(bound.kernel.inputs)
    ranges = [
        (*_range(desc, pointer), index)
        for index, (desc, pointer) in enumerate(zip(bound.descs, pointers, strict=True))
        if desc is not None
    ]
    ranges.sort()
    pairs = []
    for at, (_, end, index) in enumerate(ranges):
        for start, _, other in ranges[at + 1 :]:
            if start >= end:
                break
            if max(index, other) >= first:
                pairs.append((max(index, other), min(index, other)))
    return sorted(pairs)


def _same_view(a: BufferDesc, b: BufferDesc, at_a: int, at_b: int) -> bool:
    start_a, start_b = at_a + a.offset * a.dtype.itemsize, at_b + b.offset * b.dtype.itemsize
    return (start_a, a.shape, a.strides, a.dtype.itemsize) == (
        start_b, b.shape, b.strides, b.dtype.itemsize,
    )  # fmt: skip


def share_memory(a: BufferDesc, at_a: int, b: BufferDesc, at_b: int) -> bool:
    """Whether two buffers have a byte in common (exactly, for all but very hard cases)."""
    low_a, high_a = _range(a, at_a)
    low_b, high_b = _range(b, at_b)
    if low_a >= high_b or low_b >= high_a or low_a == high_a or low_b == high_b:
        return False  # apart, or without any element
    try:
        # NumPy's annotation knows the two special values only
        return np.shares_memory(_view(a, at_a), _view(b, at_b), max_work=_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _range(desc: BufferDesc, pointer: int) -> tuple[int, int]:
    low, high = byte_span(desc.shape, desc.strides, desc.dtype.itemsize)
    start = pointer + desc.offset * desc.dtype.itemsize
    return start + low, start + high


class _Memory:
    """An address range that NumPy may reason about and nobody reads."""

    def __init__(self, desc: BufferDesc, pointer: int) -> None:
        item = desc.dtype.itemsize
        self.__array_interface__ = {
            "version": 3, "typestr": f"|V{item}", "shape": desc.shape,
            "strides": tuple(s * item for s in desc.strides),
            "data": (pointer + desc.offset * item, False),
        }  # fmt: skip


def _view(desc: BufferDesc, pointer: int) -> np.ndarray[Any, Any]:
    return np.asarray(_Memory(desc, pointer))


def describe_buffers(specs: Sequence[BufferSpec]) -> str:
    """``A, B, bias?, D``: the order in which a kernel takes its buffers."""
    return ", ".join(spec.name + ("?" if spec.optional else "") for spec in specs)
