"""The page of ops is the table."""

from __future__ import annotations

from pathlib import Path

from ge2rt.ir.catalogue import page
from ge2rt.ir.ops import OPS

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_page_is_up_to_date(update_golden: bool) -> None:
    if update_golden:
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_op_is_on_it_once() -> None:
    lines = page().splitlines()
    for name in OPS:
        assert sum(line.startswith(f"| `{name}(") for line in lines) == 1, name
    bars = {line.replace("\\|", "").count("|") for line in lines if line.startswith("|")}
    assert bars == {7}
