"""PTX functions to LLVM IR and native objects for one block shape: see :func:`lower_kernel`."""

from __future__ import annotations

import re
from dataclasses import replace

from ge2rt.base.errors import Ge2rtError, InvalidArgumentError, UnsupportedError
from ge2rt.ptx.ast import Function, Module
from ge2rt.ptx.emit import Emitter
from ge2rt.ptx.lower import regions
from ge2rt.ptx.lower.ahead import block_steps
from ge2rt.ptx.lower.checks import Watch, deciding
from ge2rt.ptx.lower.crews import analysed, barriers_apart, crew_of, flow_of, parts_meet
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.functions import callees, staying
from ge2rt.ptx.lower.geometry import Geometry
from ge2rt.ptx.lower.inline import inlined
from ge2rt.ptx.lower.kinds import Kinds
from ge2rt.ptx.lower.leaving import with_leaving
from ge2rt.ptx.lower.parted import waits_in_parts
from ge2rt.ptx.lower.places import global_image, places
from ge2rt.ptx.lower.schedule import Schedule
from ge2rt.ptx.lower.stack import with_stacks
from ge2rt.ptx.lower.strands import needs_crew
from ge2rt.ptx.lower.values import Code
from ge2rt.ptx.lower.width import FULL_WIDTH, preferred_width
from ge2rt.ptx.native import Checked, LowerOptions, NativeKernel

__all__ = ["emit", "global_image", "lower_kernel", "lower_to_ir"]


_RARELY = '!1 = !{!"branch_weights", i32 1, i32 1000000}'


def lower_kernel(module: Module, entry: str, options: LowerOptions) -> NativeKernel:
    """Lower one entry for ``options.block`` and emit it for the host (or ``options.cpu``).

    ``options.lanes`` = 0 chooses the width (see :mod:`ge2rt.ptx.lower.width`).
    Raises :class:`UnsupportedError` naming form and PTX line for what the cpu device lacks.
    """
    return emit(lower_to_ir(module, entry, options), options)


def emit(lowered: NativeKernel, options: LowerOptions) -> NativeKernel:
    """Native code for what :func:`lower_to_ir` wrote; ``opt_level`` 0 is the quick tier."""
    from ge2rt.ptx import codegen  # late: a cached kernel needs no LLVM

    target = codegen.target_of(options.cpu, options.features)
    code, externs = codegen.compile_ir(lowered.llvm_ir, target, options.opt_level)
    return replace(lowered, object_code=code, externs=externs)


def lower_to_ir(module: Module, entry: str, options: LowerOptions) -> NativeKernel:
    """As :func:`lower_kernel` without emitting: ``object_code`` is empty."""
    function = module.functions.get(entry)
    if function is None or not function.is_entry:
        raise InvalidArgumentError(
            "no such kernel", kernel=entry, expected=", ".join(module.entries()), got=entry
        )
    try:
        return _lower(module, function, options)
    except Ge2rtError as error:
        raise error.about(kernel=entry) from None


def _width(function: Function, flow: Flow, options: LowerOptions) -> int:
    from ge2rt.ptx import codegen  # late: lowering to text for named features needs no LLVM

    bits = codegen.target_of(options.cpu, options.features).vector_bits
    return preferred_width(function, flow, bits)


def _lower(module: Module, function: Function, options: LowerOptions) -> NativeKernel:
    module = with_stacks(module)
    function = module.functions[function.name]
    stay = staying(module, function)
    function = inlined(module, function, stay)
    others = [inlined(module, module.functions[name], stay) for name in stay]
    function, others = with_leaving(function, others, stay)
    flow = flow_of(function)
    width = options.lanes or (FULL_WIDTH if stay else _width(function, flow, options))
    symbol = "ge2rt_" + re.sub(r"\W", "_", function.name)

    def begun(width: int) -> Code:
        place = places(module, function, global_image(module), width, others)
        return Code(
            Emitter(width, cpu=options.cpu, features=options.features), flow, Kinds.empty(),
            Geometry(options.block, width), place, function.registers,
        )  # fmt: skip

    start, below = begun(width), callees(module, stay)
    if not options.lanes and waits_in_parts(start, function, others, below):
        start = begun(1)
    if stay and options.checks:
        raise _unchecked("recursion and calls through pointers")
    in_turn = bool(stay) or (needs_crew(flow, start.geometry) and not options.checks)
    phased = None if in_turn else analysed(start, parks=False)
    strands = phased is None or parts_meet(phased)
    if phased is not None and not strands and not options.checks:  # a check reports them
        strands = barriers_apart(phased)
    if strands:
        if options.checks:
            raise _unchecked("lanes that meet at __syncwarp from both sides of a branch")
        code, plan, body, arena = crew_of(start, symbol, [function, *others], below)
    else:
        assert phased is not None
        code, plan, body, arena = _phases(module, phased, symbol, options)
    text = "\n".join([body, *code.e.declarations.values(), "!0 = !{}", _RARELY, ""])
    return NativeKernel(
        function.name, symbol, b"", text, function.param_bytes,
        tuple((p.type, p.offset, p.nbytes) for p in function.params),
        code.places.shared_bytes, arena, log_bytes=code.log_bytes, alone=code.alone,
        strands=strands,
        notes=_notes(code.kinds, plan, code),
        checked=_checked(code),
    )  # fmt: skip


def _checked(code: Code) -> Checked | None:
    watch = code.watch
    return watch.result(code.width, code.places.local_bytes) if watch is not None else None


def _unchecked(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"checks of {what} are not there on the cpu device", next_step="unset GE2RT_CHECK"
    )


def _phases(
    module: Module, code: Code, symbol: str, options: LowerOptions
) -> tuple[Code, regions.Plan, str, int]:
    """A kernel cut at its barriers: its text and the arena's bytes."""
    flow, kinds, place = code.flow, code.kinds, code.places
    plan = regions.plan(flow, kinds, place, code.geometry.partial)
    if options.checks:
        code.watch = Watch(options.checks, module.files)
        code.watch.look_at(flow)
        code.watch.parts = deciding(flow, regions.block_wide(flow, kinds, place).parting)
    if len(plan.regions) > 1 and code.watch is None:
        code.steps = block_steps(flow, kinds, code.geometry)
    schedule = Schedule(code, plan, symbol, options.seed)
    body = schedule.write()
    return code, plan, body, place.shared_bytes + schedule.frames.total + 128


def _notes(kinds: Kinds, plan: regions.Plan, code: Code) -> tuple[str, ...]:
    values = list(kinds.lanes.values())
    uniform = sum(v is not None and v.uniform for v in values)
    varying = sum(v is None for v in values)
    slow = sum(bool(r.slow) for r in plan.regions)
    counts = ", ".join(f"{k} {v}" for k, v in sorted(code.counts.items()))
    return (
        f"width: {code.width} lanes",
        f"registers: {uniform} uniform, {len(values) - uniform - varying} affine, "
        f"{varying} varying",
        f"regions: {len(plan.regions)}, mode {plan.mode}, {slow} with masks",
        f"memory: {counts or 'none'}",
    )
