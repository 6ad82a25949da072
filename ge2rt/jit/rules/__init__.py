"""The builders of the table, by subject. Importing this package fills the table."""

from __future__ import annotations

from ge2rt.jit.rules import (
    assignment,
    contraction,
    indexing,
    joining,
    making,
    ordering,
    padding,
    pointwise,
    reductions,
    shapes,
    statistics,
)

__all__ = [
    "assignment", "contraction", "indexing", "joining", "making", "ordering", "padding",
    "pointwise", "reductions", "shapes", "statistics",
]  # fmt: skip
