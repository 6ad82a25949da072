"""Kernels files, templates, switches and cache folders that ask for too much or hold surprises."""

from __future__ import annotations

import os
from pathlib import Path

import build_samples as bs
import pytest

from ge2rt.base import switches
from ge2rt.base.errors import CompileError, InvalidArgumentError
from ge2rt.base.paths import cache_dir
from ge2rt.build import render as rendering
from ge2rt.build.problem import make_problem
from ge2rt.build.records import Key
from ge2rt.build.render import render
from ge2rt.build.store import Store
from ge2rt.build.views import namespace
from ge2rt.spec.meaning import TEMPLATE_NAMES
from ge2rt.spec.registry import Registry, RegistryError

KERNELS = """api_version: 1
kernels:
  - name: k1
    op: K1
    template: t.cu.j2
    score: 1
    inputs: [{name: x, dtype: f32, shape: [N]}]
    outputs: [{name: y, dtype: f32, shape: [N]}]
    launch: {grid: ["ceildiv(N, 256)"], block: [256]}
"""


def problem(folder, text):
    spec = bs.kernel(bs.write_templates(folder, scale=text))
    given = bs.desc((100,))
    return make_problem(bs.bound(spec, [given, given]), bs.PROPS)


@pytest.fixture(autouse=True)
def _memory_only(monkeypatch):
    monkeypatch.setenv("GE2RT_NO_CACHE", "1")
    rendering.clear()


LARGE = [
    "{{ 'a'.ljust(2000000000) }}", "{{ 'a'.zfill(2000000000) }}", "{{ 3.to_bytes(10**9, 'big') }}",
    "{{ '%02000000000d' % 1 }}", "{{ '%*d' % (2000000000, 1) }}", "{{ '%2000000000d'|format(1) }}",
    "{{ '{:>2000000000}'.format(1) }}", "{{ '{:>{}}'.format(1, 2000000000) }}",
    "{{ 'a'|indent(2000000000, true) }}", "{{ 'ab'.join(['x' * 50000] * 50000) }}",
    "{% set s = 'a' * 100000 %}{{ s.replace('a', s) }}",
    "{% set s = 'a' * 100000 %}{{ s|replace('a', s) }}",
    "{% set n = namespace(s='a') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "{% set n = namespace(s='a') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "{% set n = namespace(s=[1]) %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "{{ ([[1] * 1000] * 100000)|sum(start=[]) }}", "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{{ [1]|batch(2000000000, 'x')|list }}", "{{ 'a'|center(2000000000) }}", "{{ [3, 4]|random }}",
]  # fmt: skip


@pytest.mark.parametrize("text", LARGE)
def test_templates_that_ask_for_too_much(tmp_path, text):
    with pytest.raises(CompileError) as caught:
        render(problem(tmp_path, text))
    assert "scale.cu.j2:" in caught.value.record.where


def test_what_templates_do_use_works(tmp_path):
    text = (
        "{{ '%03d'|format(7) }} {{ 'ab'|replace('b', 'c') }} {{ 'a' ~ 3 ~ X }} {{ [1, 2]|sum }}\n"
        "{{ 'a\nb'|indent(2) }} {{ ', '.join(['p', 'q']) }} {{ [1] + [2] == [1, 2] }}"
    )
    expected = "007 ac a3X 3\na\n  b p, q true"
    assert render(problem(tmp_path, text)).text == expected


def test_names_of_every_template_are_reserved(tmp_path):
    made = problem(tmp_path, "")
    own = set(namespace(made)) - {b.name for b in made.kernel.buffers} - set(made.bound.names)
    assert own <= TEMPLATE_NAMES | set(made.tunables) | set(made.spaces)


@pytest.mark.parametrize("name", ["kernel", "params", "range", "block"])
def test_a_buffer_cannot_hide_a_templates_name(tmp_path, name):
    (tmp_path / "t.cu.j2").write_text("")
    file = tmp_path / "f.yaml"
    file.write_text(KERNELS.replace("name: x", f"name: {name}"))
    with pytest.raises(RegistryError, match=f"f.yaml:7:21 .*every template has a name '{name}'"):
        Registry().add_file(file)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links here")
def test_a_link_out_of_the_folder_is_found_when_the_file_is_loaded(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (tmp_path / "outside.cu.j2").write_text("")
    (folder / "t.cu.j2").symlink_to(tmp_path / "outside.cu.j2")
    (folder / "f.yaml").write_text(KERNELS)
    with pytest.raises(RegistryError, match=r"f.yaml:5:15 .*leaves its folder through a link"):
        Registry().add_file(folder / "f.yaml")


def test_a_key_with_a_line_break_stays_on_its_line(tmp_path):
    (tmp_path / "t.cu.j2").write_text("")
    (tmp_path / "f.yaml").write_text(KERNELS + '    "a\\nb": 1\n    prefer: {A: 3}\n')
    with pytest.raises(RegistryError) as caught:
        Registry().add_file(tmp_path / "f.yaml")
    assert len(caught.value.faults) == 2
    assert all("\n" not in fault for fault in caught.value.faults)
    assert "unknown tunable 'A'; known: none" in str(caught.value)


@pytest.mark.parametrize("name", ["GE2RT_THREADS", "GE2RT_CACHE_SIZE", "GE2RT_LANES"])
@pytest.mark.parametrize("text", ["abc", "10GB", "-1", "1.5", "0", "9" * 5000])
def test_malformed_switches_say_what_is_expected(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(InvalidArgumentError) as caught:
        switches.get(name)
    assert "literal" not in str(caught.value)
    assert caught.value.record.expected in ("a whole number of at least 1", "1, 2, 4, 8, 16 or 32")


def test_a_cache_in_a_folder_with_other_things_leaves_them_alone(tmp_path):
    kept = [tmp_path / n for n in ("tmp/notes", "locks/my.lock", "ab/data", "go/main.go", "x")]
    for path in kept:
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")
        os.utime(path, (0, 0))
    store = Store(str(tmp_path), cap=1)
    for n in range(3):  # each is over the cap: the older ones are evicted
        store.put(Key((("n", str(n)),)), {"blob": b"x" * 1000})
        store.flush()
    assert store.clear() <= 1
    assert all(path.read_text() == "precious" for path in kept)
    assert not list(store.entries())


def test_a_user_without_a_home_gets_a_cache_of_their_own(monkeypatch):
    import platformdirs

    monkeypatch.delenv("GE2RT_CACHE_DIR")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: "~/.cache/ge2rt")
    assert cache_dir().is_absolute()
    assert cache_dir().name.startswith("ge2rt-")

    def homeless(*_, **__):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr(platformdirs, "user_cache_dir", homeless)
    assert Path(cache_dir()).is_absolute()
