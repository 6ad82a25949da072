"""Golden text of each pass: what it makes of a graph.

A file holds the graph before and after; its folder names the pass (``optimise``: all of them). A
new case is a file with the first part alone; ``--update-golden`` writes the second.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ge2rt.ir.passes import NAMES, optimise, pass_named
from ge2rt.ir.text import parse_graph, print_graph
from ge2rt.ir.verify import verify

FOLDER = Path(__file__).parents[1] / "golden" / "ir"
CASES = sorted(FOLDER.glob("*/*.txt"))
_BEFORE, _AFTER = "# before\n", "# after\n"


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden(case: Path, update_golden: bool) -> None:
    text = case.read_text(encoding="utf-8")
    before = parse_graph(text.removeprefix(_BEFORE).partition(_AFTER)[0])
    name = case.parent.name
    after = optimise(before) if name == "optimise" else pass_named(name)(before)
    found = _BEFORE + print_graph(verify(before)) + _AFTER + print_graph(verify(after))
    if update_golden:
        case.write_text(found, encoding="utf-8")
    assert found == text or update_golden


def test_every_pass_has_cases() -> None:
    assert {case.parent.name for case in CASES} == {*NAMES, "optimise"}
