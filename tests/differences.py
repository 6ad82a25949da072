"""Gradients by central differences, for tests of backward meanings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def slopes(f: Callable[[Any], Any], x: Any, g: Any, step: float = 1e-6) -> Any:
    """Gradient of ``sum(g * f(x))`` by central differences."""
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        found[at] = np.sum(g * (f(up) - f(down))) / (2 * step)
    return found
