"""The page of operations is the registry."""

from __future__ import annotations

from pathlib import Path

from ge2rt.base.paths import resource
from ge2rt.spec.catalogue import page
from ge2rt.spec.registry import Registry

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def shipped() -> Registry:
    registry = Registry()
    registry.add_file(resource("kernels.yaml"), trusted=True)
    return registry


def test_the_page_is_up_to_date(update_golden: bool) -> None:
    if update_golden:
        PAGE.write_text(page(shipped()), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(shipped())


def test_every_kernel_is_on_it_once() -> None:
    registry = shipped()
    lines = page(registry).splitlines()
    for name in registry.names():
        assert sum(line.startswith(f"### `{name}`") for line in lines) == 1, name
    for op in registry.ops():
        assert lines.count(f"## {op}") == 1
    rows = [line.replace("\\|", "") for line in lines if line.startswith("|")]
    assert {row.count("|") for row in rows} == {6}
