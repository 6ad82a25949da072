"""Operands and attributes for every op that has a derivative, away from kinks and poles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ge2rt.ir.ops import OPS

# operands that are not uniform in (0.2, 0.8), and attributes
RANGES = {"arccosh": (1.2, 2.0), "copysign": (-1.0, 1.0), "abs": (-1.0, 1.0), "fmod": (1.0, 9.0),
          "mod": (1.0, 9.0), "tan": (-1.0, 1.0), "cbrt": (0.5, 2.0), "sin": (-3.0, 3.0),
          "cos": (-3.0, 3.0), "erf": (-2.0, 2.0), "sigmoid": (-2.0, 2.0)}  # fmt: skip
SHAPES: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "matmul": ((2, 3, 4), (2, 4, 5)), "broadcast": ((3, 1),), "scatter_rows": ((5, 3), (5,)),
}  # fmt: skip
ATTRS: Mapping[str, Mapping[str, Any]] = {
    "cast": {"dtype": "f32"}, "broadcast": {"shape": (2, 3, 4)}, "transpose": {"perm": (1, 0)},
    "reshape": {"shape": (2, 6)}, "slice": {"start": (2, 0), "step": (-1, 2), "shape": (2, 2)},
    "pad": {"low": (1, 0), "high": (0, 2), "value": 0.0}, "concat": {"axis": 1},
    "cumsum": {"axis": 1}, "cumprod": {"axis": 1}, "sort": {"axis": 1},
    "scatter_rows": {"count": 4}, "sum": {"axes": (0,)}, "prod": {"axes": (1,)},
    "max": {"axes": (0, 1)}, "min": {"axes": (1,)},
}  # fmt: skip
DIFFERENTIABLE = [n for n, s in OPS.items() if "none" not in s.derivative]


def sample(op: str) -> tuple[list[Any], dict[str, Any]]:
    """Operands of an op, and its attributes."""
    spec = OPS[op]
    rng = np.random.default_rng(len(op))
    low, high = RANGES.get(op, (0.2, 0.8))
    shapes = SHAPES.get(op, tuple((3, 4) for _ in spec.operands))
    operands: list[Any] = []
    for operand, shape in zip(spec.operands, shapes, strict=True):
        values: Any = rng.uniform(low, high, shape)
        if operand.types == "bool":
            values = rng.random(shape) < 0.5
        elif operand.types == "index":
            values = rng.integers(0, 3, shape if op in SHAPES else (2, 2))
        operands.append(values)
    if op == "clamp":
        operands[1:] = [np.full((3, 4), 0.4), np.full((3, 4), 0.6)]
    return operands, dict(ATTRS.get(op, {}))
