"""``ge2rt check`` and ``ge2rt build`` where they compile and run: tables, faults, exit statuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ge2rt
from ge2rt.cli import main as entry
from ge2rt.run import cases

DECLARATION = """\
api_version: 1
kernels:
  - name: twice
    op: TWICE
    template: twice.cu.j2
    score: 1
    inputs: [{name: x, dtype: f32, shape: [N]}]
    outputs: [{name: y, dtype: f32, shape: [N]}]
    launch: {grid: ["ceildiv(N, 256)"], block: [256]}
    reference: "2 * x"
"""
TEMPLATE = """\
{# doubles #}
extern "C" __global__ void {{ kernel }}({{ params }}) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < {{ N }}) y[i * {{ y.strides[0] }}] = 2.0f * x[i * {{ x.strides[0] }}];
}
"""


@pytest.fixture
def check(monkeypatch, capsys, tmp_path):
    """Run ``ge2rt check`` on a declaration and a template; (exit status, stdout, stderr)."""
    ge2rt.clear_caches()
    monkeypatch.setattr(cases, "QUICK", 8)
    monkeypatch.chdir(tmp_path)

    def run(*args, declaration=DECLARATION, template=TEMPLATE):
        (tmp_path / "mine.yaml").write_text(declaration)
        (tmp_path / "twice.cu.j2").write_text(template)
        monkeypatch.setattr(sys, "argv", ["ge2rt", "check", "mine.yaml", "--device", "cpu", *args])
        with pytest.raises(SystemExit) as status:
            entry.main()
        out, err = capsys.readouterr()
        return status.value.code or 0, out, err

    yield run
    ge2rt.clear_caches()


def test_a_good_kernel_passes(check):
    status, out, err = check()
    assert (status, err) == (0, "")
    assert "left out" in out.splitlines()[0]
    name, count, passed, not_plain, left_out, _ = out.splitlines()[1].split()
    assert (name, count, left_out) == ("twice", passed, "0")
    assert int(not_plain) * 2 >= int(count) >= 8
    assert out.splitlines()[-1] == f"{count} of {count} cases passed on cpu under checks: memory"


def test_a_wrong_reference_is_a_fault_with_the_case(check):
    status, out, _ = check(declaration=DECLARATION.replace("2 * x", "3 * x"))
    assert status == 1
    assert "twice(x:" in out
    assert "wrong, first at (0,)" in out
    assert "more cases" in out


def test_a_reference_that_fails_is_a_fault_too(check):
    status, out, err = check(declaration=DECLARATION.replace("2 * x", "x @ 1"))
    assert status == 1
    assert "expression 'x @ 1', column 1: matmul" in out
    assert err == ""


def test_compile_errors_point_at_the_template(check):
    status, out, _ = check("--arch", "sm_80", "--compile-only",
                           template=TEMPLATE.replace("2.0f", "two"))  # fmt: skip
    assert status == 1
    assert "twice.cu.j2:4:" in out
    assert 'identifier "two" is undefined' in out
    assert "0 of 1 compiled, 0 turned down, 1 faulty" in out
    assert "cases" not in out


def test_the_run_shows_compile_errors_too(check):
    status, out, _ = check(template=TEMPLATE.replace("2.0f", "two"))
    assert status == 1
    assert "twice.cu.j2:4" in out


def test_out_of_bounds_beside_a_view_is_seen(check):
    status, out, _ = check(template=TEMPLATE.replace("y[i *", "y[1] = y[i *"))
    assert status == 1
    assert "wrong" in out or "memory beside the output was written" in out


def test_an_access_behind_the_end_is_found(check):
    late = TEMPLATE.replace("i < {{ N }}", "i <= {{ N }}")
    status, out, _ = check(template=late)
    assert status == 1
    assert "reads 4 bytes directly past the end of input x" in out
    # without the checks the guards behind the buffer tell
    status, out, _ = check("--checks", "none", template=late)
    assert status == 1
    assert "y: memory beside the output was written" in out
    assert out.splitlines()[-1].endswith("cases passed on cpu")


def test_a_written_input_is_a_fault(check):
    wrong = TEMPLATE.replace(") y[", ") ((float*)x)[i * {{ x.strides[0] }}] += 1.0f, y[").replace(
        "2.0f * x[i * {{ x.strides[0] }}]", "2.0f * (x[i * {{ x.strides[0] }}] - 1.0f)"
    )
    status, out, _ = check("--checks", "none", template=wrong)
    assert status == 1
    assert "x: the input was written" in out


def test_a_kernel_that_kills_its_process_does_not_end_the_check(check):
    other = DECLARATION + DECLARATION.partition("kernels:\n")[2].replace("twice", "wild").replace(
        "template: wild", "template: twice"
    )
    deadly = TEMPLATE.replace(
        "  int i", "  {% if 'wild' in kernel %}*(volatile int*)64 = 1;{% endif %}\n  int i"
    )
    status, out, _ = check("--checks", "none", declaration=other, template=deadly)
    assert status == 1
    assert "wild(x:" in out
    assert "the process died of SIGSEGV" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines()[1:3]}
    assert rows["twice"][1] == rows["twice"][2]
    assert rows["wild"][2] == "0"
    assert "wild: its process died 2 times; the other cases were left out" in out


def test_a_kernel_without_a_reference_is_only_compiled(check):
    plain = DECLARATION.replace('    reference: "2 * x"\n', "")
    status, out, _ = check(declaration=plain)
    assert status == 0
    assert out.count("twice: no reference: compiled only") == 1
    status, out, _ = check(declaration=plain, template=TEMPLATE.replace("2.0f", "two"))
    assert status == 1
    assert 'identifier "two" is undefined' in out


def test_no_case_at_all_is_a_fault(check):
    never = DECLARATION + '    requires: ["N < 0  # more than nothing"]\n'
    status, out, _ = check(declaration=never)
    assert status == 1
    assert "twice: no case can be made: more than nothing" in out


def test_one_compile_error_is_told_once(check):
    status, out, _ = check(template=TEMPLATE.replace("2.0f", "two"))
    assert status == 1
    assert out.count('identifier "two" is undefined') == 1
    name, _, passed, *_ = out.splitlines()[1].split()
    assert (name, passed) == ("twice", "0")  # cases without elements prove nothing
    assert out.count("twice: cases left out: nothing to compute, and no other case passes") == 1
    assert "turned down" not in out


def test_archs_that_a_kernel_does_not_admit_are_told(check):
    text = DECLARATION + '    requires: ["cc >= 8.0"]\n'
    status, out, _ = check("--arch", "sm_75,sm_80,sm_90,sm_120", "--compile-only", declaration=text)
    assert status == 0
    assert out.splitlines()[1].split(None, 1)[1].split("  ")[0] == "-"
    assert "twice for sm_75: turned down" in out
    assert "cc >= 8.0, got cc = 7.5" in out
    assert "3 of 4 compiled, 1 turned down, 0 faulty" in out


def test_full_runs_more_cases(check, monkeypatch):
    monkeypatch.setattr(cases, "FULL", 20)
    quick, full = (int(check(*args)[1].splitlines()[1].split()[1]) for args in ((), ("--full",)))
    assert full > quick


def test_a_file_that_is_registered_already_is_checked_again(check, monkeypatch, tmp_path):
    assert check()[0] == 0
    monkeypatch.setenv("GE2RT_REGISTRY", "mine.yaml")
    ge2rt.clear_caches()
    assert check()[0] == 0


@pytest.mark.parametrize(("emit", "magic"), [("ptx", b"//\n// Generated"), ("cubin", b"\x7fELF")])
def test_build_writes_what_nvrtc_gives(monkeypatch, capsys, tmp_path, emit, magic):
    args = ["build", "softmax", "f32[4,100]", "--emit", emit, "-o", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["ge2rt", *args, "--arch", "sm_80,sm_90"])
    with pytest.raises(SystemExit) as status:
        entry.main()
    assert not status.value.code
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"softmax.sm_80.{emit}", f"softmax.sm_90.{emit}"]
    assert all(path.read_bytes().startswith(magic) for path in tmp_path.iterdir())
    assert capsys.readouterr().out.count(" bytes\n") == 2


def test_doctor_finds_a_working_machine(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ge2rt", "doctor"])
    with pytest.raises(SystemExit) as status:
        entry.main()
    out = capsys.readouterr().out
    assert not status.value.code, out
    assert "the copy kernel runs on the cpu device" in out
    assert "a small kernel compiles to a cubin" in out


def test_cache_explain_tells_hit_and_miss(monkeypatch, capsys):
    def explain(*args):
        monkeypatch.setattr(sys, "argv", ["ge2rt", "cache", "explain", *args])
        with pytest.raises(SystemExit) as status:
            entry.main()
        assert not status.value.code
        return capsys.readouterr().out

    monkeypatch.setattr(sys, "argv", ["ge2rt", "build", "rmsnorm", "f32[3,52]", "--emit", "ptx",
                                      "-o", "-", "--arch", "sm_86"])  # fmt: skip
    with pytest.raises(SystemExit):
        entry.main()
    capsys.readouterr()
    assert explain("rmsnorm", "f32[3,52]", "--arch", "sm_86") == "this call is in the cache\n"
    other = explain("rmsnorm", "f32[3,52]", "--arch", "sm_89")
    assert other.splitlines()[0] == "not in the cache; the nearest entry differs in"
    assert "arch: 'sm_86' there, 'sm_89' here" in other


def test_a_folder_named_like_the_library_is_not_taken_for_it(tmp_path: Path) -> None:
    """The process that runs the cases imports what this one did, not what lies where it runs."""
    (tmp_path / "ge2rt").mkdir()
    (tmp_path / "ge2rt" / "__init__.py").write_text("raise SystemExit('the wrong library')\n")
    script = Path(sys.executable).with_name("ge2rt")
    done = subprocess.run(
        [script, "check", "--device", "cpu", "--kernel", "fill"], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cases passed on cpu" in done.stdout


def test_results_are_told_as_they_come_where_no_bar_is_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ge2rt.cli.check._FEW", 0)
    monkeypatch.setattr(sys, "argv", ["ge2rt", "check", "--device", "cpu", "--kernel", "slice_bwd"])
    with pytest.raises(SystemExit) as done:
        entry.main()
    assert done.value.code == 0
    assert re.search(r"^slice_bwd: (\d+) of \1 passed$", capsys.readouterr().err, re.MULTILINE)
