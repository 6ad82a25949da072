"""Dtypes and switches."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ge2rt.base import switches
from ge2rt.base.dtypes import DTYPES, dtype_of
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.paths import cache_dir, resource

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", DTYPES)
def test_itemsize_is_numpys(name):
    assert DTYPES[name].numpy.itemsize == DTYPES[name].itemsize


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "q8"])
def test_a_dtype_is_found_by_its_numpy_dtype(name):
    assert dtype_of(DTYPES[name].numpy) is DTYPES[name]
    assert dtype_of(name) is DTYPES[name]


def test_torch_names_need_no_other_package():
    """NumPy knows bfloat16 by its name only once ml_dtypes was imported."""
    code = (
        "from ge2rt.base.dtypes import DTYPES, dtype_of\n"
        "for name in ('bfloat16', 'float8_e5m2', 'float16', 'uint8', 'bool'):\n"
        "    found = dtype_of(type('D', (), {'__str__': lambda self: 'torch.' + name})())\n"
        "    assert found.numpy_name == name, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("bad", [np.complex64, "c16", object, "f128x", np.dtype(">f4"), "U3"])
def test_other_dtypes_are_refused(bad):
    with pytest.raises(InvalidTypeError, match="cannot be used"):
        dtype_of(bad)


def test_a_misspelt_name_is_not_an_array_to_cast():
    with pytest.raises(InvalidTypeError, match="name one of these") as caught:
        dtype_of("flaot")
    assert "astype" not in str(caught.value)
    with pytest.raises(InvalidTypeError, match="astype"):
        dtype_of(np.complex64)


def test_every_switch_is_documented():
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    for name in switches.TABLE:
        assert f"`{name}`" in text, name


def test_nothing_else_reads_our_variables():
    offenders = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / "ge2rt").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"(environ|getenv)\W.*GE2RT_", line) and path.name != "switches.py"
    ]
    assert offenders == []


def test_a_malformed_switch_says_what_it_wants(monkeypatch):
    monkeypatch.setenv("GE2RT_THREADS", "many")
    with pytest.raises(InvalidArgumentError, match=r"GE2RT_THREADS is malformed.*'many'"):
        switches.get("GE2RT_THREADS")
    monkeypatch.setenv("GE2RT_CHECK", "memory,luck")
    with pytest.raises(InvalidArgumentError, match="init, memory, race, sync"):
        switches.get("GE2RT_CHECK")


def test_all_means_all_checks(monkeypatch):
    monkeypatch.setenv("GE2RT_CHECK", "all")
    assert switches.get("GE2RT_CHECK") == {"memory", "race", "init", "sync"}


def test_switches_follow_the_environment(monkeypatch):
    assert switches.get("GE2RT_STATIC_BUDGET") == 4
    monkeypatch.setenv("GE2RT_STATIC_BUDGET", "9")
    assert switches.get("GE2RT_STATIC_BUDGET") == 9
    monkeypatch.setenv("GE2RT_CACHE_DIR", "/somewhere/else")
    assert cache_dir() == Path("/somewhere/else")


def test_resources_are_found():
    assert resource("kernels.yaml").is_file()
    assert resource("templates").is_dir()


SPELLINGS = {
    "f32": ("f32", "float32", "f4", np.float32, np.dtype("float32")),
    "f64": ("f64", "float64", "d", np.float64, np.dtype("f8")),
    "i64": ("i64", "int64", np.int64, np.dtype(np.int64)),
    "bool": ("bool", np.bool_, np.dtype("?")),
    "bf16": ("bf16", "bfloat16", dtype_of("bf16").numpy),
}
OTHERS = (None, 1, float, object, [], "", "f4,f4", "complex64", np.complex64, np.dtype(">f4"), "q8")


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_dtype_equals_its_other_spellings_and_nothing_else(name: str) -> None:
    dtype = dtype_of(name)
    for spelt in SPELLINGS[name]:
        assert dtype == spelt
        assert spelt == dtype
    for other in (*OTHERS, *(s for n, row in SPELLINGS.items() if n != name for s in row)):
        assert dtype != other
        assert other != dtype
    assert {dtype: 1}[name] == {name: 1}[dtype] == 1
    assert pickle.loads(pickle.dumps(dtype)) == dtype
    assert hash(pickle.loads(pickle.dumps(dtype))) == hash(dtype)
    assert repr(dtype) == f"dtype({name!r})"
