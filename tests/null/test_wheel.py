"""The wheel: it holds the kernels file and the templates, and works without the checkout.

pip builds it in an environment of its own (network, or an index that has hatchling); where pip
cannot get hatchling the test fails rather than skips, since nobody could install ge2rt there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ge2rt

ROOT = Path(__file__).resolve().parents[2]


def _run(*command: str | Path, cwd: Path, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "GE2RT_CACHE_DIR")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True,
        env={**kept, **environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _has_hatchling() -> bool:
    import importlib.util

    return importlib.util.find_spec("hatchling") is not None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    shared = ("--no-build-isolation",) if _has_hatchling() else ()
    _run(
        sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps",
        *shared, "-w", folder, ROOT, cwd=folder,
    )  # fmt: skip
    (path,) = folder.glob("ge2rt-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """A clean environment with the wheel; the libraries it needs are those of this process."""
    home = wheel.parent / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", home, cwd=wheel.parent)
    bin_folder = home / ("Scripts" if os.name == "nt" else "bin")
    _run(
        sys.executable, "-m", "pip", "--python", bin_folder / "python", "install", "-q",
        "--disable-pip-version-check", "--no-deps", "--no-index", wheel, cwd=wheel.parent,
    )  # fmt: skip
    (site,) = home.rglob("site-packages")
    # searched last, and .pth files in them (the checkout's, if it is installed) are not followed
    libraries = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    (site / "libraries.pth").write_text("\n".join(libraries), encoding="utf-8")
    return bin_folder


def test_wheel_holds_the_data_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {p.name for p in (ROOT / "templates").iterdir() if p.is_file()}
    packed = {n.rsplit("/", 1)[1] for n in names if n.startswith("ge2rt/_data/templates/")}
    assert packed == shipped
    assert {"ge2rt/_data/kernels.yaml", "ge2rt/py.typed"} <= set(names)
    roots = {name.split("/")[0] for name in names}
    assert roots == {"ge2rt", f"ge2rt-{ge2rt.__version__}.dist-info"}


def test_installed_wheel_lists_its_own_registry(installed, tmp_path):
    code = "import ge2rt, os; print(os.path.dirname(ge2rt.__file__)); print(ge2rt.query_kernels())"
    where, names = _run(installed / "python", "-c", code, cwd=tmp_path).splitlines()
    assert Path(where).is_relative_to(installed.parent)
    assert names == str(ge2rt.query_kernels())


def test_installed_command_runs(installed, tmp_path):
    out = _run(installed / "ge2rt", "kernels", cwd=tmp_path)
    assert sorted(line.split()[0] for line in out.splitlines()[1:]) == ge2rt.query_kernels()
    assert ge2rt.__version__ in _run(installed / "ge2rt", "--version", cwd=tmp_path)
