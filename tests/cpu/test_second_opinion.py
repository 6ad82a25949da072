"""The same PTX on the CPU device at each width and on the interpreter, for three architectures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cases import shipped
from cpu.native_run import load, ptx_of
from cpu.test_kernels_oracle import launches, run_on_oracle, scalar
from oracle.programs import CudaProgram, copies, programs
from oracle.ptx_interp import Oracle

from ge2rt.base.errors import UnsupportedError
from ge2rt.build.problem import make_problem
from ge2rt.build.records import Problem
from ge2rt.build.render import render
from ge2rt.run.case_arrays import CaseArrays, make_arrays
from ge2rt.run.cases import Case, cases_for

KERNELS = {kernel.name: kernel for kernel in shipped()}
ARCHES = ("compute_75", "compute_80", "compute_90")
LARGEST = 3000  # elements of a buffer: the interpreter is slow
WIDTHS = (32, 16, 8, 1)


def small_cases(name: str, full: bool) -> list[Case]:
    return [case for case in cases_for(KERNELS[name], full)
            if max(int(np.prod(s)) for s in case.shapes.values()) <= LARGEST
            and not make_arrays(case).is_empty]  # fmt: skip


def specialised(case: Case, arch: str, static: bool) -> tuple[CaseArrays, Problem, str]:
    arrays = make_arrays(case)
    sm = arch.replace("compute", "sm")
    props = SimpleNamespace(kind="cpu", arch=sm, cc=int(arch[-2:]) / 10, tensor_cores=True)
    aligned = all(place % 16 == 0 for place in arrays.pointers)
    problem = make_problem(arrays.bound, props, aligned=aligned, static=static)
    return arrays, problem, render(problem).text


def on_the_device(
    ptx: str, entry: str, arrays: CaseArrays, problem: Problem, lanes: int
) -> list[str]:
    args: list[Any] = []
    room = np.full(problem.workspace + 256, 0x4B, np.uint8)
    scratch = room.ctypes.data + -room.ctypes.data % 256
    for slot in problem.args:
        if slot.kind == "pointer":
            laid = arrays.buffers[slot.name]
            args.append(np.uint64(laid.address + slot.offset if laid.address else 0))
        else:
            place = slot.kind == "workspace"
            args.append(np.uint64(scratch + slot.offset) if place else scalar(slot))
    for name, launch in launches(entry, problem):
        try:
            kernel = load(ptx, name, launch.block, lanes)
        except UnsupportedError:
            assert lanes != 32, "a full warp runs everything that ships"
            return []
        assert kernel(launch.grid, args, launch.shared) == 0
    return arrays.faults()


def on_the_oracle(ptx: str, entry: str, arrays: CaseArrays, problem: Problem) -> list[str]:
    run_on_oracle(Oracle(ptx), entry, arrays, problem)
    return arrays.faults()


@pytest.mark.daily(12)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, full: bool) -> None:
    """Each width, both forms and all architectures; a few of them without ``--full``."""
    number = list(KERNELS).index(name)
    cases = small_cases(name, full)
    chosen = cases if full else cases[number % min(5, len(cases)) :: 7][:2]
    assert chosen
    for at, case in enumerate(chosen, number):
        static, arch = at % 2 == 0, ARCHES[at // 2 % 3]
        widths = WIDTHS if full else (WIDTHS[at % 4],)
        for lanes in widths:
            arrays, problem, source = specialised(case, arch, static)
            entry = render(problem).entry
            ptx = ptx_of(source, arch=arch)
            told = f"{case} for {arch}, {lanes} lanes, static={static}"
            assert on_the_device(ptx, entry, arrays, problem, lanes) == [], told
        if full or arch != "compute_80":  # that one: tests/cpu/test_kernels_oracle.py
            arrays, problem, source = specialised(case, arch, static)
            assert on_the_oracle(ptx, entry, arrays, problem) == [], f"{case} for {arch}: oracle"


@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_programs(program: CudaProgram, full: bool) -> None:
    """Each width, each architecture that has the program's instructions."""
    least = int(program.arch.removeprefix("compute_"))
    arches = [a for a in ARCHES if int(a.removeprefix("compute_")) >= least]
    number = [p.name for p in programs()].index(program.name)
    for arch in arches if full else [arches[number % len(arches)]]:
        ptx = ptx_of(program.source, *program.options, arch=arch)
        for lanes in WIDTHS if full else (WIDTHS[1 + number % 3],):
            before = program.arguments()
            after = copies(before)
            try:
                kernel = load(ptx, program.entry, program.block, lanes)
            except UnsupportedError as error:
                assert lanes != 32, error  # noqa: PT017 - only narrow warps may lack something
                continue
            assert kernel(program.grid, after, program.shared_bytes) == 0
            program.check(before, after)
