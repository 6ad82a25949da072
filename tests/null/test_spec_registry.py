"""The registry: names, aliases, op types, replacing, snapshots, and the default one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from spec_files import GEMM, write_file

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, RegistryError
from ge2rt.base.paths import resource
from ge2rt.spec import snapshot
from ge2rt.spec.registry import Registry, default_registry, load_registry


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GE2RT_CACHE_DIR", str(tmp_path / "cache"))
    default_registry.clear()
    yield
    default_registry.clear()


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    made = Registry()
    made.add_file(write_file(tmp_path, GEMM))
    return made


def test_names_aliases_ops_and_table(registry: Registry) -> None:
    kernel = registry.get("gemm")
    assert registry.get("gemm_ex") is kernel
    assert "gemm_ex" in registry
    assert registry.names() == ["gemm"]
    assert registry.ops() == ["GEMM_BIAS_ACT"]
    assert registry.kernels_of("GEMM_BIAS_ACT") == [kernel]
    assert registry.kernels_of("COPY") == []
    assert registry.table() == {"GEMM_BIAS_ACT__gemm": 80}
    assert registry.find("nope") is None


def test_the_declaration_arrives(registry: Registry, tmp_path: Path) -> None:
    kernel = registry.get("gemm")
    assert [b.name for b in kernel.buffers] == ["A", "B", "bias", "D"]
    assert kernel.inputs[2].optional
    assert kernel.inputs[0].pattern == ("M", "K")
    assert kernel.types == {"T": ("f32", "f16")}
    assert {n: (a.type, a.default) for n, a in kernel.attrs.items()} == {
        "act": ("str", "none"), "slope": ("float", 0.01), "level": ("int", 1),
        "fast": ("bool", False), "axes": ("ints", ()),
    }  # fmt: skip
    assert [name for name, _ in kernel.lets] == ["MN", "TWICE"]
    assert kernel.tunables == {"BM": (64, 128)}
    assert kernel.requires[1].note == "an empty sum is not for this kernel"
    assert [str(e) for e in kernel.launch.block] == ["256"]
    assert kernel.tolerance["f32"].rtol == 1e-5
    assert kernel.source == f"{tmp_path / 'kernels.yaml'}:3"
    assert kernel.folder == str(tmp_path / "templates")


def test_an_unknown_name_gets_a_suggestion(registry: Registry) -> None:
    with pytest.raises(InvalidArgumentError, match=r"gemn: no kernel of this name.*mean 'gemm'\?"):
        registry.get("gemn")


def test_templates_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "k.cu.j2").write_text("")
    (tmp_path / "user.yaml").write_text(GEMM)
    registry = load_registry(tmp_path / "user.yaml", into=Registry())
    assert registry.get("gemm").folder == str(tmp_path)


def test_a_clash_is_an_error_unless_replaced(registry: Registry, tmp_path: Path) -> None:
    first, version = registry.get("gemm"), registry.version
    other = write_file(tmp_path, GEMM, "other.yaml")
    with pytest.raises(RegistryError) as caught:
        registry.add_file(other)
    assert caught.value.faults == (
        f"{other}:3:5 gemm: the name is taken by 'gemm' of {tmp_path / 'kernels.yaml'}:3; "
        "add `replace: true` to replace it",
        f"{other}:3:5 gemm_ex: the name is taken by 'gemm' of {tmp_path / 'kernels.yaml'}:3; "
        "add `replace: true` to replace it",
    )
    assert registry.get("gemm") is first
    assert registry.version == version
    text = GEMM.replace("score: 80", "score: 90\n    replace: true").replace(
        "[gemm_ex]", "[gemm_2]"
    )
    registry.add_file(write_file(tmp_path, text, "other.yaml"))
    assert registry.get("gemm").score == 90
    assert registry.find("gemm_ex") is None
    assert registry.get("gemm_2") is registry.get("gemm")
    assert registry.version != version


def test_an_alias_cannot_be_stolen(registry: Registry, tmp_path: Path) -> None:
    text = GEMM.replace("name: gemm\n", "name: gemm_ex\n    replace: true\n").replace(
        "[gemm_ex]", "[]"
    )
    with pytest.raises(RegistryError, match="gemm_ex: the name is taken by 'gemm'"):
        registry.add_file(write_file(tmp_path, text, "other.yaml"))


def test_versions_are_never_shared(tmp_path: Path) -> None:
    one, two = Registry(), Registry()
    assert one.version != two.version


def test_a_finished_kernel_can_be_added(registry: Registry) -> None:
    other = Registry()
    other.add(registry.get("gemm"))
    assert other.get("gemm_ex") is registry.get("gemm")
    with pytest.raises(RegistryError):
        other.add(registry.get("gemm"))
    other.add(registry.get("gemm"), replace=True)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"nope.yaml cannot be read: No such file"):
        load_registry(tmp_path / "nope.yaml", into=Registry())


ONE = GEMM.replace("api_version: 1\n", "api_version: 1\ninclude: [parts/more.yaml]\n")


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """An included file whose kernel's template lies beside the file that includes it."""
    (tmp_path / "parts").mkdir()
    text = GEMM.replace("name: gemm\n", "name: other\n").replace("[gemm_ex]", "[]")
    path = tmp_path / "parts" / "more.yaml"
    path.write_text(text)
    return path


def test_an_included_file_is_part_of_the_file(tmp_path: Path, parts: Path) -> None:
    registry = load_registry(write_file(tmp_path, ONE), into=Registry())
    assert registry.names() == ["gemm", "other"]
    assert registry.get("other").source.startswith(f"{parts}:")
    assert registry.get("other").folder == registry.get("gemm").folder
    again = load_registry(tmp_path / "kernels.yaml", into=Registry())  # from the snapshot
    assert again.get("other") == registry.get("other")


def test_a_changed_included_file_is_read_again(tmp_path: Path, parts: Path) -> None:
    load_registry(write_file(tmp_path, ONE), into=Registry())
    parts.write_text(parts.read_text().replace("score: 80", "score: 81"))
    assert load_registry(tmp_path / "kernels.yaml", into=Registry()).get("other").score == 81


@pytest.mark.parametrize(
    ("include", "fault"),
    [
        ("../more.yaml", "'../more.yaml' leaves the file's folder"),
        ("gone.yaml", "'gone.yaml' cannot be read: No such file or directory"),
        ("parts/more.yaml, parts/more.yaml", "'parts/more.yaml' is included twice"),
    ],
)
def test_what_cannot_be_included(tmp_path: Path, parts: Path, include: str, fault: str) -> None:
    text = ONE.replace("[parts/more.yaml]", f"[{include}]")
    with pytest.raises(RegistryError) as caught:
        load_registry(write_file(tmp_path, text), into=Registry())
    assert fault in str(caught.value)
    assert str(tmp_path / "kernels.yaml:2:") in str(caught.value)


def test_faults_of_all_files_are_told_at_once(tmp_path: Path, parts: Path) -> None:
    parts.write_text("include: [x.yaml]\n" + parts.read_text().replace("score: 80", "score: high"))
    with pytest.raises(RegistryError) as caught:
        load_registry(write_file(tmp_path, ONE.replace("score: 80", "score: low")), into=Registry())
    assert any(f.startswith(str(parts)) and "kernels[0].score" in f for f in caught.value.faults)
    assert any("kernels.yaml:" in f and "kernels[0].score" in f for f in caught.value.faults)


def test_a_name_of_two_included_files(tmp_path: Path, parts: Path) -> None:
    parts.write_text(GEMM)
    with pytest.raises(RegistryError, match="gemm: the name is taken by 'gemm'"):
        load_registry(write_file(tmp_path, ONE), into=Registry())


def snapshots(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "registry").glob("*"))


def test_a_snapshot_spares_the_parsing(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = snapshots(tmp_path)
    monkeypatch.setattr(snapshot, "_parse", None)  # would fail if it were called
    again = Registry()
    again.add_file(tmp_path / "kernels.yaml")
    assert again.get("gemm") == registry.get("gemm")
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [b"", b"x", b"cut", b"flip"])
def test_a_damaged_snapshot_is_replaced(registry: Registry, tmp_path: Path, damage: bytes) -> None:
    (path,) = snapshots(tmp_path)
    whole = path.read_bytes()
    bad = {b"cut": whole[:-9], b"flip": whole.replace(b'"score":80', b'"score":81')}
    path.write_bytes(bad.get(damage, damage))
    again = Registry()
    again.add_file(tmp_path / "kernels.yaml")
    assert again.get("gemm").score == 80
    assert path.read_bytes() == whole


def test_a_changed_file_has_another_snapshot(registry: Registry, tmp_path: Path) -> None:
    again = Registry()
    again.add_file(write_file(tmp_path, GEMM.replace("score: 80", "score: 81")))
    assert again.get("gemm").score == 81
    assert len(snapshots(tmp_path)) == 2


def test_an_unwritable_cache_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GE2RT_CACHE_DIR", str(tmp_path / "file" / "below"))
    registry = Registry()
    registry.add_file(write_file(tmp_path, GEMM))
    assert registry.names() == ["gemm"]


def test_no_cache_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GE2RT_NO_CACHE", "1")
    Registry().add_file(write_file(tmp_path, GEMM))
    assert not (tmp_path / "cache").exists()


def test_the_default_registry_is_kept_until_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = default_registry()
    assert default_registry() is first
    load_registry(
        write_file(tmp_path, GEMM.replace("name: gemm", "name: mine").replace("[gemm_ex]", "[]"))
    )
    assert "mine" in default_registry()
    monkeypatch.setenv(
        "GE2RT_REGISTRY",
        str(
            write_file(
                tmp_path, GEMM.replace("name: gemm", "name: extra").replace("[gemm_ex]", "[]")
            )
        ),
    )
    default_registry.clear()
    assert default_registry() is not first
    assert "mine" not in default_registry()
    assert "extra" in default_registry()


def test_the_shipped_file_is_right() -> None:
    registry = Registry()
    registry.add_file(resource("kernels.yaml"))
    for name in registry.names():
        assert registry.get(name).reference is not None, f"{name} has no reference"


def test_a_registry_prints_what_it_has(tmp_path: Path) -> None:
    registry = Registry()
    assert repr(registry) == "<Registry of 0 kernels from 0 files>"
    registry.add_file(write_file(tmp_path, GEMM))
    assert repr(registry) == "<Registry of 1 kernel from 1 file>"


def test_a_cached_load_imports_neither_yaml_nor_pydantic(tmp_path: Path) -> None:
    default_registry()  # writes the snapshot
    code = (
        "import sys; from ge2rt.spec.registry import default_registry; r = default_registry();"
        "[r.get(n) for n in r.names()];"
        "print([m for m in ('yaml', 'pydantic', 'jinja2', 'cupy', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        # the package of this process, checkout or installed: the snapshot is of its files
        env={**os.environ, "PYTHONPATH": str(Path(ge2rt.__file__).parents[1])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("default", ["two", "[1]", "{}", "true"])
def test_a_default_that_is_no_number_is_told_with_its_place(tmp_path, default):
    text = (
        "api_version: 1\nkernels:\n  - name: k\n    op: K\n    template: k.cu.j2\n    score: 1\n"
        "    outputs: [{name: Y, dtype: f32, shape: [4]}]\n"
        f"    attrs: {{a: {{type: float, default: {default}}}}}\n"
        "    launch: {grid: [1], block: [32]}\n"
    )
    (tmp_path / "k.yaml").write_text(text)
    with pytest.raises(RegistryError, match=r"k.yaml:8:\d+ .*expected float, got"):
        Registry().add_file(tmp_path / "k.yaml")
