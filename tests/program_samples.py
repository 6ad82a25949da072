"""Programs built by hand for the tests of the executor: no lowering, shipped kernels only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ge2rt.base.shapes import contiguous_strides
from ge2rt.fuse.program import Buffer, KernelStep, LibraryStep, Program, View
from ge2rt.ir.graph import Graph, TensorType
from ge2rt.spec.model import KernelSpec
from ge2rt.spec.registry import Registry

Ref = int | View


@dataclass
class Builder:
    """Collects buffers and steps."""

    name: str = "sample"
    buffers: list[Buffer] = field(default_factory=list)
    steps: list[KernelStep | LibraryStep] = field(default_factory=list)

    def buffer(
        self, kind: str, *shape: int, dtype: str = "f32", strides: Sequence[int] | None = None
    ) -> int:
        number = len(self.buffers)
        index = sum(b.kind == kind for b in self.buffers) if kind != "temp" else -1
        steps = tuple(strides) if strides is not None else contiguous_strides(shape)
        self.buffers.append(Buffer(number, TensorType(shape, dtype), steps, kind, index))
        return number

    def view(self, ref: Ref) -> View:
        if isinstance(ref, View):
            return ref
        buffer = self.buffers[ref]
        return View(ref, buffer.type.shape, buffer.strides)

    def kernel(
        self, kernel: str | KernelSpec, inputs: Sequence[Ref | None], outputs: Sequence[Ref], *,
        fault: bool = False, label: str = "", nodes: tuple[str, ...] = (), **attrs: Any,
    ) -> None:  # fmt: skip
        refs = [*inputs, *outputs, *[None] * fault]
        views = tuple(None if ref is None else self.view(ref) for ref in refs)
        self.steps.append(
            KernelStep(kernel, views, len(outputs) + fault, attrs, label, nodes, fault)
        )

    def matmul(self, a: Ref, b: Ref, out: Ref, reason: str = "asked for") -> None:
        views = tuple(self.view(ref) for ref in (a, b, out))
        self.steps.append(LibraryStep("matmul", views, reason=reason))

    def program(self) -> Program:
        ids: Mapping[str, list[Buffer]] = {
            kind: sorted((b for b in self.buffers if b.kind == kind), key=lambda b: b.index)
            for kind in ("input", "output")
        }
        return Program(
            Graph(self.name, (), ()), tuple(self.buffers), tuple(self.steps),
            tuple(b.id for b in ids["input"]), tuple(b.id for b in ids["output"]),
        )  # fmt: skip


def sums(steps: int, n: int = 1024) -> Program:
    """``x + y + y + ...``: ``steps`` launches in a row, each needing only the one before."""
    made = Builder()
    x, y = made.buffer("input", n), made.buffer("input", n)
    for number in range(steps):
        out = made.buffer("output" if number == steps - 1 else "temp", n)
        made.kernel("BINARY", [x, y], [out], op="add", label=f"sum {number}")
        x = out
    return made.program()


TAKE = """\
api_version: 1
kernels:
  - name: take
    op: TAKE
    template: take.cu.j2
    score: 50
    inputs: [{name: X, dtype: f32, shape: [N]}, {name: I, dtype: i32, shape: [M]}]
    outputs: [{name: Y, dtype: f32, shape: [M]}, {name: FAULT, dtype: i32, shape: [1]}]
    launch: {grid: ["ceildiv(M, 128)"], block: [128]}
"""

TAKE_TEMPLATE = """\
extern "C" __global__ void {{ kernel }}({{ params }}) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= {{ M }}) return;
  int at = I[i];
  if (at < 0 || at >= {{ N }}) {
    FAULT[0] = 1;
    at = 0;
  }
  Y[i] = X[at];
}
"""


def take_kernel(folder: Path) -> KernelSpec:
    """A kernel with a fault flag: ``Y = X[I]``."""
    (folder / "templates").mkdir()
    (folder / "templates" / "take.cu.j2").write_text(TAKE_TEMPLATE)
    (folder / "kernels.yaml").write_text(TAKE)
    registry = Registry()
    registry.add_file(folder / "kernels.yaml")
    return registry.get("take")


def take_program(kernel: KernelSpec, n: int, m: int) -> Program:
    """``take(x, i) + take(x, j)``: two steps with a flag, one without."""
    made = Builder()
    x = made.buffer("input", n)
    places = [made.buffer("input", m, dtype="i32") for _ in range(2)]
    taken = [made.buffer("temp", m) for _ in range(2)]
    for place, out, name in zip(places, taken, "ij", strict=True):
        made.kernel(
            kernel, [x, place], [out], fault=True, label=f"take {name}", nodes=(f"x[{name}]",)
        )
    made.kernel("BINARY", taken, [made.buffer("output", m)], op="add")
    return made.program()
