"""What a template sees: types, buffers, iteration spaces and names, made from a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ge2rt.base import shapes
from ge2rt.base.dtypes import DTYPES, DType, dtype_of
from ge2rt.build.literals import Literal, Symbol
from ge2rt.build.names import (
    dimension_names,
    dimension_of,
    extent_name,
    item_name,
    space_extent_name,
    space_stride_name,
    stride_name,
)
from ge2rt.build.records import ArgSlot, Problem, Space
from ge2rt.build.spaces import buffer_vector, is_flat, space_vector
from ge2rt.spec.model import BufferDesc, BufferSpec

_SCALAR_CTYPE = {"i": "int", "q": "long long", "f": "float", "d": "double", "?": "bool"}
_HEADERS = {"f16": "#include <cuda_fp16.h>", "bf16": "#include <cuda_bf16.h>"}

Value = Any  # Literal or Symbol


class TypeView:
    """A dtype: ``.ctype``, ``.name``, ``.acc`` (C type in which sums are kept). Prints as ctype."""

    def __init__(self, dtype: DType) -> None:
        self.name = dtype.name
        self.ctype = dtype.ctype
        self.acc = DTYPES[dtype.accumulate].ctype
        self.itemsize = dtype.itemsize
        self.is_float = dtype.is_float
        self.is_integer = dtype.is_integer
        self.is_signed = dtype.kind in ("float", "int")

    def __str__(self) -> str:
        return self.ctype


class _Values:
    """Answers "what does this name print as": its argument if there is one, else its number."""

    def __init__(self, problem: Problem) -> None:
        self.arguments = {a.name for a in problem.args if a.kind == "scalar"}
        self.wide = problem.index_bits == 64

    def of(self, name: str | None, actual: int) -> Value:
        if name is not None and name in self.arguments:
            return Symbol(name)
        return Literal(actual, self.wide)

    def product(self, factors: tuple[Value, ...]) -> Value:
        if any(isinstance(f, Symbol) for f in factors):
            kept = [str(f) for f in factors if isinstance(f, Symbol) or f != 1]
            return Symbol(kept[0] if len(kept) == 1 else f"({' * '.join(kept)})")
        return Literal(shapes.size_of([int(f) for f in factors]), self.wide)


class BufferView:
    """One buffer of the kernel. An absent optional one has ``present`` false and no C parameter."""

    def __init__(self, problem: Problem, spec: BufferSpec, desc: BufferDesc | None) -> None:
        values = _Values(problem)
        dtype = desc.dtype if desc is not None else _declared(problem, spec)
        extents = desc.shape if desc is not None else ()
        strides = desc.strides if desc is not None else ()
        named = dimension_of(problem.bound, spec, len(extents)) if desc is not None else []
        if spec.formula is not None:
            named = [extent_name(spec, a) for a in range(len(extents))]
        self.name = spec.name
        self.present = desc is not None
        self.type = TypeView(dtype) if dtype else None
        self.dtype = dtype.name if dtype else ""
        self.ctype = dtype.ctype if dtype else ""
        self.itemsize = dtype.itemsize if dtype else 0
        self.layout = desc.layout if desc is not None else ""
        self.rank = len(extents)
        self.shape = tuple(values.of(n, e) for n, e in zip(named, extents, strict=True))
        self.strides = tuple(values.of(stride_name(spec.name, a), s) for a, s in enumerate(strides))
        self.size = values.product(self.shape)
        self.contiguous = shapes.is_contiguous(extents, strides)
        self.vec = buffer_vector(desc, problem.aligned) if desc is not None else 1

    def __str__(self) -> str:
        return self.name


def _declared(problem: Problem, spec: BufferSpec) -> DType | None:
    """The dtype an absent buffer would have, where the declaration says it."""
    return problem.bound.types.get(spec.dtype) or DTYPES.get(spec.dtype)


class SpaceView:
    """A collapsed iteration space."""

    def __init__(self, problem: Problem, space: Space) -> None:
        values = _Values(problem)
        self.name = space.name
        self.rank = len(space.shape)
        self.shape = tuple(
            values.of(space_extent_name(space.name, a), e) for a, e in enumerate(space.shape)
        )
        self.size = values.product(self.shape)
        self.strides: Mapping[str, tuple[Value, ...]] = {
            operand: tuple(
                values.of(space_stride_name(space.name, operand, a), s)
                for a, s in enumerate(strides)
            )
            for operand, strides in space.strides.items()
        }
        self.contiguous = is_flat(space)
        self.vec = space_vector(space, problem.bound, problem.aligned)


def namespace(problem: Problem) -> dict[str, Any]:
    """Every name a template may use."""
    bound = problem.bound
    attributes = _attributes(problem)
    buffers = {
        spec.name: BufferView(problem, spec, desc)
        for spec, desc in zip(bound.kernel.buffers, bound.descs, strict=True)
    }
    # by name, for templates that do not know which there are
    names: dict[str, Any] = {"buffers": buffers, "attributes": attributes}
    names.update(attributes)
    names.update(_dims_and_lets(problem))
    names.update(problem.tunables)
    names.update({name: TypeView(dtype) for name, dtype in bound.types.items()})
    names.update(buffers)
    names.update({name: SpaceView(problem, space) for name, space in problem.spaces.items()})
    for name, of_all in bound.kernel.items.items():  # a list of the views of its items
        if name in names and (name in buffers or name in problem.spaces):
            names[of_all] = [*names.get(of_all, ()), names[name]]
    names.update(
        kernel=entry_name(problem), params=parameters(problem), headers=_headers(problem),
        is_static=problem.static, aligned=problem.aligned,
        index_t="int" if problem.index_bits == 32 else "long long",
        arch_cc=int("".join(c for c in problem.arch if c.isdigit()) or 0),
        block=problem.block, threads=problem.block[0] * problem.block[1] * problem.block[2],
        threads_of={g.entry: g.block[0] * g.block[1] * g.block[2] for g in problem.launches},
    )  # fmt: skip
    return names


def entry_name(problem: Problem) -> str:
    """Symbol of the compiled kernel. The prefix keeps it apart from CUDA's own functions."""
    return f"ge2rt_{problem.kernel.name}"


def _attributes(problem: Problem) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, spec in problem.kernel.attrs.items():
        value = problem.bound.attrs[name]
        if spec.is_argument(problem.static):
            result[name] = Symbol(name)
        elif spec.type == "dtype" and value is not None:
            result[name] = TypeView(dtype_of(value))
        else:
            result[name] = _plain(value, spec.sized and problem.index_bits == 64)
    return result


def _plain(value: Any, wide: bool = False) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return Literal(value, wide)
    return tuple(_plain(v, wide) for v in value) if isinstance(value, (tuple, list)) else value


def _dims_and_lets(problem: Problem) -> dict[str, Any]:
    values = _Values(problem)
    names = (*dimension_names(problem.bound), *(name for name, _ in problem.kernel.lets))
    result: dict[str, Any] = {}
    for name in names:
        value = problem.bound.names[name]
        if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
            result[name] = tuple(values.of(item_name(name, i), v) for i, v in enumerate(value))
        elif isinstance(value, int) and not isinstance(value, bool):
            result[name] = values.of(name, value)
        else:
            result[name] = _plain(value)
    return result


def parameters(problem: Problem) -> str:
    """The C parameter list, in the order of ``problem.args``."""
    shared = _may_share(problem)
    return ", ".join(
        _pointer(problem, a, shared) if a.kind == "pointer" else
        f"{a.value}* __restrict__ {a.name}" if a.kind == "workspace" else
        f"const {_SCALAR_CTYPE[a.format]} {a.name}"
        for a in problem.args
    )  # fmt: skip


def _may_share(problem: Problem) -> frozenset[str]:
    """Buffers that may be the same memory as another one, so ``__restrict__`` would be a lie."""
    names: set[str] = set()
    for output in problem.kernel.outputs:
        if output.overlap:
            names |= {output.name, *output.overlap}
    return frozenset(names)


def _pointer(problem: Problem, slot: ArgSlot, shared: frozenset[str]) -> str:
    spec = problem.kernel.buffers[slot.value]
    desc = problem.bound.descs[slot.value]
    assert desc is not None
    const = "const " if spec.role == "input" else ""
    restrict = "" if slot.name in shared else " __restrict__"
    return f"{const}{desc.dtype.ctype}*{restrict} {slot.name}"


def _headers(problem: Problem) -> str:
    used = {d.dtype.name for d in problem.bound.descs if d is not None}
    used |= {dtype.name for dtype in problem.bound.types.values()}
    for name, spec in problem.kernel.attrs.items():
        if spec.type == "dtype" and problem.bound.attrs[name] is not None:
            used.add(dtype_of(problem.bound.attrs[name]).name)
    return "\n".join(line for name, line in _HEADERS.items() if name in used)
