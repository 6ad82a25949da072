"""Each form that NVRTC was seen to emit is lowered, or stands in the short list of refusals."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ge2rt.ptx.lower import lower_kernel
from ge2rt.ptx.native import LowerOptions
from ge2rt.ptx.parse import parse_module

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "ptx" / "harvest.txt"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


coverage = script("ptx_coverage")
LINES = [line.split("  ", 1) for line in GOLDEN.read_text().splitlines()]


def opcodes() -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for archs, example in LINES:
        newest = max(map(int, archs.split(",")))
        found.setdefault(coverage.form_of(example).split(".")[0], []).append((newest, example))
    return found


@pytest.mark.parametrize("opcode", sorted(opcodes()))
def test_machine_code_comes_of_every_form(opcode: str) -> None:
    groups: dict[str, list[tuple[int, str]]] = {}
    for arch, example in opcodes()[opcode]:
        if not coverage.refusal(coverage.form_of(example)):
            groups.setdefault(coverage.space_of(example), []).append((arch, example))
    for members in groups.values():
        text = coverage.module_with([e for _, e in members], max(a for a, _ in members))
        made = lower_kernel(parse_module(text), "k", LowerOptions((64, 1, 1), opt_level=0))
        assert made.object_code


@pytest.mark.parametrize("opcode", sorted(opcodes()))
def test_every_harvested_form_lowers(opcode: str) -> None:
    faults = {}
    for arch, example in opcodes()[opcode]:
        if not coverage.refusal(coverage.form_of(example)):
            fault = coverage.fault_of(example, arch)
            if fault:
                faults[example] = fault
    assert not faults


def test_the_harvest_is_large_and_covers_all_architectures() -> None:
    assert len(LINES) > 1000
    assert {int(a) for archs, _ in LINES for a in archs.split(",")} >= {75, 80, 90}


@pytest.mark.parametrize("example", ["setmaxnreg.inc.sync.aligned.u32 64;",
                                     "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2}];",
                                     "cp.async.bulk.commit_group;",
                                     "wgmma.fence.sync.aligned;"])  # fmt: skip
def test_refusals_name_the_form_and_the_line(example: str) -> None:
    fault = coverage.fault_of(example, 90)
    assert coverage.refusal(coverage.form_of(example))
    assert "-3" in fault or "needs" in fault
    assert "ptx:9" in fault


def test_the_table_shows_every_form() -> None:
    table = (ROOT / "docs" / "ptx-coverage.md").read_text()
    missing = {f for _, e in LINES if f"`{(f := coverage.form_of(e))}`" not in table}
    assert not missing
    assert "| gap:" not in table
