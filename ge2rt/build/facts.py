"""Everything about a problem that its source depends on, and nothing else."""

from __future__ import annotations

from typing import Any

from ge2rt.base import shapes
from ge2rt.build.names import dimension_names
from ge2rt.build.records import Problem
from ge2rt.build.spaces import buffer_vector, is_flat, space_vector
from ge2rt.spec.model import Bound, BufferDesc

Facts = tuple[Any, ...]


def facts(problem: Problem) -> Facts:
    """Two problems of one kernel with equal facts have the same rendered source.

    A tuple of plain values whose ``repr`` is the same in every process. Data offsets, the grid and
    the values of arguments are not part of it.
    """
    bound = problem.bound
    compiled = _compiled_attrs(bound, problem.static)
    return (
        bound.kernel.name, problem.arch, problem.static, problem.aligned, problem.index_bits,
        problem.block, tuple((g.entry, g.block) for g in problem.launches),
        tuple(sorted(problem.tunables.items())),
        tuple((name, dtype.name) for name, dtype in sorted(bound.types.items())),
        tuple((a.kind, a.name, a.format) for a in problem.args),
        tuple((n, str(v)) for n, v in compiled),
        _baked_names(problem),
        tuple(_buffer(problem, d) for d in bound.descs),
        tuple(_space(problem, name) for name in problem.spaces),
    )  # fmt: skip


def _compiled_attrs(bound: Bound, static: bool) -> list[tuple[str, str]]:
    specs = bound.kernel.attrs
    fixed = [(n, v) for n, v in sorted(bound.attrs.items()) if not specs[n].is_argument(static)]
    return [(n, str(v) if specs[n].type == "dtype" else repr(v)) for n, v in fixed]


def _baked_names(problem: Problem) -> Facts:
    """Dimensions and lets that are printed as numbers."""
    bound = problem.bound
    scalars = {a.name for a in problem.args if a.kind == "scalar"}
    names = (*dimension_names(bound), *(name for name, _ in bound.kernel.lets))
    kept: list[Facts] = []
    for name in names:
        value = bound.names[name]
        if isinstance(value, tuple) and value and f"{name}_0" in scalars:
            kept.append((name, len(value)))
        elif name not in scalars:
            kept.append((name, repr(value)))
    return tuple(kept)


def _buffer(problem: Problem, desc: BufferDesc | None) -> Facts | None:
    if desc is None:
        return None
    vector = buffer_vector(desc, problem.aligned)
    dense = shapes.is_contiguous(desc.shape, desc.strides)
    if problem.static:
        return desc.dtype.name, desc.shape, desc.strides, desc.layout, vector, dense
    return desc.dtype.name, len(desc.shape), _classes(desc.strides), desc.layout, vector, dense


def _space(problem: Problem, name: str) -> Facts:
    space = problem.spaces[name]
    vector = space_vector(space, problem.bound, problem.aligned)
    if problem.static:
        return name, space.shape, tuple(space.strides.items()), vector
    classes = tuple((n, _classes(s)) for n, s in space.strides.items())
    return name, len(space.shape), classes, vector, is_flat(space)


def _classes(strides: tuple[int, ...]) -> Facts:
    return tuple(s if s in (0, 1) else "n" for s in strides)
