"""The script that compares with PyTorch, as far as it goes without PyTorch."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
from script_files import SCRIPTS, load_script


@pytest.fixture
def script() -> ModuleType:
    return load_script("compare_torch")


def test_errors_are_multiples_of_the_stated_tolerance(script: ModuleType) -> None:
    wanted = np.array([0.0, 100.0, np.nan, np.inf])
    got = wanted.astype(np.float32)
    assert script.error_of("layernorm", got, wanted) == 0
    got[1] = 100.01  # allowed: 1e-5 + 1e-5 * 100
    assert script.error_of("layernorm", got, wanted) == pytest.approx(9.9, rel=1e-2)
    for place, value in ((0, np.nan), (2, 0.0), (3, -np.inf), (1, np.inf)):
        spoiled = wanted.astype(np.float32)
        spoiled[place] = value
        assert script.error_of("layernorm", spoiled, wanted) == np.inf
    numbers = np.arange(3)
    assert script.error_of("pool2d", numbers, numbers) == 0
    assert script.error_of("pool2d", numbers + 1, numbers) == np.inf


def test_a_missing_pytorch_is_named(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "torch_operations", raising=False)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    assert script.main() == 2
    assert capsys.readouterr().err == "compare_torch needs PyTorch: pip install 'ge2rt[bench]'\n"
