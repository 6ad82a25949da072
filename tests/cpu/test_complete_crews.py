"""Kernels that need no crew give the same answers when they run as one."""

from __future__ import annotations

import numpy as np
import pytest
from cpu.native_run import load, ptx_of, run
from cpu.random_ptx import REGISTERS, Maker
from oracle.programs import CudaProgram, copies, programs


@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_program_in_turn(program: CudaProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ge2rt.ptx.lower.needs_crew", lambda flow, geometry: True)
    ptx = ptx_of(program.source, *program.options, arch=program.arch)
    kernel = load(ptx, program.entry, program.block)
    assert any("mode crew" in note for note in kernel.kernel.notes)
    before = program.arguments()
    after = copies(before)
    assert kernel(program.grid, after, program.shared_bytes) == 0
    program.check(before, after)


@pytest.mark.parametrize("loops", ["as they are", "all wait"])
@pytest.mark.parametrize("kind", ["plain", "wild", "barriers"])
def test_random_control_flow_in_turn(
    kind: str, loops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where every loop goes on with the lanes that left it, as if the others waited."""
    monkeypatch.setattr("ge2rt.ptx.lower.needs_crew", lambda flow, geometry: True)
    for seed in range(40, 42 if kind == "barriers" else 43):
        source = Maker(seed, barriers=kind == "barriers", wild=kind == "wild").kernel()
        block = (77, 64, 33)[seed % 3]
        x = np.random.default_rng(seed).integers(0, 2**32, 2 * block, dtype="u4")
        found = []
        for lanes in (1, 32):
            with monkeypatch.context() as patch:
                for room in ("kinds", "walk", "crews") if loops == "all wait" else ():
                    patch.setattr(f"ge2rt.ptx.lower.{room}.waiting_loops", lambda flow: flow.loops)
                out = np.zeros(2 * block * REGISTERS, "u4")
                assert run(source, "k", (2,), (block,), [out, x, np.uint32(7)], lanes) == 0
            found.append(out)
        np.testing.assert_array_equal(found[1], found[0], err_msg=f"seed {seed}")
