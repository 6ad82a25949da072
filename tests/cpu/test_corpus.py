"""Each corpus program on the CPU device against NumPy.

A plain run takes one architecture a program, chosen by the name and ``CORPUS_SEED``, so that runs
with different seeds cover all; ``--full`` takes all architectures.
"""

from __future__ import annotations

import os
import zlib

import pytest
from corpus.program import FOLDER, Program, programs
from corpus.run import compile_program, run

from ge2rt.base.errors import UnsupportedError
from ge2rt.device.cpu import CpuDevice
from ge2rt.ptx.parse import parse_module

_SEED = int(os.environ.get("CORPUS_SEED", "0"))
_ALL = programs()


def _one_arch(program: Program) -> int:
    archs = program.archs
    return archs[(zlib.crc32(program.name.encode()) + _SEED) % len(archs)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"program", "arch"} <= set(metafunc.fixturenames):
        full = metafunc.config.getoption("--full")
        cases = [(p, a) for p in _ALL for a in (p.archs if full else (_one_arch(p),))]
        metafunc.parametrize(("program", "arch"), cases, ids=[f"{p.name}-{a}" for p, a in cases])


def test_program_gives_the_numpy_answer(
    program: Program, arch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GE2RT_CPU_ARCH", f"sm_{arch}")
    before = program.data(_SEED)
    if program.gap:
        with pytest.raises(UnsupportedError, match=program.gap):
            run(program, CpuDevice(), arch, before)
    else:
        program.check(before, run(program, CpuDevice(), arch, before))


@pytest.mark.parametrize("program", _ALL, ids=lambda p: p.name)
def test_untouched_buffers_are_refused(program: Program) -> None:
    before = program.data()
    with pytest.raises(AssertionError):
        program.check(before, program.data())


def test_the_corpus_is_large() -> None:
    names = [p.name for p in _ALL]
    lines = {p.name: sum(bool(t.strip()) for t in p.source.splitlines()) for p in _ALL}
    assert len(names) == len(set(names)) >= 60
    assert sum(n > 40 for n in lines.values()) >= 30
    assert sum(bool(p.follows) for p in _ALL) >= 15
    assert {p.stem for p in FOLDER.glob("*.cu")} == set(names)


def test_the_corpus_has_many_forms(capsys: pytest.CaptureFixture[str]) -> None:
    forms: set[str] = set()
    for program in _ALL:
        text = compile_program(program, _one_arch(program)).data.decode()
        for function in parse_module(text).functions.values():
            forms.update(instr.form for block in function.blocks for instr in block.instrs)
    with capsys.disabled():
        print(f"\ncorpus: {len(_ALL)} programs, {len(forms)} distinct PTX forms")
    assert len(forms) >= 150
