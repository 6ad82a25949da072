"""NumPy meanings of embedding, gather, scatter, concat, slice, pad, permute, cast, fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

FUNCTIONS: Mapping[str, Callable[..., Any]] = {}
