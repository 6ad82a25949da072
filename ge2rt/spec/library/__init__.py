"""NumPy meanings of the operations in ``kernels/``, a file a family: what ``reference:`` calls.

Each has a table ``FUNCTIONS`` of its names. Arguments are arrays in f64 (integers as they are),
None for an absent optional buffer, and the attributes' values.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

FAMILIES = (
    "products", "quantised", "rows", "norms", "moving", "images", "sequences", "optimisers",
)  # fmt: skip


def functions() -> dict[str, Callable[..., Any]]:
    """All functions of all families; a name that two families define is an error of ours."""
    found: dict[str, Callable[..., Any]] = {}
    for family in FAMILIES:
        table = import_module(f"ge2rt.spec.library.{family}").FUNCTIONS
        assert not found.keys() & table.keys(), f"{family}: {found.keys() & table.keys()}"
        found.update(table)
    return found
