"""Good programs are not reported: shipped kernels, the oracle's programs and the corpus.

The day chooses a slice; ``--full`` takes all.
"""

from __future__ import annotations

import datetime

import numpy as np
from cases import TRAPS, trap
from corpus.program import Program
from corpus.program import programs as corpus_programs
from corpus.run import Buffer, compile_program, pack
from cpu.checked_run import checking, run_text, spans_of
from oracle.programs import copies
from oracle.programs import programs as oracle_programs

import ge2rt
from ge2rt.base.errors import UnsupportedError
from ge2rt.device.api import LaunchShape
from ge2rt.device.cpu import CpuDevice
from ge2rt.device.registry import get_device
from ge2rt.run.cases import cases_for
from ge2rt.run.check import run_case
from ge2rt.spec.registry import default_registry

# A table of pointers holds addresses of arrays that nobody else knows.
UNKNOWN_MEMORY = {"batched_gemm"}
# Barriers of a part of the block, recursion: checks refuse them by name.
REFUSED = ("checks of", "waits for one")


def today(count: int, wanted: int, full: bool) -> list[int]:
    order = np.random.default_rng(datetime.date.today().toordinal()).permutation(count)
    return sorted(order.tolist() if full else order[:wanted].tolist())


def test_shipped_kernels(full):
    registry = default_registry()
    chosen = []
    names = registry.names()
    for name in (names[k] for k in today(len(names), 6, full)):
        cases = cases_for(registry.get(name))
        chosen += [cases[k] for k in today(len(cases), 1, full)]
    chosen += [trap(TRAPS[k], k) for k in today(len(TRAPS), 4, full)]
    with checking():
        outcomes = [run_case(case, get_device("cpu")) for case in chosen]
    ge2rt.clear_caches()
    assert [f"{o.case}: {o.faults}" for o in outcomes if o.faults] == []
    assert sum(not o.skipped for o in outcomes) > 6


def test_programs_of_the_oracle(full):
    everything = oracle_programs()
    ran, device = 0, CpuDevice()
    for k in today(len(everything), 15, full):
        program = everything[k]
        before = program.arguments()
        after = copies(before)
        try:
            with checking(SEED=k):
                run_text(
                    program.source, device, after, grid=program.grid, block=program.block,
                    shared=program.shared_bytes, entry=program.entry,
                    arch=program.arch.replace("compute", "sm"), name=f"{program.name}.cu",
                )  # fmt: skip
        except UnsupportedError:
            continue
        program.check(before, after)
        ran += 1
    assert ran > 5


def run_program(program: Program, device: CpuDevice) -> None:
    before = program.data()
    binary = compile_program(program, 80)
    module = device.load(binary.data, "ptx", binary.key.digest)
    buffers = {n: Buffer(v) for n, v in before.items() if isinstance(v, np.ndarray)}
    spans = spans_of([b.array for b in buffers.values()])
    for launch in program.launches:
        function = module.function(binary.lowered.get(launch.entry, launch.entry))
        grid, block = ((*d, 1, 1)[:3] for d in (launch.grid, launch.block))
        values = [buffers[n] if n in buffers else before.get(n) for n in launch.args.split()]
        call = function.launcher(LaunchShape(grid, block, launch.shared)).watching(spans)
        for _ in range(launch.repeat):
            call(pack(values, function.param_layout), 0)
    arrays = {n: buffers[n].array if n in buffers else v for n, v in before.items()}
    program.check(before, arrays)


def test_programs_of_the_corpus(full):
    everything = [
        p for p in corpus_programs()
        if 80 in p.archs and not p.gap and not p.symbols and p.name not in UNKNOWN_MEMORY
    ]  # fmt: skip
    device, gaps = CpuDevice(), []
    for k in today(len(everything), 5, full):
        with checking(SEED=k):
            try:
                run_program(everything[k], device)
            except UnsupportedError as gap:
                gaps.append(str(gap))
    assert [gap for gap in gaps if not any(text in gap for text in REFUSED)] == []
