"""What memory a launch may touch, for checked launches: the bytes of its buffers."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.base.shapes import byte_span, is_contiguous
from ge2rt.build.records import Problem
from ge2rt.device.checks_report import Span
from ge2rt.spec.model import Bound


def all_spans(
    bound: Bound, pointers: Sequence[int], problem: Problem, scratch: int
) -> tuple[Span, ...]:
    """The spans of the buffers that are there, and of the workspace's pieces at ``scratch``."""
    pieces = [slot for slot in problem.args if slot.kind == "workspace"]
    ends = [*(slot.offset for slot in pieces), problem.workspace][1:]
    return buffer_spans(bound, pointers) + tuple(
        Span(f"workspace {slot.name}", scratch + slot.offset, scratch + end, slot.value, 1, ())
        for slot, end in zip(pieces, ends, strict=True)
    )


def buffer_spans(bound: Bound, pointers: Sequence[int]) -> tuple[Span, ...]:
    """The spans of the buffers that are there; pointers are parallel to the kernel's buffers."""
    found = []
    for spec, desc, pointer in zip(bound.kernel.buffers, bound.descs, pointers, strict=True):
        if desc is None or not pointer:
            continue
        item = desc.dtype.itemsize
        low, high = byte_span(desc.shape, desc.strides, item)
        start = pointer + desc.offset * item
        dense = is_contiguous(desc.shape, desc.strides)
        shape = f"[{','.join(map(str, desc.shape))}]"
        found.append(
            Span(f"{spec.role} {spec.name}", start + low, start + high, desc.dtype.name + shape,
                 item, tuple(desc.shape) if dense else ())
        )  # fmt: skip
    return tuple(found)
