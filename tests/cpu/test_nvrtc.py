"""NVRTC without a GPU: every architecture, both outputs, messages, names, locales."""

from __future__ import annotations

import os
import subprocess
import sys

import build_samples as bs
import pytest

from ge2rt.base.errors import CompileError
from ge2rt.build import headers, nvrtc
from ge2rt.build.compile import compile_source, compile_text, source_of
from ge2rt.build.diagnostics import parse_log
from ge2rt.build.problem import make_problem
from ge2rt.build.records import LineMap, Source
from ge2rt.build.store import Store

CODE = 'extern "C" __global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }'


@pytest.fixture
def store():
    return Store(None)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_120"])
def test_ptx_and_cubin_for_each_arch(store, arch):
    ptx = compile_text(CODE, arch, "ptx", store=store)
    assert f".target {arch}".encode() in ptx.data
    assert b".visible .entry k(" in ptx.data
    assert not ptx.data.endswith(b"\0")
    cubin = compile_text(CODE, arch, "cubin", store=store)
    assert cubin.data.startswith(b"\x7fELF")


def test_the_wheel_tells_the_version_of_the_library():
    told = nvrtc.version().split(".")
    assert [int(part) for part in told[:2]] == list(nvrtc.compiler().version())


def test_nothing_of_the_machine_gets_into_the_output(store, tmp_path, monkeypatch):
    first = compile_text(CODE, "sm_80", store=store).data
    monkeypatch.chdir(tmp_path)
    assert compile_text(CODE, "sm_80", store=Store(None)).data == first
    assert b'.file\t1 "kernel.cu"' in first


def test_subnormals_and_division_are_exact_unless_declared(store):
    code = 'extern "C" __global__ void k(float* x) { x[0] = x[1] / x[2]; }'
    assert b"div.rn.f32" in compile_text(code, "sm_80", store=store).data
    fast = compile_text(code, "sm_80", store=store, options=["-use_fast_math"]).data
    assert b"div.approx.ftz.f32" in fast


def test_a_kernel_may_choose_its_standard(store):
    code = CODE + "\nstatic_assert(__cplusplus >= 202002L);"
    assert compile_text(code, "sm_80", store=store, options=["-std=c++20"]).data
    with pytest.raises(CompileError):
        compile_text(code, "sm_80", store=store)


def test_name_expressions(store):
    code = "template <class T, int N> __global__ void k(T* x) { *x = N; }"
    binary = compile_text(code, "sm_80", store=store, names=["k<float, 3>", "k<double, 4>"])
    assert set(binary.lowered) == {"k<float, 3>", "k<double, 4>"}
    for symbol in binary.lowered.values():
        assert f".entry {symbol}(".encode() in binary.data


def test_the_two_bindings_agree():
    pytest.importorskip("cupy")
    options = [*nvrtc.base_options("sm_80", "ptx")]
    code = "template <class T> __global__ void k(T* x) { *x = 1; }"
    both = [
        binding.compile(code, "/a.cu", options, "ptx", ["k<float>"])
        for binding in (nvrtc._Library(headers.toolkit().library), nvrtc._Cupy())
    ]
    assert both[0].data.rstrip(b"\0") == both[1].data.rstrip(b"\0")
    assert both[0].lowered == both[1].lowered
    bad = [
        binding.compile("int 3;", "/a.cu", options, "ptx", [])
        for binding in (nvrtc._Library(headers.toolkit().library), nvrtc._Cupy())
    ]
    assert [o.ok for o in bad] == [False, False]
    assert bad[0].log.strip() == bad[1].log.strip()


def test_errors_point_at_the_template(tmp_path, store):
    text = bs.SCALE.replace("Y[i] =", "Y[i] = missing +")
    folder = bs.write_templates(tmp_path, scale=text)
    x = bs.desc((4,))
    source = source_of(make_problem(bs.bound(bs.kernel(folder), [x, x]), bs.PROPS))
    with pytest.raises(CompileError) as caught:
        compile_source(source, "sm_80", "ptx", store=store, kernel="scale")
    record = caught.value.record
    assert record.where == "scale.cu.j2:8"
    assert record.kernel == "scale"
    assert record.message == (
        "1 error for sm_80\n"
        'scale.cu.j2:8:12 (rendered line 5): error: identifier "missing" is undefined\n'
        "      Y[i] = missing + X[i] * alpha;\n"
        "             ^"
    )
    (message,) = record.extra["diagnostics"]
    assert (message.file, message.line, message.rendered_line) == ("scale.cu.j2", 8, 5)


def test_lines_of_the_ptx_lead_to_the_template(tmp_path, store):
    x = bs.desc((4,))
    spec = bs.kernel(bs.write_templates(tmp_path))
    source = source_of(make_problem(bs.bound(spec, [x, x]), bs.PROPS))
    binary = compile_source(source, "sm_80", "ptx", store=store)
    lines = binary.data.decode().splitlines()
    store_at = next(n for n, line in enumerate(lines) if "st.global" in line)
    loc = next(line for line in reversed(lines[:store_at]) if ".loc" in line).split()
    assert binary.line_map.find(int(loc[2])) == ("scale.cu.j2", 8)


def test_a_missing_header_names_its_wheel(store):
    with pytest.raises(CompileError) as caught:
        compile_text("#include <curand_kernel.h>", "sm_80", store=store)
    assert caught.value.record.next_step in (
        "pip install nvidia-curand-cu12", "pip install nvidia-curand",
    )  # fmt: skip
    with pytest.raises(CompileError, match=r'cannot open source file "mine\.h"') as caught:
        compile_text('#include "mine.h"', "sm_80", store=store)
    assert "-I" in caught.value.record.next_step


def test_fp16_and_cccl_headers_are_found(store):
    code = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <nv/target>\n" + CODE
    assert compile_text(code, "sm_80", store=store).data


def test_an_unknown_arch_or_option_is_told(store):
    for arch, options in (("sm_10", ()), ("sm_80", ("--no-such",))):
        with pytest.raises(CompileError, match="invalid option") as caught:
            compile_text(CODE, arch, store=store, options=options)
        assert "nvrtc: error" in caught.value.record.got


LOG = """a.cu(2): error: identifier "y" is undefined
  x[0]=y+1;
       ^

/usr/include/h.h(7): warning #177-D: variable "u" was declared
          but never referenced
  int u;
      ^

Remark: The warnings can be suppressed
"""


def test_logs_become_records():
    source = Source("", "", "a.cu", (), LineMap((("t.j2", 4), ("t.j2", 9))))
    error, warning = parse_log(LOG, source)
    assert (error.file, error.line, error.column, error.severity) == ("t.j2", 9, 6, "error")
    assert error.shown == "  x[0]=y+1;\n       ^"
    assert (warning.file, warning.line, warning.severity) == ("/usr/include/h.h", 7, "warning")
    assert warning.text == 'variable "u" was declared but never referenced'


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {}]
)
def test_any_locale_home_and_path(tmp_path, locale):
    """An accent in source, file name and include path; no usable HOME; the C locale."""
    folder = tmp_path / "répertoire"
    folder.mkdir()
    (folder / "één.h").write_text("#define TWO 2 // é", encoding="utf-8")
    code = f"""
import warnings
from ge2rt.build.compile import compile_text
from ge2rt.build.nvrtc import _Cupy
folder = bytes.fromhex({os.fsencode(folder).hex()!r})
import os
text = '#include "\\u00e9\\u00e9n.h"\\n// caf\\u00e9\\n'
text += 'extern "C" __global__ void k(int* x) {{ *x = TWO; }}'
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    b = compile_text(text, "sm_80", name="caf\\u00e9.cu", options=["-I" + os.fsdecode(folder)])
    compile_text(text, "sm_90", name="caf\\u00e9.cu", options=["-I" + os.fsdecode(folder)])
assert [w.category.__name__ for w in caught] == ["CacheWarning"], caught
assert b".entry k(" in b.data
import sys
assert "cupy" not in sys.modules
"""
    env = {k: v for k, v in os.environ.items() if k not in ("GE2RT_CACHE_DIR", "XDG_CACHE_HOME")}
    env |= {"HOME": "/proc/x"} | locale
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_cupy_is_importable_with_an_unwritable_home():
    pytest.importorskip("cupy")
    code = "from ge2rt.build.nvrtc import _Cupy; print(_Cupy().version()[0] >= 12)"
    env = {k: v for k, v in os.environ.items() if k != "CUPY_CACHE_DIR"} | {"HOME": "/proc/x"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
