"""What a graph built by hand is: tensors with names, ops over them, and the order between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ge2rt.base.dtypes import DTYPES, DType
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.once import cached_property
from ge2rt.base.shapes import size_of
from ge2rt.base.text import show
from ge2rt.spec.suggest import did_you_mean

_SELECTION_ATTRS = frozenset({"mnk"})  # for the selection only, unknown to kernels
LAYOUTS = ("rowmajor", "NCHW", "NHWC")


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of a graph.

    ``data`` is where it lies, if that is known: an array of any library, a device pointer as int,
    or an object with ``.ptr``, ``.device_ptr`` or one of these in ``.t``. ``device`` is ``cpu``,
    ``cuda``, ``cuda:N`` or empty (where the executor runs).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "f32"
    layout: str = "rowmajor"
    device: str = ""
    data: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if not self.name or not isinstance(self.name, str):
            raise InvalidArgumentError("a tensor needs a name", got=show(self.name))
        if not all(type(e) is int and e >= 0 for e in self.shape):
            raise self._wrong("shape", "whole numbers of at least 0", self.shape)
        if self.dtype not in DTYPES:
            near = did_you_mean(self.dtype, DTYPES) if isinstance(self.dtype, str) else ""
            raise InvalidTypeError(
                f"tensor {self.name!r}: no such dtype", expected=", ".join(DTYPES),
                got=show(self.dtype), detail="dtype", next_step=near,
            )  # fmt: skip
        if self.layout not in LAYOUTS:
            raise self._wrong("layout", " | ".join(LAYOUTS), self.layout)

    def _wrong(self, what: str, expected: str, got: Any) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"tensor {self.name!r}: its {what} cannot be used", expected=expected, got=show(got),
            detail=what,
        )  # fmt: skip

    @property
    def element(self) -> DType:
        """The dtype's record."""
        return DTYPES[self.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes of a dense buffer."""
        return size_of(self.shape) * self.element.itemsize

    def __str__(self) -> str:
        layout = "" if self.layout == "rowmajor" else f" {self.layout}"
        return f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]{layout}"


@dataclass(frozen=True, eq=False)
class Op:
    """One operation: its type, operands in order (None: an absent optional one), attributes."""

    op_type: str
    inputs: Sequence[Tensor | None]
    outputs: Sequence[Tensor]
    attrs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for name, wanted in (("inputs", (Tensor, type(None))), ("outputs", (Tensor,))):
            given = getattr(self, name)
            if isinstance(given, Tensor):
                given = (given,)
            if not all(isinstance(tensor, wanted) for tensor in given):
                raise InvalidTypeError(
                    f"{self.op_type}: {name} must be tensors", expected="ge2rt.graph.Tensor",
                    got=show(given),
                )  # fmt: skip
            object.__setattr__(self, name, tuple(given))
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    @property
    def kernel_attrs(self) -> dict[str, Any]:
        """The attributes that kernels know."""
        return {k: v for k, v in self.attrs.items() if k not in _SELECTION_ATTRS}

    def __str__(self) -> str:
        results = ", ".join(str(t) for t in self.outputs)
        operands = ", ".join("-" if t is None else t.name for t in self.inputs)
        attrs = ", ".join(f"{name}={value!r}" for name, value in sorted(self.attrs.items()))
        return f"{results} = {self.op_type}({operands})" + (f" {{{attrs}}}" if attrs else "")


@dataclass(frozen=True, eq=False)
class Graph:
    """Ops in any order that a run could have; ``outputs`` are the names that a caller wants.

    Without ``outputs``, these are the results that no op reads. Raises
    :class:`InvalidArgumentError` where ops do not fit together: a name with two meanings, a value
    made twice, a cycle.
    """

    ops: Sequence[Op]
    outputs: Sequence[str] = ()
    name: str = "graph"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ops", tuple(self.ops))
        object.__setattr__(self, "outputs", tuple(self.outputs) or self._last())
        self._check()
        object.__setattr__(self, "ops", tuple(self._sorted()))

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """All tensors by name."""
        found: dict[str, Tensor] = {}
        for op in self.ops:
            for tensor in (*op.inputs, *op.outputs):
                if tensor is not None:
                    found.setdefault(tensor.name, tensor)
        return found

    @cached_property
    def producers(self) -> Mapping[str, Op]:
        """The op that makes a tensor, by the tensor's name."""
        return {tensor.name: op for op in self.ops for tensor in op.outputs}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Op, ...]]:
        """The ops that read a tensor, one entry a use."""
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            for tensor in op.inputs:
                if tensor is not None:
                    found.setdefault(tensor.name, []).append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that no op makes, in order of their first use."""
        return tuple(t for name, t in self.tensors.items() if name not in self.producers)

    def __str__(self) -> str:
        rows = [f"{self.name}({', '.join(str(t) for t in self.inputs)})"]
        rows += [f"  {op}" for op in self.ops]
        return "\n".join([*rows, f"  return {', '.join(self.outputs)}"])

    def _last(self) -> tuple[str, ...]:
        read = {t.name for op in self.ops for t in op.inputs if t is not None}
        return tuple(t.name for op in self.ops for t in op.outputs if t.name not in read)

    def _check(self) -> None:
        made: set[str] = set()
        for op in self.ops:
            for tensor in (*op.inputs, *op.outputs):
                if tensor is not None and str(tensor) != str(self.tensors[tensor.name]):
                    raise self._fault(
                        f"{tensor.name!r} means two tensors", f"{self.tensors[tensor.name]}",
                        str(tensor), "give each tensor a name of its own",
                    )  # fmt: skip
            for tensor in op.outputs:
                if tensor.name in made:
                    raise self._fault(
                        f"{tensor.name!r} is made twice", "one op a tensor", str(op),
                        "let the second op write a new tensor",
                    )  # fmt: skip
                made.add(tensor.name)
        for name in self.outputs:
            if name not in self.tensors:
                near = did_you_mean(name, self.tensors)
                raise self._fault(f"there is no output {name!r}", ", ".join(made), name, near)

    def _fault(self, what: str, expected: str, got: str, step: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{self.name}: {what}", expected=expected, got=got, next_step=step
        )

    def _sorted(self) -> Iterator[Op]:
        """The ops, each after those it reads from; the given order where that is one."""
        done: set[str] = {tensor.name for tensor in self.inputs}
        waiting = list(self.ops)
        while waiting:
            later = []
            for op in waiting:
                if all(t is None or t.name in done for t in op.inputs):
                    done.update(t.name for t in op.outputs)
                    yield op
                else:
                    later.append(op)
            if len(later) == len(waiting):
                raise self._fault(
                    "the ops wait for each other", "an order in which they can run",
                    "; ".join(map(str, later[:3])), "break the cycle",
                )  # fmt: skip
            waiting = later
