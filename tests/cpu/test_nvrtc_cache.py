"""Compiling through the caches: front keys, single flight, failures, processes, NO_JIT."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import build_samples as bs
import pytest

from ge2rt.base import events
from ge2rt.base.errors import CompileError
from ge2rt.build import compile as compiling
from ge2rt.build import front, nvrtc
from ge2rt.build.compile import build, compile_text, why_missed
from ge2rt.build.problem import make_problem
from ge2rt.build.render import clear as forget_templates
from ge2rt.build.store import Store

CODE = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] *= 2; }'


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("GE2RT_CACHE_DIR", str(tmp_path / "cache"))
    new_process()
    yield str(tmp_path / "cache")
    compiling.clear()


def new_process():
    """What a new process knows: nothing."""
    compiling.clear()
    forget_templates()
    events.clear()


def problem(folder, shape=(100,), *, static=True, **parts):
    x = bs.desc(shape)
    return make_problem(bs.bound(bs.kernel(folder, **parts), [x, x]), bs.PROPS, static=static)


def test_compile_then_memory_then_disk(root, tmp_path):
    given = problem(bs.write_templates(tmp_path / "t"))
    fresh = build(given)
    assert fresh.cached == ""
    assert fresh.entry == "ge2rt_scale"
    assert build(given).cached == "memory"
    new_process()
    again = build(given)
    assert again.cached == "disk"
    assert events.counts() == {"cache.hit": 1}  # neither rendered nor compiled
    for name in ("key", "data", "entry", "arch", "kind", "line_map"):
        assert getattr(again, name) == getattr(fresh, name)
    assert again.line_map.find(5) == ("scale.cu.j2", 8)


def test_a_cached_build_imports_neither_jinja_nor_cupy(root, tmp_path):
    folder = bs.write_templates(tmp_path / "t")
    code = (
        "import sys, build_samples as bs\nfrom ge2rt.build.compile import build\n"
        "from ge2rt.build.problem import make_problem\n"
        f"k = bs.kernel({str(folder)!r}); x = bs.desc((100,))\n"
        "b = build(make_problem(bs.bound(k, [x, x]), bs.PROPS))\n"
        "late = {'jinja2', 'cupy', 'filelock', 'json', 'yaml'}\n"
        "print(b.cached, *sorted(late & set(sys.modules)))"
    )
    env = os.environ | {"PYTHONPATH": str(Path(bs.__file__).parent)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    ]
    assert outputs[1] == "disk\n"
    assert outputs[0] != outputs[1]


def test_one_dynamic_source_for_many_shapes(root, tmp_path):
    folder = bs.write_templates(tmp_path / "t")
    keys = {build(problem(folder, (n,), static=False)).key.digest for n in range(101, 131, 2)}
    assert len(keys) == 1
    assert events.counts()["compile"] == 1


def test_what_the_front_key_sees(root, tmp_path):
    folder = bs.write_templates(tmp_path / "t")
    first = front.front_key(problem(folder), "ptx")
    assert first == front.front_key(problem(folder, doc="other words", score=99), "ptx")
    others = [
        front.front_key(problem(folder, (101,)), "ptx"),
        front.front_key(problem(folder), "cubin"),
        front.front_key(problem(folder, options=("-DX",)), "ptx"),
        front.front_key(problem(folder, static=False), "ptx"),
    ]
    (folder / "_scale.cuh.j2").write_text(bs.SHARED + "\n")
    others.append(front.front_key(problem(folder), "ptx"))
    assert len({k.digest for k in [first, *others]}) == 6
    assert [line.split(":")[0] for line in compiling.explain(others[-1], first)] == ["templates"]


def test_a_computed_include_is_never_taken_from_the_index(root, tmp_path):
    text = "{% set f = '_scale.cuh.j2' %}{% import f as scale with context %}" + bs.SCALE
    folder = bs.write_templates(tmp_path / "t", scale=text)
    assert front.front_key(problem(folder), "ptx") is None
    assert build(problem(folder)).cached == ""
    (folder / "_scale.cuh.j2").write_text(bs.SHARED.replace("alpha", "(alpha + 1.0f)"))
    new_process()
    assert build(problem(folder)).cached == ""


def test_an_edited_header_is_seen_behind_the_index(root, tmp_path):
    folder = bs.write_templates(tmp_path / "t", scale='#include "own.h"\n' + bs.SCALE)
    (folder / "own.h").write_text("// 1")
    given = problem(folder, options=(f"-I{folder}",))
    assert build(given).cached == ""
    new_process()
    assert build(given).cached == "disk"
    (folder / "own.h").write_text("// 2")
    new_process()
    assert build(given).cached == ""


@pytest.mark.parametrize("blob", ["kernel.ptx", "meta.txt", "index"])
def test_damage_is_a_recompile_that_heals(root, tmp_path, blob):
    given = problem(bs.write_templates(tmp_path / "t"))
    data = build(given).data
    new_process()
    for path in Path(root).rglob(f"{blob}*"):
        path.write_bytes(path.read_bytes()[:-3] + b"!!!")
    assert build(given).data == data
    new_process()
    assert build(given).cached == "disk"
    Store(root).verify()  # removes what nobody read meanwhile
    assert Store(root).verify() == []


def test_same_name_other_source(root):
    one = compile_text(CODE, "sm_80", name="k.cu")
    two = compile_text(CODE.replace("2", "3"), "sm_80", name="k.cu")
    assert one.data != two.data
    new_process()
    assert compile_text(CODE.replace("2", "3"), "sm_80", name="k.cu").data == two.data


def test_another_compiler_is_another_binary(root, tmp_path, monkeypatch):
    given = problem(bs.write_templates(tmp_path / "t"))
    build(given)
    new_process()
    monkeypatch.setattr(nvrtc, "version", lambda: "99.1")
    assert build(given).cached == ""
    assert why_missed(given) == []
    new_process()
    monkeypatch.undo()
    monkeypatch.setenv("GE2RT_CACHE_DIR", root)
    assert build(given).cached == "disk"


def test_why_a_call_missed(root, tmp_path):
    folder = bs.write_templates(tmp_path / "t")
    assert why_missed(problem(folder)) == ["nothing alike is stored"]
    build(problem(folder))
    (line,) = why_missed(problem(folder, (101,)))
    assert line.startswith("source: (- there, + here)\n    - ")
    assert any("100" in part for part in line.splitlines() if part.startswith("    - "))
    assert any("101" in part for part in line.splitlines() if part.startswith("    + "))


def test_no_jit_runs_from_the_cache_and_names_what_is_missing(root, tmp_path, monkeypatch):
    folder = bs.write_templates(tmp_path / "t")
    build(problem(folder))
    new_process()
    monkeypatch.setenv("GE2RT_NO_JIT", "1")
    monkeypatch.setattr(nvrtc, "version", lambda: "")  # a machine without the compiler
    assert build(problem(folder)).cached == "disk"
    with pytest.raises(CompileError, match="scale: not in the cache or bundle") as caught:
        build(problem(folder, (7,)))
    assert caught.value.record.got == "ptx for sm_80"
    with pytest.raises(CompileError, match="GE2RT_NO_JIT"):
        compile_text(CODE, "sm_80")
    monkeypatch.delenv("GE2RT_NO_JIT")
    assert build(problem(folder, (7,))).cached == ""  # the refusal was not remembered


def test_a_failed_build_fails_the_same_way_and_publishes_nothing(root, tmp_path):
    given = problem(bs.write_templates(tmp_path / "t", scale="{{ headers }}\nbroken"))
    errors = []
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            build(given)
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert errors[0] is not errors[1]
    assert events.counts()["compile"] == 1
    assert not any(e.read("kernel.ptx") for e in Store(root).entries())


def test_eight_threads_compile_once(root, tmp_path):
    given = problem(bs.write_templates(tmp_path / "t"))
    gate, found = threading.Barrier(8), []

    def work():
        gate.wait()
        found.append(build(given).data)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert events.counts()["compile"] == 1


def test_different_stores_do_not_share(root, tmp_path):
    given = problem(bs.write_templates(tmp_path / "t"))
    build(given)
    bundle = Store(str(tmp_path / "bundle"))
    assert build(given, store=bundle).cached == ""
    assert bundle.info()["entries"] == 2


CHILD = """
import sys
from ge2rt.base import events
from ge2rt.build.compile import compile_text
b = compile_text({code!r}, "sm_80")
print(len(b.data), events.counts().get("compile", 0), flush=True)
"""


def test_eight_cold_processes(root):
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD.format(code=CODE)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    outputs = [job.communicate()[0].split() for job in jobs]
    assert [job.returncode for job in jobs] == [0] * 8
    assert len({size for size, _ in outputs}) == 1
    assert sum(int(compiled) for _, compiled in outputs) == 1
    assert Store(root).verify() == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_killed_builder_blocks_nobody(root):
    code = (
        "import ge2rt.build.nvrtc as n, time\n"
        "def hang(*a, **k):\n    print('building', flush=True); time.sleep(60)\n"
        "n.compile_cuda = hang\n" + CHILD.format(code=CODE)
    )
    job = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "building\n"
    job.send_signal(signal.SIGKILL)
    job.communicate()
    assert compile_text(CODE, "sm_80").cached == ""
    new_process()
    assert compile_text(CODE, "sm_80").cached == "disk"
