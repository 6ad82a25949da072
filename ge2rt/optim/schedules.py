"""Learning rates by step: functions of the number of steps done, to be multiplied by the rate.

Those made here can be pickled, as the optimisers that have them: they are no closures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

Schedule = Callable[[int], float]


def cosine(steps: int, least: float = 0.0) -> Schedule:
    """From 1 down to ``least`` along a cosine (Loshchilov and Hutter, 2017), then ``least``."""
    return partial(_cosine, steps, least)


def linear_warmup(steps: int, then: Schedule | None = None) -> Schedule:
    """From ``1 / steps`` up to 1 in ``steps`` steps, then ``then`` of the further ones."""
    return partial(_linear_warmup, steps, then)


def step_decay(every: int, factor: float = 0.1) -> Schedule:
    """Multiplied by ``factor`` after each ``every`` steps."""
    return partial(_step_decay, every, factor)


def _cosine(steps: int, least: float, n: int) -> float:
    return least + (1 - least) * 0.5 * (1 + math.cos(math.pi * min(n / max(steps, 1), 1)))


def _linear_warmup(steps: int, then: Schedule | None, n: int) -> float:
    if n < steps:
        return (n + 1) / steps
    return 1.0 if then is None else then(n - steps)


def _step_decay(every: int, factor: float, n: int) -> float:
    return float(factor ** (n // every))
