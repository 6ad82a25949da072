"""The list of CUDA programs, straight through the lowering, with warps of 32 lanes and of one."""

from __future__ import annotations

import pytest
from cpu.native_run import load, ptx_of
from oracle.programs import CudaProgram, copies, programs


def _run(program: CudaProgram, lanes: int) -> None:
    ptx = ptx_of(program.source, *program.options, arch=program.arch)
    kernel = load(ptx, program.entry, program.block, lanes)
    before = program.arguments()
    after = copies(before)
    assert kernel(program.grid, after, program.shared_bytes) == 0
    program.check(before, after)


@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_program(program: CudaProgram) -> None:
    _run(program, 32)
