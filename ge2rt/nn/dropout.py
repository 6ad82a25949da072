"""Dropout by a stated stream of random words: in operators, inside ``@jit``, as in DROPOUT.

Element i (row-major) is kept where word ``i % 4`` of Philox4x32-10 with counter ``base + i // 4``
and key ``seed`` is at least ``p * 2**32``. The mask is computed anew on the way back, never kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ge2rt.nn import checks
from ge2rt.nn.composite import composite
from ge2rt.nn.module import Module, refuse_lost
from ge2rt.nn.seeds import next_seed
from ge2rt.tensors.making import tensor, zeros
from ge2rt.tensors.tensor import Tensor

_LOW = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85


@composite("p")
def stream_dropout(x: Any, seed: Any, base: Any = 0, p: float = 0.5) -> Any:
    """``x / (1 - p)`` or 0, where a word of the stream is below ``p * 2**32``.

    ``seed`` and ``base`` are integers (arrays of rank 0 in a trace); a call uses
    ``ceil(x.size / 4)`` counters from ``base``. ValueError for p outside of [0, 1).
    """
    checks.share("dropout", p)
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
    """Drops a share ``p`` of the elements in training and scales the others; the identity else.

    Without a ``seed`` each module has one of its own (``nn.manual_seed``). ``used`` (i64, 0-d)
    counts the stream's counters and is part of the state, so that a resumed run goes on with the
    same masks. A jitted function is to be given it, or it would drop the same elements at each
    call: ``nn.stateful_call`` takes it and gives the next one. ValueError for p outside of [0, 1).
    """

    def __init__(self, p: float = 0.5, seed: int | None = None) -> None:
        checks.share("Dropout", p)
        self.p, self.seed = p, next_seed() if seed is None else seed
        self.used = zeros(dtype="i64")

    def forward(self, x: Any) -> Any:
        """The same shape. In a trace InvalidTypeError where ``used`` is not among its arguments."""
        if not self.training or self.p == 0:
            return x
        if isinstance(self.used, Tensor):
            refuse_lost(self, "used", x)
        y = stream_dropout(x, self.seed, self.used, p=self.p)
        count = -(-x.size // 4)
        if isinstance(self.used, Tensor):
            self.used = tensor(self.used.item() + count, dtype="i64")
        else:
            self.used = self.used + count
        return y

    def describe(self) -> str:
        """Its share."""
        return f"p={self.p}"
