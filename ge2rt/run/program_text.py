"""A program with its plans as text: where buffers lie, what each step launches, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ge2rt.fuse.program import Buffer
from ge2rt.run.program_steps import KernelRun, LibraryRun, Run

if TYPE_CHECKING:
    from ge2rt.run.program import Executable


def print_plan(executable: Executable) -> str:
    """Buffers, then steps with launch geometry and the reason of each choice."""
    program = executable.program
    rows = [f"plan {program.graph.name} on {executable.device.name}: {len(executable.steps)} steps,"
            f" {executable.workspace} bytes of workspace"]  # fmt: skip
    rows += [f"  {_place(executable, buffer)}" for buffer in program.buffers]
    for number, run in enumerate(executable.steps):
        rows += [f"  {number}: {run.step}", f"     {_launch(run)}"]
        rows += [f"     {line}" for line in run.reason.splitlines()]
    return "\n".join(rows)


def _place(executable: Executable, buffer: Buffer) -> str:
    if buffer.id in executable.hosts:
        return f"{buffer} in %{executable.hosts[buffer.id]} ({buffer.nbytes} bytes)"
    offset = executable.memory.offsets.get(buffer.id)
    return str(buffer) if offset is None else f"{buffer} at +{offset} ({buffer.nbytes} bytes)"


def _launch(run: Run) -> str:
    if isinstance(run, LibraryRun):
        return f"call {run.kernel.title}"
    if run.is_empty:
        return f"{run.plan.kernel}: nothing to launch"
    assert isinstance(run, KernelRun)
    problem = run.plan.compiled(aligned=run.is_aligned(frozenset())).problem
    grid, block = (",".join(map(str, dims)) for dims in (problem.grid, problem.block))
    kind = "this shape" if problem.static else "any shape"
    return f"{run.plan.kernel}<<<({grid}), ({block}), {problem.shared}>>> compiled for {kind}"
