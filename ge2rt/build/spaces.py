"""Iteration spaces: broadcast or pick axes, order them along memory, collapse, count vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ge2rt.base import shapes
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.build.records import Space
from ge2rt.spec.model import Bound, BufferDesc, IterateSpec

VECTOR_BYTES = 16


def make_space(spec: IterateSpec, bound: Bound, names: Mapping[str, Any]) -> Space:
    """The collapsed space of ``spec``; absent optional operands have no strides in it."""
    operands = {n: d for n in spec.over if (d := bound.desc(n)) is not None}
    if spec.views:
        operands = _viewed(spec, bound, operands, names)
    if spec.axes is None:
        shape, strides = _broadcast(operands)
        if not spec.whole:
            shape, strides = _along_memory(shape, strides, bound, operands)
    else:
        shape, strides = _picked(spec, bound, operands, names)
    if spec.whole:
        return Space(spec.name, shape, dict(zip(operands, strides, strict=True)))
    shape, collapsed = shapes.collapse(shape, strides)
    return Space(spec.name, shape, dict(zip(operands, collapsed, strict=True)))


def _viewed(
    spec: IterateSpec, bound: Bound, operands: Mapping[str, BufferDesc], names: Mapping[str, Any]
) -> dict[str, BufferDesc]:
    """The operands, those with a view as it shows them."""
    items = bound.kernel.items
    of_item = {items[n]: d for n, d in operands.items() if n in items}  # a list means the item
    seen = dict(operands)
    for name in operands.keys() & spec.views.keys():
        view = spec.views[name].evaluate({**names, **of_item})
        if not isinstance(view, BufferDesc):
            raise InvalidArgumentError(
                f"iterate {spec.name}: no view of a buffer", kernel=bound.kernel.name,
                argument=name, expected="such as permuted(X, axes)", got=str(view)[:80],
            )  # fmt: skip
        seen[name] = view
    return seen


def _broadcast(operands: Mapping[str, BufferDesc]) -> tuple[shapes.Shape, list[shapes.Shape]]:
    shape = shapes.broadcast_shapes(*(d.shape for d in operands.values()))
    return shape, [shapes.broadcast_strides(d.shape, d.strides, shape) for d in operands.values()]


def _along_memory(
    shape: shapes.Shape,
    strides: list[shapes.Shape],
    bound: Bound,
    operands: Mapping[str, BufferDesc],
) -> tuple[shapes.Shape, list[shapes.Shape]]:
    """Axes sorted by the stride of the first output, so that neighbours are written side by side.

    A kernel whose value depends on the number of a point says ``flags: {ordered: true}``.
    """
    outputs = [i for i, n in enumerate(operands) if any(n == o.name for o in bound.kernel.outputs)]
    if not outputs or bound.kernel.flags.get("ordered", False):
        return shape, strides
    lead = strides[outputs[0]]
    # axes of size 1 never matter: first, so that they cannot part two that merge
    order = sorted(range(len(shape)), key=lambda a: (shape[a] != 1, -abs(lead[a])))
    return tuple(shape[a] for a in order), [tuple(s[a] for a in order) for s in strides]


def _picked(
    spec: IterateSpec, bound: Bound, operands: Mapping[str, BufferDesc], names: Mapping[str, Any]
) -> tuple[shapes.Shape, list[shapes.Shape]]:
    """Only ``axes`` of the first operand; see :class:`IterateSpec` for how others are indexed."""
    assert spec.axes is not None
    first = operands.get(spec.over[0])
    if first is None:
        raise InvalidArgumentError(
            f"iterate {spec.name}: its first operand is absent",
            kernel=bound.kernel.name,
            argument=spec.over[0],
        )
    rank = len(first.shape)
    value = spec.axes.evaluate(names)
    # an empty tuple is no axes here: "all" is what axes_of() makes of it
    axes = shapes.normalize_axes(value, rank) if value != () else ()
    shape = tuple(first.shape[a] for a in axes)
    strides = [_operand_strides(spec, bound, n, d, axes, first) for n, d in operands.items()]
    return shape, strides


def _operand_strides(
    spec: IterateSpec, bound: Bound, name: str, desc: BufferDesc, axes: Sequence[int],
    first: BufferDesc,
) -> shapes.Shape:  # fmt: skip
    if len(desc.shape) == len(first.shape):
        index = tuple(axes)
    elif len(desc.shape) == len(axes):
        index = tuple(range(len(axes)))
    else:
        raise InvalidArgumentError(
            f"iterate {spec.name}: an operand has neither the rank of {spec.over[0]} nor one axis "
            "for each iterated axis",
            kernel=bound.kernel.name, argument=name, detail="shape",
            expected=f"rank {len(first.shape)} or {len(axes)}", got=f"rank {len(desc.shape)}",
        )  # fmt: skip
    for axis, at in zip(axes, index, strict=True):
        if desc.shape[at] not in (1, first.shape[axis]):
            raise InvalidArgumentError(
                f"iterate {spec.name}: axis {at} does not go with axis {axis} of {spec.over[0]}",
                kernel=bound.kernel.name, argument=name, detail="shape",
                expected=f"extent 1 or {first.shape[axis]}", got=str(desc.shape[at]),
            )  # fmt: skip
    return tuple(0 if desc.shape[at] == 1 else desc.strides[at] for at in index)


def buffer_vector(desc: BufferDesc, aligned: bool) -> int:
    """Elements of one 128-bit access that may be used along the last axis, or 1."""
    width = VECTOR_BYTES // desc.dtype.itemsize
    return width if aligned and _rows_fit(desc.shape, [desc.strides], width) else 1


def space_vector(space: Space, bound: Bound, aligned: bool) -> int:
    """Elements of one access over all operands that are dense along the last axis, or 1.

    The widest of them moves 128 bits at a time, narrower dtypes the same number of elements.
    """
    dense = {n: s for n, s in space.strides.items() if s and s[-1] == 1}
    if not dense or not aligned:
        return 1
    sizes = [d.dtype.itemsize for n in dense if (d := bound.desc(n)) is not None]
    width = VECTOR_BYTES // max(sizes)
    return width if _rows_fit(space.shape, dense.values(), width) else 1


def _rows_fit(shape: Sequence[int], strides: Any, width: int) -> bool:
    return (
        bool(shape)
        and shape[-1] % width == 0
        and all(s[-1] == 1 and all(step % width == 0 for step in s[:-1]) for s in strides)
    )


def is_flat(space: Space) -> bool:
    """Whether one linear index serves every operand: rank at most 1, strides 0 or 1."""
    return len(space.shape) <= 1 and all(s in ((), (0,), (1,)) for s in space.strides.values())
