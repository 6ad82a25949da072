from __future__ import annotations

import pytest
from oracle.nvrtc_ptx import compile_ptx
from oracle.programs import CudaProgram, copies, programs
from oracle.ptx_interp import run

pytest.importorskip("cupy", reason="NVRTC comes through CuPy's wheels")


@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_program_gives_the_numpy_answer(program: CudaProgram) -> None:
    ptx = compile_ptx(program.source, program.arch, program.options)
    before = program.arguments()
    after = copies(before)
    run(ptx, program.entry, program.grid, program.block, after, program.shared_bytes)
    program.check(before, after)


def test_list_is_long_and_its_names_differ() -> None:
    names = [program.name for program in programs()]
    assert len(names) == len(set(names)) >= 30


@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_check_refuses_untouched_outputs(program: CudaProgram) -> None:
    before = program.arguments()
    with pytest.raises(AssertionError, match=program.name):
        program.check(before, copies(before))
