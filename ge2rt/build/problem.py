"""A matched call becomes a specialisation: spaces, index width, arguments, launch geometry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from ge2rt.base import shapes
from ge2rt.base.dtypes import DTYPES, DType
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.build.names import dynamic_scalars
from ge2rt.build.records import ArgSlot, Geometry, Problem, Space
from ge2rt.build.spaces import make_space, space_vector
from ge2rt.spec.expr import Expression
from ge2rt.spec.model import AttrSpec, Bound, LaunchSpec

# Linear element numbers are rounded up to whole blocks and tiles: room for that in 32 bits.
_SLACK = 2**24
_APART = 256  # bytes between the beginnings of pieces of a workspace


class Props(Protocol):
    """What a problem needs to know of the device."""

    @property
    def kind(self) -> str:
        """``cpu``, ``cuda``..."""

    @property
    def arch(self) -> str:
        """``sm_80``..."""

    @property
    def cc(self) -> float:
        """Compute capability."""

    @property
    def tensor_cores(self) -> bool:
        """Whether ``mma.sync`` is there."""


def make_problem(
    bound: Bound,
    props: Props,
    *,
    aligned: bool = True,
    static: bool = True,
    tunables: Mapping[str, int] | None = None,
) -> Problem:
    """Specialise ``bound`` for a device. Calls of size zero never come here.

    ``tunables`` overrides the kernel's preferences. Raises :class:`InvalidArgumentError` for a
    tunable or an expression of the declaration that cannot be used.
    """
    host = {"cc": props.cc, "kind": props.kind, "tensor_cores": props.tensor_cores}
    return _assemble(bound, props.arch, host, aligned, static, tunables, complete=False)


def repack(problem: Problem, bound: Bound) -> Problem:
    """The same specialisation choices for another call of the same kernel.

    Tunables and device are those of ``problem``. The source is the same exactly if
    ``facts(result) == facts(problem)`` (:func:`ge2rt.build.facts.facts`).
    """
    return _assemble(
        bound, problem.arch, problem.host, problem.aligned, problem.static, problem.tunables,
        complete=True,
    )  # fmt: skip


def with_alignment(problem: Problem, aligned: bool) -> Problem:
    """The same problem for pointers that are, or are not, multiples of 16 bytes."""
    if problem.aligned == aligned:
        return problem
    changed = replace(problem, aligned=aligned)
    return repack(changed, problem.bound)


def _assemble(
    bound: Bound, arch: str, host: Mapping[str, Any], aligned: bool, static: bool,
    tunables: Mapping[str, int] | None, complete: bool,
) -> Problem:  # fmt: skip
    names: dict[str, Any] = {b.name: d for b, d in _buffers(bound)}
    names.update(bound.names)
    names.update(host)
    spaces = {s.name: make_space(s, bound, names) for s in bound.kernel.iterate}
    for name, space in spaces.items():
        names[f"{name}_size"] = space.size
        names[f"{name}_rank"] = len(space.shape)
        names[f"{name}_shape"] = space.shape
        names[f"{name}_strides"] = space.strides
        names[f"{name}_vec"] = space_vector(space, bound, aligned)
        if (
            of_all := bound.kernel.items.get(name)
        ) is not None:  # the facts of each item, as tuples
            for fact in ("size", "rank", "shape", "strides", "vec"):
                former = names.get(f"{of_all}_{fact}", ())
                names[f"{of_all}_{fact}"] = (*former, names[f"{name}_{fact}"])
    if complete and tunables is not None:
        chosen = dict(tunables)
    else:
        chosen = _choose_tunables(bound, names, tunables or {})
    names.update(chosen)
    bits = _index_bits(bound, spaces)
    first = _launch(bound, bound.kernel.launch, names)
    later = [_launch(bound, spec, names) for spec in bound.kernel.then]
    pieces, workspace = _workspace(bound, names)
    return Problem(
        bound=bound, arch=arch, static=static, aligned=aligned, tunables=chosen, spaces=spaces,
        index_bits=bits, args=_arguments(bound, spaces, bits, static, pieces),
        grid=first.grid, block=first.block, shared=first.shared, launches=(first, *later),
        workspace=workspace, host=host,
    )  # fmt: skip


def _launch(bound: Bound, spec: LaunchSpec, names: Mapping[str, Any]) -> Geometry:
    wanted = spec.when is None or bool(spec.when.evaluate(names))
    what = f"{spec.entry} " if spec.entry else ""
    shared = _whole(bound, f"{what}shared", spec.shared, names) if spec.shared else 0
    grid = _geometry(bound, f"{what}grid", spec.grid, names)
    return Geometry(
        spec.entry, grid if wanted else (1, 1, 1),  # a grid may be empty where it is not wanted
        _geometry(bound, f"{what}block", spec.block, names), shared, wanted,
    )  # fmt: skip


def _workspace(bound: Bound, names: Mapping[str, Any]) -> tuple[list[ArgSlot], int]:
    """Where each piece of the workspace begins, and the bytes of all."""
    slots, end = [], 0
    for spec in bound.kernel.workspace:
        dtype = _workspace_dtype(bound, spec.dtype)
        slots.append(ArgSlot("workspace", spec.name, "Q", dtype.ctype, end))
        nbytes = _whole(bound, f"workspace {spec.name}", spec.size, names) * dtype.itemsize
        end += -(-nbytes // _APART) * _APART
    return slots, end


def _workspace_dtype(bound: Bound, name: str) -> DType:
    """A dtype, a type variable's, or (``acc:T``) the one in which sums of it are kept."""
    variable = name.removeprefix("acc:")
    if variable == name:
        return bound.types.get(name) or DTYPES[name]
    return DTYPES[bound.types[variable].accumulate]


def _buffers(bound: Bound) -> Any:
    return zip(bound.kernel.buffers, bound.descs, strict=True)


def _choose_tunables(
    bound: Bound, names: Mapping[str, Any], given: Mapping[str, int]
) -> dict[str, int]:
    kernel = bound.kernel
    unknown = sorted(set(given) - set(kernel.tunables))
    if unknown:
        raise InvalidArgumentError(
            "unknown tunable", kernel=kernel.name, argument=unknown[0],
            expected=", ".join(kernel.tunables) or "none: the kernel has no tunables",
        )  # fmt: skip
    chosen = {name: values[0] for name, values in kernel.tunables.items()}
    chosen.update(given)
    seen = dict(names)
    for name, expression in kernel.prefer:
        if name not in given:
            chosen[name] = _whole(bound, f"prefer {name}", expression, {**seen, **chosen})
    for name, value in chosen.items():
        if value not in kernel.tunables[name]:
            raise InvalidArgumentError(
                "a value the tunable does not have", kernel=kernel.name, argument=name,
                expected=f"one of {list(kernel.tunables[name])}", got=str(value),
            )  # fmt: skip
    return chosen


def _index_bits(bound: Bound, spaces: Mapping[str, Space]) -> int:
    """The width that holds the largest byte offset over all buffers, and every point's number."""
    present = [d for d in bound.descs if d is not None]
    wide = any(shapes.index_bits(d.shape, d.strides, d.dtype.itemsize) == 64 for d in present)
    counts = [shapes.size_of(d.shape) for d in present] + [s.size for s in spaces.values()]
    return 64 if wide or max(counts, default=0) >= 2**31 - _SLACK else 32


def _arguments(
    bound: Bound, spaces: Mapping[str, Space], bits: int, static: bool, pieces: list[ArgSlot]
) -> tuple[ArgSlot, ...]:
    slots = [
        ArgSlot("pointer", spec.name, "Q", index, desc.offset * desc.dtype.itemsize)
        for index, (spec, desc) in enumerate(_buffers(bound))
        if desc is not None
    ]
    slots += pieces
    if not static:
        code = "i" if bits == 32 else "q"
        scalars = dynamic_scalars(bound, spaces)
        slots += [ArgSlot("scalar", name, code, value) for name, value in scalars.items()]
    wide_float = any(d is not None and d.dtype.name == "f64" for d in bound.descs)
    wide_int = any(d is not None and d.dtype.name in ("i64", "u64") for d in bound.descs)
    for attr in bound.kernel.attrs.values():
        if attr.is_argument(static):
            value = bound.attrs[attr.name]
            slots.append(_runtime_slot(attr, value, wide_float, wide_int))
    return tuple(slots)


def _runtime_slot(attr: AttrSpec, value: Any, wide_float: bool, wide_int: bool) -> ArgSlot:
    if attr.type == "bool":
        return ArgSlot("scalar", attr.name, "?", bool(value))
    if attr.type == "float":
        wide = wide_float or attr.wide
        return ArgSlot("scalar", attr.name, "d" if wide else "f", float(value))
    if attr.type == "int":
        fits = -(2**31) <= value < 2**31
        return ArgSlot("scalar", attr.name, "i" if fits and not wide_int else "q", int(value))
    raise InvalidArgumentError(
        "only int, float and bool attributes can be runtime arguments",
        argument=attr.name, got=attr.type,
    )  # fmt: skip


def _geometry(
    bound: Bound, what: str, expressions: tuple[Expression, ...], names: Mapping[str, Any]
) -> tuple[int, int, int]:
    values = [_whole(bound, what, e, names) for e in expressions] + [1, 1, 1]
    return values[0], values[1], values[2]


def _whole(bound: Bound, what: str, expression: Expression, names: Mapping[str, Any]) -> int:
    value = expression.evaluate(names)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgumentError(
            f"launch {what} is not a whole number",
            kernel=bound.kernel.name, expected="a whole number >= 0",
            got=f"{value!r} from {expression}", where=bound.kernel.source,
        )  # fmt: skip
    return value
