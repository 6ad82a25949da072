"""The page on training runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import ge2rt

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)  # it saves files
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    loss = float(capsys.readouterr().out.splitlines()[0])
    assert 0 < loss < 1.3  # three classes: log(3) at first
    team, model = names["team"], names["model"]
    assert team.size == 1
    assert all(np.isfinite(p.grad.numpy()).all() for p in model.parameters())


def test_star_imports_leave_pytorch_alone() -> None:
    assert "torch" not in ge2rt.__all__
    assert {"sparse", "parallel"} <= set(ge2rt.__all__)
    assert callable(ge2rt.torch.op)
