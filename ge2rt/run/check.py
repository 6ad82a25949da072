"""Check kernels: run their cases against the reference, and compile them for architectures.

Where a kernel runs in this process, :mod:`ge2rt.run.apart` runs the cases in another one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ge2rt.base import switches
from ge2rt.base.errors import Ge2rtError, UnsupportedError
from ge2rt.build.compile import build
from ge2rt.build.problem import make_problem
from ge2rt.device.api import Device
from ge2rt.run.case_arrays import CaseArrays, Laid, make_arrays
from ge2rt.run.cases import Case, cases_for
from ge2rt.run.launch import plan_for
from ge2rt.run.offline import arch_props
from ge2rt.run.plan import Plan
from ge2rt.run.select import explain
from ge2rt.spec.match import match
from ge2rt.spec.model import KernelSpec, Refusal


@dataclass(frozen=True)
class Outcome:
    """One case after its run; no ``faults`` if all is right; ``skipped`` is a reason or empty.

    ``note`` says what was left out; ``compiled`` is false where nothing had to be compiled.
    """

    case: Case
    faults: tuple[str, ...]
    seconds: float
    skipped: str = ""
    note: str = ""
    compiled: bool = True


@dataclass(frozen=True)
class Compiled:
    """One kernel for one architecture: bytes of cubin a dtype choice, or why it was turned down."""

    kernel: KernelSpec
    arch: str
    sizes: Mapping[str, int]
    turned_down: str = ""
    fault: str = ""


NO_REFERENCE = "no reference: compiled only"
NOTHING_RAN = "nothing to compute, and no other case passes"


def run_case(case: Case, device: Device) -> Outcome:
    """Run one case on a device and compare with the reference."""
    start = time.perf_counter()
    note = ""
    try:
        arrays = make_arrays(case)
        turned_down = match(case.kernel, arrays.descs, case.attrs, device.props)
        if isinstance(turned_down, Refusal):
            return Outcome(case, (), time.perf_counter() - start, explain(turned_down))
        if case.kernel.reference is None:
            plan_for(case.kernel.name, arrays.descs, case.attrs, device).compiled()
            return Outcome(case, (), time.perf_counter() - start, note=NO_REFERENCE)
        note = _executed(arrays, device)
    except Ge2rtError as fault:
        return Outcome(case, (str(fault),), time.perf_counter() - start)
    faults, seconds = tuple(arrays.faults()), time.perf_counter() - start
    return Outcome(case, faults, seconds, note=note, compiled=not arrays.is_empty)


def _executed(arrays: CaseArrays, device: Device) -> str:
    """Run a case; without checks, as the note says, where there are none for its kernel."""
    try:
        execute(arrays, device)
    except UnsupportedError as fault:
        if "GE2RT_CHECK" not in fault.record.next_step:
            raise
        with switches.setting("GE2RT_CHECK", ""):
            execute(arrays, device)
        return f"ran without checks: {fault.record.message}"
    return ""


def settle(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """All outcomes of one kernel, where cases with nothing to compute prove nothing by themselves.

    They only count when another case was compiled and ran.
    """
    ran = any(o.compiled and not o.faults and not o.skipped for o in outcomes)
    if ran:
        return list(outcomes)
    return [
        o if o.compiled or o.faults else replace(o, skipped=o.skipped or NOTHING_RAN)
        for o in outcomes
    ]


def chosen(kernel: KernelSpec, full: bool = False) -> list[Case]:
    """The cases to run: of a kernel without a reference one for each choice of dtypes."""
    cases = cases_for(kernel, full)
    if kernel.reference is not None:
        return cases
    by_types: dict[tuple[str, ...], Case] = {}
    for case in sorted(cases, key=lambda c: any(0 in shape for shape in c.shapes.values())):
        by_types.setdefault(tuple(case.types.values()), case)
    return list(by_types.values())


def execute(arrays: CaseArrays, device: Device) -> None:
    """Run the kernel of a case on its arrays; what is in host memory stays there."""
    case = arrays.case
    plan = plan_for(case.kernel.name, arrays.descs, case.attrs, device)
    if device.accepts("cpu"):
        plan.launch(arrays.pointers)
    else:
        _run_away(arrays, device, plan)


def compile_for(kernel: KernelSpec, arch: str) -> Compiled:
    """Build a cubin for each choice of type variables, from the kernel's own cases."""
    props = arch_props(arch)
    sizes: dict[str, int] = {}
    for case in cases_for(kernel):
        name = ",".join(case.types.values()) or "-"
        if name in sizes or case.empty:
            continue
        try:
            bound = match(kernel, make_arrays(case).descs, case.attrs, props)
            if isinstance(bound, Refusal):
                return Compiled(kernel, arch, {}, turned_down=explain(bound))
            sizes[name] = len(build(make_problem(bound, props), "cubin").data)
        except Ge2rtError as fault:
            return Compiled(kernel, arch, sizes, fault=f"{case}: {fault}")
    return Compiled(kernel, arch, sizes)


def _run_away(arrays: CaseArrays, device: Device, plan: Plan) -> None:
    """Run where host memory is not the device's: copy all memory there and back."""
    placed: dict[int, int] = {}
    laid = {id(b.memory): b for b in arrays.buffers.values()}
    for key, buffer in laid.items():
        placed[key] = device.memory.allocate(max(buffer.memory.nbytes, 1))
        device.memory.write(placed[key], buffer.memory.tobytes())
    names = [spec.name for spec in arrays.case.kernel.buffers]
    pointers = [_moved(arrays.buffers[n], placed) if n in arrays.buffers else 0 for n in names]
    plan.launch(pointers)
    device.synchronize()
    for key, buffer in laid.items():
        data = device.memory.read(placed[key], buffer.memory.nbytes)
        buffer.memory.reshape(-1).view("u1")[:] = memoryview(data)
        device.memory.free(placed[key])


def _moved(buffer: Laid, placed: Mapping[int, int]) -> int:
    """The device address of a view's first element."""
    if not buffer.address:
        return 0
    home = int(buffer.memory.__array_interface__["data"][0])
    return placed[id(buffer.memory)] + buffer.address - home
