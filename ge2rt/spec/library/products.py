"""NumPy meanings of matrix products with epilogues, their gradients, and quantised storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

FUNCTIONS: Mapping[str, Callable[..., Any]] = {}
