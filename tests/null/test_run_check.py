"""Which cases are run, and what those count for that have nothing to compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest
from spec_files import one_kernel

import ge2rt
from ge2rt.base import switches
from ge2rt.base.errors import UnsupportedError
from ge2rt.cli import check as command
from ge2rt.device.null import NullDevice
from ge2rt.device.registry import get_device
from ge2rt.run import cases as drawing
from ge2rt.run import check as running
from ge2rt.run.case_arrays import CaseArrays
from ge2rt.run.cases import Case, cases_for, why_none
from ge2rt.run.check import NOTHING_RAN, Outcome, chosen, settle
from ge2rt.spec.model import KernelSpec
from ge2rt.spec.registry import default_registry


@pytest.fixture
def kernel(tmp_path: Path) -> KernelSpec:
    return one_kernel(tmp_path, reference="X")


@pytest.mark.parametrize("name", default_registry().names())
def test_every_dtype_is_among_the_quick_cases_with_something_to_compute(name: str) -> None:
    spec = default_registry().get(name)
    cases = [case for case in cases_for(spec) if not case.empty]
    for variable, dtypes in spec.types.items():
        assert {case.types[variable] for case in cases} == set(dtypes)


def test_a_dtype_that_few_attributes_admit_is_drawn_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "QUICK", 4)
    spec = one_kernel(
        tmp_path, reference="X", types="{T: [f32, bool]}",
        attrs="{level: {type: int, default: 0, min: 0, max: 60}}",
        requires="[\"T != 'bool' or level == 7\"]",
    )  # fmt: skip
    assert any(case.types["T"] == "bool" for case in cases_for(spec))


def test_without_a_reference_one_case_for_each_dtype_is_chosen(kernel: KernelSpec) -> None:
    assert len(chosen(kernel)) == len(cases_for(kernel)) > 8
    few = chosen(replace(kernel, reference=None))
    assert sorted(case.types["T"] for case in few) == ["f16", "f32"]
    assert not any(case.empty for case in few)


def test_why_there_is_no_case(tmp_path: Path) -> None:
    spec = one_kernel(tmp_path, requires='["1 > 2  # never"]')
    assert cases_for(spec) == []
    assert why_none(spec) == "never"


def test_cases_with_nothing_to_compute_need_one_that_ran(kernel: KernelSpec) -> None:
    case: Case = cases_for(kernel)[0]
    empty = Outcome(case, (), 0.0, compiled=False)
    passed, failed = Outcome(case, (), 0.0), Outcome(case, ("fault",), 0.0)
    assert settle([empty, passed]) == [empty, passed]
    for others in ([failed], []):
        assert settle([empty, *others]) == [replace(empty, skipped=NOTHING_RAN), *others]


def test_a_kernel_that_has_no_checks_runs_without_them(
    kernel: KernelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(arrays: CaseArrays, device: object) -> None:
        if switches.get("GE2RT_CHECK"):
            raise UnsupportedError("no checks of recursion", next_step="unset GE2RT_CHECK")
        if broken:
            raise UnsupportedError("no recursion", next_step="write a loop")
        arrays.buffers["Y"].view[...] = arrays.buffers["X"].view

    monkeypatch.setattr(running, "execute", execute)
    case = cases_for(kernel)[0]
    with switches.setting("GE2RT_CHECK", "memory"):
        broken = False
        outcome = running.run_case(case, get_device("cpu"))
        assert (outcome.faults, outcome.note) == ((), "ran without checks: no checks of recursion")
        broken = True
        assert "no recursion" in running.run_case(case, get_device("cpu")).faults[0]


def test_where_a_check_runs_and_under_which_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GE2RT_CHECK", raising=False)
    ge2rt.register_device("null", lambda index: NullDevice())
    every = ",".join(switches.CHECKS)
    rows = [
        ("cpu", "", True, "memory"), ("cpu", "", False, None), ("cpu", "none", True, ""),
        ("cpu", "race", False, "race"), ("auto", "all", True, every), ("null", "", True, None),
    ]  # fmt: skip
    for name, checks, own, wanted in rows:
        device, setting = command._where(name, checks, own)
        assert (setting, device.name) == (wanted, "null" if name == "null" else "cpu")
    monkeypatch.setenv("GE2RT_CHECK", "race")
    assert command._where("cpu", "", True)[1] is None
    with pytest.raises(click.UsageError, match="on the cpu device only"):
        command._where("null", "memory", True)
