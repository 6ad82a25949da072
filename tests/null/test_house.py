"""The rules of the house: sizes, imports, docstrings, and docs that tell the truth."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from script_files import load_script

import ge2rt
from ge2rt.base import switches
from ge2rt.base.errors import STATUS_TABLE
from ge2rt.cli.main import COMMANDS
from ge2rt.run.diagnose import PROBES

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "ge2rt").rglob("*.py"))
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# room -> layer; a module may import from its own room or from a lower layer (DESIGN of the rooms:
# docs/layout.md). The faces and the command line stand on top.
LAYERS = {
    "base": 0, "spec": 1, "build": 2, "ptx": 2, "ir": 2, "autodiff": 3, "fuse": 3, "device": 3,
    "run": 4, "graph": 5, "jit": 5, "report": 6, "faces": 7, "abi": 7, "raw": 7, "tensors": 8,
    "nn": 9, "optim": 9, "array_api": 9, "torch": 9, "parallel": 9, "sparse": 9, "ops": 9,
    "compat": 10, "cli": 11, "__main__": 12, "": 12,
}  # fmt: skip
# only these files may import CuPy, and only inside functions
CUPY = {"ge2rt/device/cuda.py", "ge2rt/build/nvrtc.py"}
# what a plain import or a cached call must not pull in
LATE = {"cupy", "llvmlite", "jinja2", "yaml", "pydantic", "ml_dtypes", "filelock", "platformdirs"}


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Modules imported anywhere, late imports too; only for types does not count."""
    only_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in only_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_sizes_are_within_the_caps():
    size = load_script("size")
    assert size.faults(size.measure(ROOT / "ge2rt")) == []


@pytest.mark.parametrize("folder", ["ge2rt", "scripts", "tests", "benchmarks"])
def test_every_file_has_the_future_import_and_a_docstring(folder):
    for path in sorted((ROOT / folder).rglob("*.py")):
        tree = _tree(path)
        if folder != "tests":
            assert ast.get_docstring(tree), _name(path)
        if len(tree.body) > 1:
            assert "from __future__ import annotations" in path.read_text(encoding="utf-8"), _name(
                path
            )


def test_imports_only_go_down():
    faults = []
    for path in SOURCES:
        here = _room(_name(path).removesuffix(".py").replace("/", "."))
        room = "" if here == "__init__" else here
        for module, line in _imports(_tree(path)):
            if module.split(".")[0] != "ge2rt" or module == "ge2rt":
                continue
            other = _room(module)
            if other in LAYERS and other != room and LAYERS[other] >= LAYERS[room]:
                faults.append(f"{_name(path)}:{line} imports {module}")
    assert faults == []


def test_heavy_libraries_are_imported_late_and_cupy_in_two_files():
    early, cupy = [], []
    for path in SOURCES:
        roots = [(module.split(".")[0], line) for module, line in _imports(_tree(path))]
        if _name(path) not in CUPY:
            cupy += [f"{_name(path)}:{line}" for root, line in roots if root == "cupy"]
        if _module(path) in _early():
            early += [f"{_name(path)}: {root}" for root in _top_imports(path) if root in LATE]
    assert cupy == []
    assert early == []


def _module(path: Path) -> str:
    return _name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _top_imports(path: Path) -> frozenset[str]:
    """What importing a file imports at once, and the roots of it."""
    top = ast.Module(
        [n for n in _tree(path).body if isinstance(n, (ast.Import, ast.ImportFrom))], []
    )
    found = {module for module, _ in _imports(top)}
    return frozenset(found | {module.split(".")[0] for module in found})


@cache
def _early() -> frozenset[str]:
    """The modules that a launch of a cached kernel imports: those reached from the faces."""
    files = {_module(path): path for path in SOURCES}
    reached, todo = set(), ["ge2rt.abi", "ge2rt.faces", "ge2rt.compat", "ge2rt.device.cpu"]
    while todo:
        module = todo.pop()
        if module in files and module not in reached:
            reached.add(module)
            todo += _top_imports(files[module])
    return frozenset(reached)


def test_every_public_name_has_a_docstring():
    missing = []
    for path in SOURCES:
        for node in ast.walk(_tree(path)):
            if isinstance(node, (ast.ClassDef, ast.Module)):
                inside = node.body if not isinstance(node, ast.ClassDef) or _public(node) else []
                missing += [
                    f"{_name(path)}:{n.lineno} {n.name}"
                    for n in inside
                    if isinstance(n, (ast.FunctionDef, ast.ClassDef))
                    and _public(n)
                    and not _overrides(n, node)
                    and not _is_overload(n)
                    and not ast.get_docstring(n)
                ]
    assert missing == []


def _is_overload(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)


def _public(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return not node.name.startswith("_")


def _overrides(node: ast.AST, owner: ast.AST) -> bool:
    """Methods of a class with bases of ours take their docstring from the contract they fill."""
    return (
        isinstance(owner, ast.ClassDef) and isinstance(node, ast.FunctionDef) and bool(owner.bases)
    )


def test_no_environment_variable_is_read_outside_the_switch_table():
    faults = []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(r"(environ(\.get\(|\[)|getenv\()\s*[\"']GE2RT_", line):
                faults.append(f"{_name(path)}:{number}")
    assert faults == []


def test_docs_name_only_switches_that_exist_and_all_of_them():
    named = {n for path in DOCS for n in re.findall(r"GE2RT_[A-Z_]+", path.read_text("utf-8"))}
    assert named <= set(switches.TABLE), named - set(switches.TABLE)
    listed = _first_cells(ROOT / "docs" / "troubleshooting.md")
    assert {name for name in listed if name.startswith("GE2RT_")} == set(switches.TABLE)


def test_docs_name_only_commands_that_exist():
    for path in DOCS:
        text = path.read_text("utf-8")
        for command in re.findall(r"(?:^|`)ge2rt ([a-z]+)", text, re.MULTILINE):
            assert command in COMMANDS, f"{path.name}: ge2rt {command}"


def _rows(path: Path) -> list[list[str]]:
    """Cells of all Markdown tables of a file."""
    lines = path.read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|") and not line.startswith("|---")]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def _first_cells(path: Path) -> list[str]:
    return [row[0].strip("`") for row in _rows(path)]


def test_status_table_of_the_docs_is_the_one_in_code():
    wanted = [
        [
            str(int(row.status)), row.status.name,
            row.exception.__name__ if row.exception else "-", row.meaning, row.next_step or "-",
        ]
        for row in STATUS_TABLE
    ]  # fmt: skip
    rows = _rows(ROOT / "docs" / "contract.md")
    start = next(i for i, row in enumerate(rows) if row[0] == "code") + 1
    assert rows[start : start + len(wanted)] == wanted


def test_troubleshooting_has_a_row_for_each_row_of_the_doctor():
    listed = _first_cells(ROOT / "docs" / "troubleshooting.md")
    probes = [probe.__name__.lstrip("_") for probe in PROBES]
    start = listed.index("row") + 1
    assert listed[start : start + len(probes)] == probes


def test_changelog_names_the_version():
    assert f"## {ge2rt.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f'version = "{ge2rt.__version__}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_links_between_documents_lead_somewhere():
    for path in DOCS:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_ci_runs_exactly_the_readmes_test_command():
    readme = (ROOT / "README.md").read_text("utf-8")
    command = next(line for line in readme.splitlines() if "python -m pytest" in line)
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    setup, _, test = command.partition(" && ")
    assert setup.replace("pip install", "pip install -q") in script
    assert test in script
