"""The steps of a program made ready: a plan for each kernel step, equal steps sharing one.

Every buffer of a program has a *base*: the address at which it lies during one run. Bases stand in
the order of ``program.buffers``; one more, the last, is that of the fault flags.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from ge2rt.base import switches
from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import Ge2rtError
from ge2rt.base.locks import ForkLock
from ge2rt.base.shapes import canonical_strides, is_contiguous
from ge2rt.device.api import Device
from ge2rt.fuse.program import Buffer, KernelStep, LibraryStep, Program, View
from ge2rt.run.launch import plan_for
from ge2rt.run.library import LibraryKernel, find_library
from ge2rt.run.plan import Plan
from ge2rt.run.select import refused
from ge2rt.spec.match import match
from ge2rt.spec.model import BufferDesc, Refusal

FLAG_BYTES = 4

_KEPT_PLANS = 4096
_VECTOR_BYTES = 16


@dataclass(frozen=True)
class Operand:
    """Where a step's operand lies: the index of its base, and bytes added to it."""

    base: int
    added: int = 0


Operands: TypeAlias = "tuple[Operand | None, ...]"


@dataclass(frozen=True)
class KernelRun:
    """A kernel step with its plan. ``flag`` is the number of its fault flag, -1 without one."""

    step: KernelStep
    plan: Plan
    operands: Operands
    flag: int = -1

    @property
    def label(self) -> str:
        """What reports call the step."""
        return self.step.label or self.step.name

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to launch."""
        return self.plan.is_empty

    @property
    def reason(self) -> str:
        """Why this kernel was taken: the ranking of its rivals, or that it was made for this."""
        choice = self.plan.choice
        return str(choice) if choice is not None else f"{self.plan.kernel}: generated"

    def is_aligned(self, loose: frozenset[int]) -> bool:
        """Whether all operands lie at multiples of 16 bytes, where the bases in ``loose`` may not.

        All other bases do.
        """
        given = [operand for operand in self.operands if operand is not None]
        return not any(o.added % _VECTOR_BYTES or o.base in loose for o in given)

    def pointers(self, bases: Sequence[int]) -> list[int]:
        """The addresses for the plan, parallel to the kernel's buffers."""
        return [0 if o is None else bases[o.base] + o.added for o in self.operands]


@dataclass(frozen=True)
class LibraryRun:
    """A library step and the kernel it calls."""

    step: LibraryStep
    kernel: LibraryKernel
    descs: tuple[BufferDesc | None, ...]
    operands: Operands
    device: Any
    flag = -1
    is_empty = False

    @property
    def label(self) -> str:
        """What reports call the step."""
        return self.step.label or self.step.name

    @property
    def reason(self) -> str:
        """Why the library was taken."""
        return f"{self.kernel.title}: {self.step.reason or self.kernel.reason}"


Run: TypeAlias = "KernelRun | LibraryRun"


def prepare_steps(program: Program, device: Device, hosts: Mapping[int, int]) -> tuple[Run, ...]:
    """Match, select and compile every step for a device; new kernels are compiled side by side.

    ``hosts`` maps buffers to others whose memory they lie in.
    """
    places = {buffer.id: index for index, buffer in enumerate(program.buffers)}
    bases = {buffer: places[hosts.get(buffer, buffer)] for buffer in places}
    flags = iter(range(len(program.steps)))
    runs: list[Run] = []
    for number, step in enumerate(program.steps):
        flag = next(flags) if isinstance(step, KernelStep) and step.fault else -1
        try:
            runs.append(_prepare(program, step, device, places, bases, flag))
        except Ge2rtError as fault:
            raise fault.about(where=f"step {number} of {program.graph.name}") from None
    _compile([run for run in runs if isinstance(run, KernelRun)])
    return tuple(runs)


def look_up(program: Program, device: Device) -> None:
    """Take a program's kernels as far as they go without a compiler or a launch."""
    places = {buffer.id: index for index, buffer in enumerate(program.buffers)}
    for step in program.steps:
        run = _prepare(program, step, device, places, places, -1)
        if isinstance(run, KernelRun):
            run.plan.find()


def _prepare(
    program: Program, step: KernelStep | LibraryStep, device: Device, places: Mapping[int, int],
    bases: Mapping[int, int], flag: int,
) -> Run:  # fmt: skip
    buffers = [
        None if view is None else program.buffers[places[view.buffer]] for view in step.views
    ]
    descs = [
        None if view is None or buffer is None else _describe(buffer, view, device)
        for view, buffer in zip(step.views, buffers, strict=True)
    ]
    operands = [
        None
        if view is None or buffer is None
        else Operand(bases[buffer.id], view.offset * buffer.type.element.itemsize)
        for view, buffer in zip(step.views, buffers, strict=True)
    ]
    if isinstance(step, LibraryStep):
        kernel = find_library(step.name, device.props.kind)
        return LibraryRun(step, kernel, tuple(descs), tuple(operands), device)
    if flag >= 0:
        descs[-1] = BufferDesc((1,), DTYPES["i32"], (0,), device=device.name)
        operands[-1] = Operand(len(program.buffers), flag * FLAG_BYTES)
    plan = _plan(step, tuple(descs), device)
    return KernelRun(step, plan, tuple(operands), flag)


def _describe(buffer: Buffer, view: View, device: Device) -> BufferDesc:
    """A view as a kernel's descriptor; its offset is added to the base instead."""
    strides = canonical_strides(view.shape, view.strides)
    layout = "rowmajor" if is_contiguous(view.shape, strides) else "strided"
    return BufferDesc(view.shape, buffer.type.element, strides, layout=layout, device=device.name)


_lock = ForkLock()
_plans: dict[tuple[Any, ...], list[Plan]] = {}  # of generated kernels


def clear() -> None:
    """Forget the plans of generated kernels."""
    with _lock:
        _plans.clear()


def _plan(step: KernelStep, descs: tuple[BufferDesc | None, ...], device: Device) -> Plan:
    """The plan of an op type or of a generated kernel; equal ones are made once a process."""
    kernel, attrs = step.kernel, step.attrs
    if isinstance(kernel, str):
        return plan_for(kernel, descs, attrs, device, dynamic=step.dynamic)
    key = (
        kernel.name, descs, tuple(sorted((k, repr(v)) for k, v in attrs.items())), device.name,
        device.props.arch, step.dynamic, switches.get("GE2RT_CHECK"), switches.get("GE2RT_SEED"),
    )  # fmt: skip
    with _lock:
        for plan in _plans.get(key, ()):
            if plan.bound.kernel == kernel and plan.device is device:
                return plan
    bound = match(kernel, descs, attrs, device.props)
    if isinstance(bound, Refusal):
        raise refused(bound, kernel.name)
    plan = Plan(bound, device, dynamic=step.dynamic)
    with _lock:
        if len(_plans) >= _KEPT_PLANS:
            _plans.pop(next(iter(_plans)))
        _plans.setdefault(key, []).append(plan)
    return plan


def _compile(runs: Sequence[KernelRun]) -> None:
    """Compile what the runs need when all inputs are aligned."""
    wanted = {(id(run.plan), run.is_aligned(frozenset())): run for run in runs if not run.is_empty}
    jobs = [(run.plan, aligned) for (_, aligned), run in wanted.items()]
    workers = min(len(jobs), os.cpu_count() or 1)
    if workers < 2:
        for plan, aligned in jobs:
            plan.compiled(aligned=aligned)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="ge2rt-compile") as threads:
        for done in [threads.submit(plan.compiled, aligned=al) for plan, al in jobs]:
            done.result()
