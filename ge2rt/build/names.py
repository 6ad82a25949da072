"""What a shape-generic kernel takes as arguments, and the C names of these arguments.

Rendering asks for a name's argument and prints its value where there is none, so this table alone
decides what is compiled in. Strides of 0 and 1 are always compiled in: they are classes of layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ge2rt.build.records import Space
from ge2rt.spec.expr import Expression
from ge2rt.spec.model import Bound, BufferSpec

# Functions whose value follows from ranks, dtypes and presence when given a buffer or "*S".
_RANK_ONLY = frozenset({
    "rank", "len", "axes_of", "kept", "present", "dtype", "sizeof", "is_float", "is_integer",
    "is_signed", "range", "min", "max", "int", "abs",
})  # fmt: skip


def extent_name(buffer: BufferSpec, axis: int) -> str:
    """C name of an extent that no dimension of the declaration names."""
    return f"{buffer.name}_extent{axis}"


def stride_name(buffer: str, axis: int) -> str:
    """C name of a buffer's stride."""
    return f"{buffer}_stride{axis}"


def space_extent_name(space: str, axis: int) -> str:
    """C name of an extent of an iteration space."""
    return f"{space}_extent{axis}"


def space_stride_name(space: str, buffer: str, axis: int) -> str:
    """C name of an operand's stride in an iteration space."""
    return f"{space}_{buffer}_stride{axis}"


def item_name(name: str, index: int) -> str:
    """C name of one item of a tuple: a ``*S`` dimension or a let."""
    return f"{name}_{index}"


def dimension_names(bound: Bound) -> tuple[str, ...]:
    """Names bound by the shape patterns, in order of appearance, without the star."""
    found: dict[str, None] = {}
    for buffer in bound.kernel.buffers:
        for part in buffer.pattern or ():
            if isinstance(part, str):
                found[part.lstrip("*")] = None
    return tuple(n for n in found if n in bound.names)


def dimension_of(bound: Bound, buffer: BufferSpec, rank: int) -> list[str | None]:
    """For each axis of a buffer: the C name of its dimension, or None where it has no name."""
    if buffer.pattern is None:
        return [None] * rank
    result: list[str | None] = []
    for part in buffer.pattern:
        if isinstance(part, int):
            result.append(None)
        elif part.startswith("*"):
            count = rank - (len(buffer.pattern) - 1)
            result += [item_name(part[1:], i) for i in range(count)]
        else:
            result.append(part)
    return result


def extent_lets(bound: Bound) -> tuple[str, ...]:
    """The lets whose value may follow from extents."""
    scalars = {n for n in dimension_names(bound) if isinstance(bound.names[n], int)}
    shapes = set(dimension_names(bound)) - scalars
    shapes |= {b.name for b in bound.kernel.buffers} | set(bound.kernel.items.values())
    found: list[str] = []
    for name, expression in bound.kernel.lets:
        if _follows_extents(expression, scalars | set(found), shapes):
            found.append(name)
    return tuple(found)


def _follows_extents(expression: Expression, scalars: set[str], shapes: set[str]) -> bool:
    names = set(expression.names)
    if names & scalars:
        return True
    if not names & shapes:
        return False
    return not expression.calls or not expression.calls <= _RANK_ONLY


def dynamic_scalars(bound: Bound, spaces: Mapping[str, Space]) -> dict[str, int]:
    """Arguments of the shape-generic kernel in their order: C name -> this call's value."""
    found: dict[str, int] = {}
    for name in (*dimension_names(bound), *extent_lets(bound)):
        found.update(_items(name, bound.names[name]))
    for buffer, desc in zip(bound.kernel.buffers, bound.descs, strict=True):
        if desc is None:
            continue
        if buffer.formula is not None:
            found.update({extent_name(buffer, a): e for a, e in enumerate(desc.shape)})
        found.update(_strides(lambda a, n=buffer.name: stride_name(n, a), desc.strides))
    for name, space in spaces.items():
        found.update({space_extent_name(name, a): e for a, e in enumerate(space.shape)})
        for operand, strides in space.strides.items():
            found.update(_strides(lambda a, s=name, n=operand: space_stride_name(s, n, a), strides))
    return found


def _items(name: str, value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield name, value
    elif isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        yield from ((item_name(name, i), v) for i, v in enumerate(value))


def _strides(name: Any, strides: tuple[int, ...]) -> dict[str, int]:
    return {name(a): s for a, s in enumerate(strides) if s not in (0, 1)}
