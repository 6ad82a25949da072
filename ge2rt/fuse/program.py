"""A program: the buffers and the steps that a graph has become. Pure data, no device.

Steps stand in an order in which they may run. A buffer is written by the steps that name it as an
output and read by later ones; a temporary may be given memory that another one no longer needs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from ge2rt.ir.graph import Graph, TensorType
from ge2rt.spec.model import KernelSpec

_NONE: Mapping[str, Hashable] = MappingProxyType({})


@dataclass(frozen=True)
class Buffer:
    """Memory of one value.

    ``kind`` is ``"input"``, ``"output"`` or ``"temp"``; ``index`` is the position among the inputs
    or outputs, -1 for a temporary. ``strides`` are in elements: those of the caller's array for an
    input, row-major for all others. ``nbytes`` is what a dense buffer of the type takes.
    """

    id: int
    type: TensorType
    strides: tuple[int, ...]
    kind: str
    index: int = -1

    @property
    def nbytes(self) -> int:
        """Bytes of a dense buffer of this type."""
        return self.type.nbytes

    def __str__(self) -> str:
        place = f" {self.index}" if self.index >= 0 else ""
        return f"%{self.id}: {self.type} {self.kind}{place}"


@dataclass(frozen=True)
class View:
    """What a step sees of a buffer: shape, strides and offset, all in elements."""

    buffer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def __str__(self) -> str:
        shape, strides = (",".join(map(str, v)) for v in (self.shape, self.strides))
        return f"%{self.buffer}[{shape}:{strides}{f'+{self.offset}' if self.offset else ''}]"


@dataclass(frozen=True)
class KernelStep:
    """One launch.

    ``kernel`` is a generated :class:`KernelSpec`, or the name of an op type, whose kernel is chosen
    by its capabilities when the program is prepared. ``views`` are parallel to the kernel's inputs,
    then outputs; None is an absent optional input. Where ``fault`` is true, the last output is the
    fault flag: an ``i32`` of shape [1], whose view is None and whose memory the executor gives; a
    value other than 0 after the run means that an index was outside its array.
    """

    kernel: KernelSpec | str
    views: tuple[View | None, ...]
    outputs: int = 1  # how many of the views, from the last, are written (the fault flag included)
    attrs: Mapping[str, Hashable] = field(default_factory=lambda: _NONE)
    label: str = ""
    nodes: tuple[str, ...] = ()  # what it computes, one text a node
    fault: bool = False
    members: tuple[int, ...] = ()  # which nodes: their numbers in the printed graph
    dynamic: bool = False  # compiled for any extents at once, not for the first few

    @property
    def name(self) -> str:
        """The kernel's name, or the op type."""
        return self.kernel if isinstance(self.kernel, str) else self.kernel.name

    @property
    def reads(self) -> tuple[int, ...]:
        """Ids of the buffers that are read."""
        given = self.views[: len(self.views) - self.outputs]
        return tuple(view.buffer for view in given if view is not None)

    @property
    def writes(self) -> tuple[int, ...]:
        """Ids of the buffers that are written."""
        given = self.views[len(self.views) - self.outputs :]
        return tuple(view.buffer for view in given if view is not None)

    def __str__(self) -> str:
        return _line(self.name, self.views, self.outputs, self.label)


@dataclass(frozen=True)
class LibraryStep:
    """A call of a registered library kernel (``"matmul"``), and why it was taken."""

    name: str
    views: tuple[View | None, ...]
    attrs: Mapping[str, Hashable] = field(default_factory=lambda: _NONE)
    label: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    outputs: int = 1
    members: tuple[int, ...] = ()

    @property
    def reads(self) -> tuple[int, ...]:
        """Ids of the buffers that are read."""
        given = self.views[: len(self.views) - self.outputs]
        return tuple(view.buffer for view in given if view is not None)

    @property
    def writes(self) -> tuple[int, ...]:
        """Ids of the buffers that are written."""
        given = self.views[len(self.views) - self.outputs :]
        return tuple(view.buffer for view in given if view is not None)

    def __str__(self) -> str:
        line = _line(f"library {self.name}", self.views, self.outputs, self.label)
        return f"{line}  # {self.reason}" if self.reason else line


Step: TypeAlias = "KernelStep | LibraryStep"


@dataclass(frozen=True)
class Program:
    """Buffers and steps. ``inputs`` and ``outputs`` are buffer ids in the order of the graph's."""

    graph: Graph
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def kernels(self) -> tuple[KernelStep, ...]:
        """The steps that are kernel launches."""
        return tuple(step for step in self.steps if isinstance(step, KernelStep))

    def for_any_extents(self) -> Program:
        """The same program with all its kernels compiled for any extents at once."""
        steps = (replace(s, dynamic=True) if isinstance(s, KernelStep) else s for s in self.steps)
        return replace(self, steps=tuple(steps))

    def __str__(self) -> str:
        rows = [f"program {self.graph.name}"]
        rows += [f"  {buffer}" for buffer in self.buffers]
        rows += [f"  {number}: {step}" for number, step in enumerate(self.steps)]
        return "\n".join(rows)


@dataclass(frozen=True)
class Choices:
    """What the lowering may decide by size.

    ``kind`` is the device's kind. A product of matrices may go to a library (the BLAS that NumPy
    carries, on cpu) by the sizes in :mod:`ge2rt.fuse.products`, or from ``library_mnk`` products
    m*n*k on, if that is not negative. A product with at most ``thin_rows`` rows is a fused
    reduction where no library takes it, or its weights are stored in a narrower dtype.
    ``max_values`` bounds the values of one kernel, ``max_operands`` its buffers.
    """

    kind: str = "cpu"
    library: tuple[str, ...] = ("matmul",)
    library_mnk: int = -1
    thin_rows: int = 4
    max_values: int = 1000
    max_operands: int = 64


def _line(name: str, views: tuple[View | None, ...], outputs: int, label: str) -> str:
    shown = [str(view) if view is not None else "-" for view in views]
    at = len(views) - outputs
    text = f"{', '.join(shown[at:])} = {name}({', '.join(shown[:at])})"
    return f"{text}  # {label}" if label else text
