"""The command line where nothing has to be compiled: help, listings, errors, the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ge2rt
from ge2rt.build import store
from ge2rt.build.records import Key
from ge2rt.cli import main as entry
from ge2rt.run import diagnose


@pytest.fixture
def ge2rt_cli(monkeypatch, capsys):
    """Run ``ge2rt ARGS``; (exit status, stdout, stderr)."""
    ge2rt.clear_caches()

    def run(*args, columns=""):
        monkeypatch.setattr(sys, "argv", ["ge2rt", *args])
        monkeypatch.setenv("COLUMNS", columns)
        with pytest.raises(SystemExit) as status:
            entry.main()
        out, err = capsys.readouterr()
        return status.value.code or 0, out, err

    yield run
    ge2rt.clear_caches()


def test_help_lists_every_command_and_imports_no_room():
    code = (
        "import sys; sys.argv = ['ge2rt', '--help']\n"
        "from ge2rt.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'rich', 'yaml', 'jinja2', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for command in entry.COMMANDS:
        assert f"  {command} " in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", list(entry.COMMANDS))
def test_each_command_has_help(ge2rt_cli, command):
    status, out, _ = ge2rt_cli(command, "--help")
    assert status == 0
    assert "Usage:" in out


def test_version(ge2rt_cli):
    assert ge2rt.__version__ in ge2rt_cli("--version")[1]


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "ge2rt", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"python -m ge2rt, version {ge2rt.__version__}\n"


@pytest.mark.parametrize("command", ["capability", "render", "build"])
def test_help_tells_how_a_call_is_written(ge2rt_cli, command):
    out = " ".join(ge2rt_cli(command, "--help")[1].split())
    assert "f32[128:1,64:128]; - for an absent optional one" in out


@pytest.mark.parametrize("columns", ["40", "60", "80", "120", ""])
def test_names_are_never_cut(ge2rt_cli, columns):
    status, out, _ = ge2rt_cli("kernels", columns=columns)
    assert status == 0
    for name in ge2rt.query_kernels():
        assert sum(line.startswith(name + " ") for line in out.splitlines()) == 1, out
    assert "…" not in out
    if columns:
        assert max(map(len, out.splitlines())) <= int(columns)


def test_a_pipe_gets_one_line_a_kernel(ge2rt_cli):
    lines = ge2rt_cli("kernels")[1].splitlines()
    assert len(lines) == 1 + len(ge2rt.query_kernels())
    assert any("softmax of scale" in line and line.startswith("softmax") for line in lines)


def test_op_types_list_their_kernels_best_first(ge2rt_cli):
    out = ge2rt_cli("kernels", "--op")[1]
    row = next(line for line in out.splitlines() if line.startswith("GEMM_BIAS_ACT "))
    assert row.split(None, 1)[1].strip() == (
        "gemm_bias_act_f32 (80), gemm_bias_act_tc_f16 (40), gemm_bias_act_f32_ex (30), "
        "gemm_bias_act_any_ex (20)"
    )


def test_one_kernel_shows_its_declaration(ge2rt_cli):
    out = ge2rt_cli("kernels", "gemm_bias_act_f32")[1]
    for text in ("input     A: f32[M, K]", "bias: f32[*SBIAS] (optional)", "requires  cc >= 7.0",
                 "one of none relu", "block     gemm_basic", "kernels.yaml:"):  # fmt: skip
        assert text in out


def test_capability_without_descs_is_the_plain_table(ge2rt_cli):
    out = ge2rt_cli("capability", "GEMM_BIAS_ACT")[1]
    assert out.splitlines() == [
        "gemm_bias_act_f32: 80", "gemm_bias_act_tc_f16: 40", "gemm_bias_act_f32_ex: 30",
        "gemm_bias_act_any_ex: 20",
    ]  # fmt: skip


def test_capability_with_descs_gives_scores_and_reasons(ge2rt_cli):
    status, out, _ = ge2rt_cli(
        "capability", "GEMM_BIAS_ACT", "f16[64,128]", "f16[128,32]", "--device", "null"
    )
    assert status == 0
    assert " -> gemm_bias_act_tc_f16: 70 = declared 40 + tensor_core 30" in out
    assert "gemm_bias_act_f32: turned down, A: dtype does not fit" in out
    status, out, _ = ge2rt_cli(
        "capability", "GEMM_BIAS_ACT", "i8[64,128]", "i8[128,32]", "--device", "null"
    )
    assert status == 1
    assert "->" not in out


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("kernels", "softmaxx"), "Did you mean 'softmax'?"),
        (
            ("capability", "GEMM"),
            "error: [-1 INVALID] no kernel has this op type; expected ADAGRAD",
        ),
        (("capability", "GEMM_BIAS"), "got GEMM_BIAS. Did you mean 'GEMM_BIAS_ACT'?"),
        (("capability", "softmax"), "softmax is a kernel of op type SOFTMAX"),
        (("cache", "explain", "abc"), "at least 6 hex digits of an entry's digest, got abc"),
        (("cache", "explain", "abcdef0"), "no entry of the cache begins with this digest"),
        (("capability", "COPY", "f32[4", "--device", "null"), "descriptor cannot be read"),
        (("capability", "COPY", "f32[x]", "--device", "null"), "'x' in 'f32[x]'"),
        (("capability", "COPY", "f32[4:1,4]", "--device", "null"), "a stride for every axis"),
        (("capability", "COPY", "c64[4]", "--device", "null"), "dtype"),
        (("capability", "COPY", "f32[4]", "--attr", "op", "--device", "null"), "NAME=VALUE"),
        (("capability", "COPY", "f32[4]", "--device", "tpu"), "no such device"),
        (("render", "softmax", "f32[4]", "--attr", "axes=1"), "expected axis, scale, log"),
        (("render", "softmax"), "X"),
        (("render", "softmax", "f32[4]", "--arch", "ampere"), "ampere"),
        (
            ("build", "softmax", "f32[4]", "--arch", "sm_99"),
            "argument 'arch': this architecture is not known; expected sm_75",
        ),
        (("kernels", "zz"), "and `ge2rt kernels` in a shell"),
        (("check", "nowhere.yaml"), "nowhere.yaml cannot be read"),
        (("check", "--kernel", "nothing"), "no kernel of this name to check"),
        (("--registry", "nowhere.yaml", "kernels"), "nowhere.yaml cannot be read"),
    ],
)
def test_errors_are_one_message_and_status_1(ge2rt_cli, args, text):
    status, out, err = ge2rt_cli(*args)
    assert status == 1
    assert text in err
    assert "Traceback" not in err
    assert out == ""


def test_all_faults_of_a_file_are_listed(ge2rt_cli, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("api_version: 1\nkernels:\n  - {name: a, scor: 3}\n  - {name: b, op: 1}\n")
    status, _, err = ge2rt_cli("check", str(path))
    lines = err.splitlines()
    assert status == 1
    assert len(lines) > 4
    assert all(line.startswith(f"{path}:") for line in lines)
    assert any("scor: unknown key. Did you mean 'score'?" in line for line in lines)


def test_render_shows_the_template_beside_the_source(ge2rt_cli):
    status, out, _ = ge2rt_cli("render", "softmax", "f32[64,100]", "--lines", "--arch", "sm_90")
    assert status == 0
    assert "softmax.cu.j2:" in out
    plain = ge2rt_cli("render", "softmax", "f32[64,100]")[1]
    assert "__global__" in plain
    assert "softmax.cu.j2:" not in plain
    assert plain.splitlines()[0].strip()
    assert "\n  int X_at = 0;\n" in plain  # from a macro that does not know where it is called
    assert "\n#pragma unroll\n" in plain
    dynamic = ge2rt_cli("render", "softmax", "f32[64,100]", "--dynamic")[1]
    assert dynamic != plain


def test_build_emits_cuda_without_a_compiler(ge2rt_cli, tmp_path):
    status, out, _ = ge2rt_cli(
        "build", "copy", "f32[8:1,4:8]", "--emit", "cuda", "-o", str(tmp_path / "deep" / "er")
    )
    path = tmp_path / "deep" / "er" / "copy.sm_80.cu"
    assert status == 0
    assert out == f"{path}: {path.stat().st_size} bytes\n"
    assert "__global__" in path.read_text(encoding="utf-8")


def test_build_tells_which_archs_were_turned_down(ge2rt_cli, tmp_path):
    status, _, err = ge2rt_cli(
        "build", "gemm_bias_act_tc_f16", "f16[64,64]", "f16[64,64]", "--arch", "sm_75, sm_90",
        "--emit", "cuda", "-o", str(tmp_path),
    )  # fmt: skip
    assert status == 1
    assert err.startswith("sm_75: turned down")
    assert "cc >= 8.0, got cc = 7.5" in err
    assert [p.name for p in tmp_path.iterdir()] == ["gemm_bias_act_tc_f16.sm_90.cu"]


def test_a_file_in_the_place_of_a_folder_is_named(ge2rt_cli, tmp_path):
    (tmp_path / "taken").write_text("")
    status, _, err = ge2rt_cli(
        "build", "copy", "f32[8]", "--emit", "cuda", "-o", str(tmp_path / "taken")
    )
    assert status == 1
    assert "the result cannot be written" in err
    assert "name a folder that can be written" in err


@pytest.mark.skipif(os.name == "nt", reason="needs a path that cannot be written")
def test_a_folder_that_cannot_be_written_is_one_message(ge2rt_cli):
    status, _, err = ge2rt_cli("build", "copy", "f32[8]", "--emit", "cuda", "-o", "/proc/nowhere")
    assert status == 1
    assert err.startswith("error: ")


def test_cache_commands(ge2rt_cli, tmp_path, monkeypatch):
    monkeypatch.setenv("GE2RT_CACHE_DIR", str(tmp_path / "cache"))
    store.clear()
    key = Key((("source", "abc"), ("arch", "sm_80")))
    store.default_store().put(key, {"kernel.ptx": b"text" * 1000})
    store.default_store().flush()
    out = ge2rt_cli("cache", "info")[1]
    assert f"folder: {tmp_path / 'cache'}" in out
    assert "entries: 1" in out
    assert "KiB" in out
    assert "source: abc" in ge2rt_cli("cache", "explain", key.digest)[1]
    assert "source: abc" in ge2rt_cli("cache", "explain", key.digest[:8])[1]
    assert ge2rt_cli("cache", "verify")[:2] == (0, "1 entries, 0 bad\n")
    (blob,) = Path(tmp_path / "cache").rglob("kernel.ptx*")
    blob.write_bytes(b"other" + blob.read_bytes()[5:])
    status, _, err = ge2rt_cli("cache", "verify")
    assert (status, err.split(":")[0]) == (1, key.digest)
    assert ge2rt_cli("cache", "clear")[1].startswith("removed ")
    assert "entries: 0" in ge2rt_cli("cache", "info")[1]
    store.clear()


def test_doctor_prints_the_fix_of_what_is_missing(ge2rt_cli, monkeypatch):
    rows = (
        lambda: diagnose.Finding("nvrtc", True, "12.9"),
        lambda: diagnose.Finding("headers", False, "missing cuda_fp16.h", "pip install [it]"),
        lambda: diagnose.Finding("driver", False, "none", "buy one", needed=False),
    )
    monkeypatch.setattr(diagnose, "PROBES", rows)
    status, out, _ = ge2rt_cli("doctor")
    assert status == 1
    assert [line.split()[:2] for line in out.splitlines()[1:6]] == [
        ["ok", "nvrtc"], ["missing", "headers"], ["pip", "install"], ["-", "driver"],
        ["buy", "one"],
    ]  # fmt: skip
    assert "[it]" in out
    assert "missing: headers; the fix stands below each row" in out
    assert "docs/" not in out
    monkeypatch.setattr(diagnose, "PROBES", rows[:1])
    assert ge2rt_cli("doctor")[0] == 0


def test_doctor_sees_bad_switches_and_registries(monkeypatch, tmp_path):
    monkeypatch.setenv("GE2RT_THREADS", "none")
    monkeypatch.setenv("GE2RT_REGISTRY", str(tmp_path / "nowhere.yaml"))
    ge2rt.clear_caches()
    found = {row.name: row for row in (diagnose._switches(), diagnose._registry())}
    assert not found["switches"].ok
    assert "GE2RT_THREADS" in found["switches"].found
    assert not found["registry"].ok
    monkeypatch.setenv("GE2RT_THREADS", "2")
    monkeypatch.setenv("GE2RT_NO_SUCH", "1")
    monkeypatch.delenv("GE2RT_REGISTRY")
    ge2rt.clear_caches()
    unknown = diagnose._switches()
    assert "unknown: GE2RT_NO_SUCH" in unknown.found
    assert "docs/" not in unknown.fix
    assert diagnose._registry().ok
