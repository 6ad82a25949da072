"""``import ge2rt``: light, silent, writes nothing, and every public name is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ge2rt

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("cupy", "llvmlite", "jinja2", "yaml", "pydantic", "click", "rich", "platformdirs",
         "filelock", "ml_dtypes", "torch")  # fmt: skip


def fresh(code: str, cwd: Path, **environment: str) -> str:
    """What a new process prints."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GE2RT_")}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=cwd, capture_output=True, text=True,
        env={**kept, "PYTHONPATH": path, **environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_import_pulls_in_nothing_heavy(tmp_path):
    code = f"import sys, ge2rt; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert fresh(code, tmp_path) == "[]\n"


def test_import_pulls_in_no_room(tmp_path):
    code = "import sys, ge2rt; print([m for m in sys.modules if m.startswith('ge2rt.')])"
    assert fresh(code, tmp_path) == "[]\n"


def test_all_public_names_resolve_without_a_compiler(tmp_path):
    code = (
        "import sys, ge2rt\n"
        "for name in ge2rt.__all__: getattr(ge2rt, name)\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert fresh(code, tmp_path) == "[]\n"


def test_names_known_to_checkers_are_those_of_the_table():
    source = (ROOT / "ge2rt" / "__init__.py").read_text(encoding="utf-8")
    static = source.split("if TYPE_CHECKING:\n    from")[1].split("\n\n\n")[0]
    for name in ge2rt._PUBLIC:
        assert name in static.replace(",", " ").split(), name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'launch_kernle'"):
        ge2rt.launch_kernle  # noqa: B018
    assert "launch_kernel" in dir(ge2rt)


@pytest.mark.skipif(os.name == "nt", reason="needs a folder without write permission")
def test_import_and_listing_write_nothing(tmp_path):
    folder = tmp_path / "readonly"
    folder.mkdir()
    folder.chmod(0o500)
    code = "import ge2rt; print(len(ge2rt.__all__))"
    out = fresh(code, folder, HOME="/proc/x", XDG_CACHE_HOME="/proc/x", PYTHONDONTWRITEBYTECODE="1")
    assert int(out) == len(ge2rt.__all__)
    assert list(folder.iterdir()) == []
    writes = fresh(
        "import sys\n"
        "made = []\n"
        "sys.addaudithook(lambda name, args: made.append(args) if name == 'open' and args[2] & 3"
        " else made.append(args) if name in ('os.mkdir', 'os.rename') else None)\n"
        "import ge2rt\n"
        "print(made)",
        folder, HOME=str(tmp_path), PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    assert writes == "[]\n"


def test_describing_an_array_imports_nothing(tmp_path):
    """A cached call in a new process has no time for modules that only rare arguments need."""
    code = (
        "import sys, numpy as np; from ge2rt.device.pointers import describe; "
        "before = set(sys.modules); describe(np.zeros(3)); print(sorted(set(sys.modules) - before))"
    )
    assert fresh(code, tmp_path) == "[]\n"


def test_time_of_the_import_is_shown(tmp_path, capsys):
    code = (
        "import time, numpy; t = time.perf_counter(); import ge2rt; "
        "import ge2rt.abi, ge2rt.faces; print(f'{1e3 * (time.perf_counter() - t):.1f}')"
    )
    milliseconds = float(fresh(code, tmp_path))
    with capsys.disabled():
        print(f"\nimport of ge2rt and its faces after numpy: {milliseconds:.1f} ms")
