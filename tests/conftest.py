"""Settings of every test: one compile cache for the session, no switches from outside, options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

_KEPT = "TEST_CACHE"  # a folder that outlives the session, for quick repeated runs by hand
_PASSED_ON = ("GE2RT_CPU_FEATURES", "GE2RT_THREADS", "GE2RT_LANES", "GE2RT_NO_STUB")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ge2rt")
    group.addoption("--full", action="store_true", help="run the whole grids of cases")
    group.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


def pytest_configure(config: pytest.Config) -> None:
    """Drop switches of the user's, but those under which a whole run is wanted (AVX2 code...)."""
    for name in list(os.environ):
        if name.startswith("GE2RT_") and name not in _PASSED_ON:
            del os.environ[name]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked ``daily(n)`` n cases run a day, others the next; all with ``--full``."""
    if config.getoption("--full"):
        return
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("daily"):
            groups.setdefault(item.nodeid.split("[")[0], []).append(item)
    others: set[pytest.Item] = set()
    for cases in groups.values():
        (daily,) = cases[0].get_closest_marker("daily").args
        start = date.today().toordinal() * daily % len(cases)
        others |= {*cases} - {*(cases + cases)[start : start + daily]}
    if others:
        config.hook.pytest_deselected(items=[item for item in items if item in others])
        items[:] = [item for item in items if item not in others]


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The session's own compile cache: each kernel is compiled once."""
    folder = Path(os.environ.get(_KEPT) or tmp_path_factory.mktemp("ge2rt-cache"))
    os.environ["GE2RT_CACHE_DIR"] = str(folder)
    yield folder
    del os.environ["GE2RT_CACHE_DIR"]


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Whether ``--full`` was given."""
    return bool(request.config.getoption("--full"))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether ``--update-golden`` was given."""
    return bool(request.config.getoption("--update-golden"))
