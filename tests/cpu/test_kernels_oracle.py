"""The shipped kernels on the PTX interpreter, which shares nothing with ge2rt/ptx."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cases import shipped
from oracle.nvrtc_ptx import compile_ptx
from oracle.ptx_interp import Oracle

from ge2rt.build.problem import make_problem
from ge2rt.build.render import render
from ge2rt.run.case_arrays import make_arrays
from ge2rt.run.cases import cases_for

KERNELS = {kernel.name: kernel for kernel in shipped()}
FORMATS = {"i": "i4", "q": "i8", "f": "f4", "d": "f8", "?": "?"}
LARGEST = 5000  # elements of a buffer


def interpret(case, kind, static):
    """Faults of a case after its PTX was interpreted."""
    arrays = make_arrays(case)
    props = SimpleNamespace(kind=kind, arch="sm_80", cc=8.0, tensor_cores=True)
    aligned = all(pointer % 16 == 0 for pointer in arrays.pointers)
    problem = make_problem(arrays.bound, props, aligned=aligned, static=static)
    source = render(problem)
    run_on_oracle(Oracle(compile_ptx(source.text)), source.entry, arrays, problem)
    return arrays.faults()


def run_on_oracle(program, entry, arrays, problem):
    """All launches of a problem, with a workspace that holds no zeros at first."""
    scratch = np.full(problem.workspace + 1, 0x4B, np.uint8)
    args = [scalar(slot) if slot.kind == "scalar" else
            (scratch, slot.offset) if slot.kind == "workspace" else pointer(arrays, slot)
            for slot in problem.args]  # fmt: skip
    for name, launch in launches(entry, problem):
        program.launch(name, launch.grid, launch.block, args, shared_bytes=launch.shared)


def launches(entry, problem):
    """(function's name, geometry) of each launch that takes place."""
    return [(entry + f"_{launch.entry}" * bool(launch.entry), launch)
            for launch in problem.launches if launch.wanted]  # fmt: skip


def pointer(arrays, slot):
    laid = arrays.buffers[slot.name]
    start = laid.address - int(laid.memory.ctypes.data) if laid.view.size else 0
    return laid.memory, start + slot.offset


def scalar(slot):
    return np.dtype(FORMATS[slot.format]).type(slot.value)


@pytest.mark.daily(12)
@pytest.mark.parametrize("name", KERNELS)
def test_on_the_oracle(name, full):
    cases = [case for case in cases_for(KERNELS[name], full)
             if max(int(np.prod(s)) for s in case.shapes.values()) <= LARGEST
             and not make_arrays(case).is_empty]  # fmt: skip
    wanted = cases if full else cases[:: max(len(cases) // 4, 1)][:4]
    assert len(wanted) >= 2
    variants = [("cuda", True), ("cpu", False), ("cuda", False), ("cpu", True)]
    for number, case in enumerate(wanted):
        kind, static = variants[number % 4]
        assert interpret(case, kind, static) == [], f"{case} for {kind}, static={static}"
