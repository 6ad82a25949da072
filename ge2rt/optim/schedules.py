"""Learning rates by step: functions of the number of steps done, to be multiplied by the rate."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def cosine(steps: int, least: float = 0.0) -> Schedule:
    """From 1 down to ``least`` along a cosine (Loshchilov and Hutter, 2017), then ``least``."""
    return lambda n: least + (1 - least) * 0.5 * (1 + math.cos(math.pi * min(n / max(steps, 1), 1)))


def linear_warmup(steps: int, then: Schedule | None = None) -> Schedule:
    """From ``1 / steps`` up to 1 in ``steps`` steps, then ``then`` of the further ones."""
    return lambda n: (n + 1) / steps if n < steps else 1.0 if then is None else then(n - steps)


def step_decay(every: int, factor: float = 0.1) -> Schedule:
    """Multiplied by ``factor`` after each ``every`` steps."""
    return lambda n: factor ** (n // every)
