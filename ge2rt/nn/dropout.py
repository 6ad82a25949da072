"""Dropout by a stated stream of random words: in operators, inside ``@jit``, as in DROPOUT.

Element i (row-major) is kept where word ``i % 4`` of Philox4x32-10 with counter ``base + i // 4``
and key ``seed`` is at least ``p * 2**32``. The mask is computed anew on the way back, never kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.nn.composite import composite
from ge2rt.nn.layers import next_seed
from ge2rt.nn.module import Module
from ge2rt.tensors.making import tensor, zeros
from ge2rt.tensors.tensor import Tensor

_LOW = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85


@composite("p")
def dropout(x: Any, seed: Any, base: Any = 0, p: float = 0.5) -> Any:
    """``x / (1 - p)`` or 0, where a word of the stream is below ``p * 2**32``.

    ``seed`` and ``base`` are integers (arrays of rank 0 in a trace); a call uses
    ``ceil(x.size / 4)`` counters from ``base``. ValueError for p outside of [0, 1).
    """
    if not 0 <= p < 1:
        raise InvalidArgumentError(
            "the share that is dropped lies outside of [0, 1)", argument="p", got=str(p),
            next_step="give 0 <= p < 1",
        )  # fmt: skip
    if p == 0:
        return x
    words = philox_words(x.size, seed, base).reshape(x.shape)
    kept = words >= np.uint64(int(p * 2**32))
    return np.where(kept, x / (1 - p), 0)


def philox_words(count: int, seed: Any, base: Any) -> Any:
    """The first ``count`` words (u64 arrays of 32-bit values) of the stream."""
    number = np.arange(count).astype(np.uint64)
    at = number // 4 + _u64(base)
    key = _u64(seed)
    c0, c1, c2, c3 = at & _LOW, at >> 32, at * 0, at * 0
    k0, k1 = key & _LOW, key >> 32
    for _ in range(10):
        left, right = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (right >> 32) ^ c1 ^ k0, right & _LOW, (left >> 32) ^ c3 ^ k1, left & _LOW
        )  # fmt: skip
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    which = number % 4
    return np.where(
        which == 0, c0, np.where(which == 1, c1, np.where(which == 2, c2, c3))
    )  # fmt: skip


def _u64(value: Any) -> Any:
    return np.uint64(value % 2**64) if isinstance(value, int) else value.astype(np.uint64)


class Dropout(Module):
    """Drops elements in training; the identity else.

    Without a ``seed`` each module has one of its own (``nn.manual_seed``). ``used`` counts the
    stream's counters and is part of the state, so that a resumed run goes on with the same masks. A
    trace sees it as it is: pass it on by ``functional_call`` where each step of a jitted function
    is to drop others.
    """

    def __init__(self, p: float = 0.5, seed: int | None = None) -> None:
        self.p, self.seed = p, next_seed() if seed is None else seed
        self.used = zeros(dtype="i64")

    def forward(self, x: Any) -> Any:
        """The same shape."""
        if not self.training or self.p == 0:
            return x
        y = dropout(x, self.seed, self.used, p=self.p)
        if isinstance(x, Tensor) and isinstance(self.used, Tensor):
            self.used = tensor(self.used.item() + -(-x.size // 4), dtype="i64")
        return y

    def describe(self) -> str:
        """Its share."""
        return f"p={self.p}"
