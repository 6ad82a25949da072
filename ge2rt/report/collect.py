"""From a compiled function to the records of its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ge2rt.base.errors import InvalidTypeError
from ge2rt.base.shapes import size_of
from ge2rt.fuse.program import KernelStep, LibraryStep, Program, View
from ge2rt.ir.graph import Graph
from ge2rt.ir.text import print_graph
from ge2rt.jit.backend import Built
from ge2rt.jit.compiled import Compiled
from ge2rt.jit.stages import llvm_of, ptx_of, sass_of, variants_of
from ge2rt.report.instructions import count_instructions, link_lines
from ge2rt.report.measure import Times, measure
from ge2rt.report.records import (
    BufferRecord,
    CandidateRecord,
    GraphRecord,
    KernelRecord,
    MemoryRecord,
    NodeRecord,
    Report,
    StepRecord,
    TimingRecord,
    ViewRecord,
)
from ge2rt.run.program import Executable
from ge2rt.run.program_memory import ALIGN, lives
from ge2rt.run.program_steps import KernelRun, LibraryRun, Run
from ge2rt.run.select import Choice, explain

_MADE_UP = "made up: numbers between 0 and 1, zeros where they are integers"


def collect(
    compiled: Compiled, arrays: Sequence[Any] | None = None, *, timed: bool = True
) -> Report:
    """The report of a compiled function.

    ``arrays`` are its arguments' arrays, leaf by leaf, for the times; without them numbers are made
    up for the arguments (captured arrays are there anyway). ``timed=False`` runs nothing.
    """
    built = compiled.built
    given = _inputs(compiled, arrays)
    return collect_built(
        built, compiled.__name__, signature=compiled.signature, arrays=given, timed=timed,
        described=_MADE_UP if arrays is None else "given",
        constants=tuple(f"{a.dtype}{list(a.shape)}" for a in compiled.constants),
    )  # fmt: skip


def _inputs(compiled: Compiled, arrays: Sequence[Any] | None) -> list[Any]:
    """The program's inputs: arguments, then captured arrays where they fit as they are."""
    slots = _executable(compiled.built, compiled.__name__).inputs
    constants = list(compiled.constants)
    count = len(slots) - len(constants)
    first = list(arrays) if arrays is not None else [None] * count
    kept = [
        array if slot.fits(array) else None
        for slot, array in zip(slots[count:], constants, strict=True)
    ]
    return first + kept


def collect_built(
    built: Built, name: str, *, signature: str = "", arrays: Sequence[Any] | None = None,
    timed: bool = True, described: str = _MADE_UP, constants: tuple[str, ...] = (),
) -> Report:  # fmt: skip
    """The report of what one build made. InvalidTypeError without an executable."""
    executable = _executable(built, name)
    program: Program = built.program
    times = measure(executable, arrays) if timed and executable.steps else None
    kernels, names = _kernels(built, executable)
    steps = tuple(
        _step(number, run, program, names, times) for number, run in enumerate(executable.steps)
    )
    return Report(
        name=name, signature=signature, device=executable.device.name,
        arch=executable.device.props.arch, before=graph_record(built.graph),
        after=graph_record(program.graph, _owners(steps)), optimised=str(built.optimised),
        steps=steps, kernels=kernels, memory=_memory(executable), plan=str(executable),
        timing=_timing(times, described), compile_seconds=built.seconds, compiled=built.compiled,
        constants=constants, notes=_notes(built),
    )  # fmt: skip


def _executable(built: Built, name: str) -> Executable:
    if not isinstance(built.runner, Executable):
        raise InvalidTypeError(
            f"{name} has no executable to report on", expected="kernels",
            got=type(built.runner).__name__, next_step="compile it by ge2rt.jit",
        )  # fmt: skip
    return built.runner


def _notes(built: Built) -> tuple[str, ...]:
    if built.captured is None:
        return built.reasons
    return (*built.reasons, "The steps are captured as a CUDA graph; here each runs by itself.")


def _timing(times: Times | None, described: str) -> TimingRecord:
    if times is None:
        return TimingRecord(note="not run")
    note = "some index lay outside of its array" if times.faulted else ""
    return TimingRecord(times.whole, times.rounds, described, note)


# -- graphs --------------------------------------------------------------------------------------


def graph_record(graph: Graph, owners: Mapping[int, int] | None = None) -> GraphRecord:
    """A graph's records; ``owners`` maps node numbers to the steps that compute them."""
    order = (*graph.inputs, *graph.nodes)
    number = {node: i for i, node in enumerate(order)}
    outputs = {node: i for i, node in reversed(list(enumerate(graph.outputs)))}
    nodes = tuple(
        NodeRecord(
            i, node.op, str(node.type), ", ".join(f"{k}={v!r}" for k, v in node.attrs.items()),
            node.where, tuple(number[operand] for operand in node.inputs),
            (owners or {}).get(i, -1), outputs.get(node, -1),
        )
        for i, node in enumerate(order)
    )  # fmt: skip
    return GraphRecord(graph.name, print_graph(graph), nodes)


def _owners(steps: Sequence[StepRecord]) -> dict[int, int]:
    """Node -> the first step that computes it (cheap ones are computed again by others)."""
    found: dict[int, int] = {}
    for step in steps:
        for node in step.members:
            found.setdefault(node, step.number)
    return found


# -- kernels -------------------------------------------------------------------------------------


def _kernels(
    built: Built, executable: Executable
) -> tuple[tuple[KernelRecord, ...], dict[int, str]]:
    """The different kernels, and the kernel's name of each step (by the step's number)."""
    variants = variants_of(built)
    by_binary = {variant.binary.data: name for name, variant in variants.items()}
    on_cpu = executable.device.accepts("cpu")
    records: dict[str, KernelRecord] = {}
    names: dict[int, str] = {}
    for number, run in enumerate(executable.steps):
        if not isinstance(run, KernelRun) or run.is_empty:
            continue
        names[number] = name = by_binary[_variant(run).binary.data]
        if name not in records:
            records[name] = _kernel(name, run, variants[name], on_cpu=on_cpu)
    return tuple(records.values()), names


def _variant(run: KernelRun) -> Any:
    return run.plan.compiled(aligned=run.is_aligned(frozenset()))


def _kernel(name: str, run: KernelRun, variant: Any, *, on_cpu: bool) -> KernelRecord:
    source, ptx = variant.source, ptx_of(variant)
    shown, links = link_lines(ptx, source.name)
    attributes = variant.function.attributes()
    return KernelRecord(
        name=name, title=run.plan.kernel, template=source.name,
        generated=run.plan.choice is None, static=variant.problem.static,
        cached=variant.binary.cached, cuda=source.text, template_lines=source.line_map.lines,
        ptx=shown, links=links, native=llvm_of(variant) if on_cpu else sass_of(variant),
        native_title="LLVM IR" if on_cpu else "SASS", instructions=count_instructions(ptx),
        registers=attributes.get("num_regs", -1),
        shared_static=attributes.get("shared_size_bytes", 0),
    )  # fmt: skip


# -- steps ---------------------------------------------------------------------------------------


def _step(
    number: int, run: Run, program: Program, names: Mapping[int, str], times: Times | None
) -> StepRecord:
    step = run.step
    common: dict[str, Any] = {
        "number": number, "label": run.label, "nodes": step.nodes, "members": step.members,
        "views": _views(step, program), "reason": run.reason,
    }  # fmt: skip
    if times is not None:
        start, lasted = times.spans[number]
        common |= {"seconds": times.steps[number], "start": start, "lasted": lasted}
    if isinstance(run, LibraryRun):
        return StepRecord(kernel="", library=run.kernel.title, **common)
    if run.is_empty:
        return StepRecord(kernel="", library="", **common)
    problem = _variant(run).problem
    return StepRecord(
        kernel=names[number], library="", grid=problem.grid, block=problem.block,
        shared=problem.shared, candidates=_candidates(run.plan.choice), **common,
    )  # fmt: skip


def _views(step: KernelStep | LibraryStep, program: Program) -> tuple[ViewRecord, ...]:
    sizes = {buffer.id: buffer.type.element.itemsize for buffer in program.buffers}
    first = len(step.views) - step.outputs
    taken = _taken(step, program)
    found = []
    for place, view in enumerate(step.views):
        if view is not None:
            nbytes, written = touched(view, sizes[view.buffer]), place >= first
            if not written:
                nbytes = min(nbytes, taken.get(nbytes // sizes[view.buffer], nbytes))
            found.append(ViewRecord(view.buffer, str(view), nbytes, written))
    return tuple(found)


def _taken(step: KernelStep | LibraryStep, program: Program) -> dict[int, int]:
    """Elements of a table that the step gathers from -> bytes that are taken of it."""
    order = (*program.graph.inputs, *program.graph.nodes)
    gathers = [order[i] for i in step.members if order[i].op == "gather"]
    return {node.inputs[0].type.size: node.type.nbytes for node in gathers}


def touched(view: View, itemsize: int) -> int:
    """Bytes of the different elements of a view: axes of stride 0 repeat the same ones.

    An upper bound where views overlap themselves otherwise.
    """
    extents = [e for e, s in zip(view.shape, view.strides, strict=True) if s or not e]
    return size_of(tuple(extents)) * itemsize


def _candidates(choice: Choice | None) -> tuple[CandidateRecord, ...]:
    if choice is None:
        return ()
    found = []
    for candidate in choice.candidates:
        refusal = candidate.refusal
        parts = " + ".join(f"{name} {value}" for name, value in candidate.parts.items())
        found.append(CandidateRecord(
            candidate.kernel.name, candidate.score, parts if refusal is None else explain(refusal),
            candidate is choice.chosen, refusal is not None,
        ))  # fmt: skip
    return tuple(found)


# -- memory --------------------------------------------------------------------------------------


def _memory(executable: Executable) -> MemoryRecord:
    program = executable.program
    sizes = {buffer.id: buffer.nbytes for buffer in program.buffers}
    spans = {
        life.buffer: life
        for life in lives([(*step.reads, *step.writes) for step in program.steps], sizes)
    }
    records = []
    for buffer in program.buffers:
        life = spans.get(buffer.id)
        records.append(BufferRecord(
            buffer.id, str(buffer.type), buffer.kind, buffer.index, buffer.nbytes,
            executable.memory.offsets.get(buffer.id, -1),
            life.first if life else -1, life.last if life else -1,
            executable.hosts.get(buffer.id, -1),
        ))  # fmt: skip
    apart = sum(-(-r.bytes // ALIGN) * ALIGN for r in records if r.offset >= 0)
    return MemoryRecord(tuple(records), executable.workspace, apart)
