"""Random numbers: Philox4x32-10, the same numbers on every device for the same seed.

A generator counts the words that it has used, so that two draws never share any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.faces import launch
from ge2rt.tensors import geometry as geo
from ge2rt.tensors.making import arange, empty
from ge2rt.tensors.tensor import Tensor


class Generator:
    """A stream of random numbers, by ``seed`` and the number of counters ``used``.

    ``state()`` and ``Generator(*state)`` go on where it is.
    """

    def __init__(self, seed: int = 0, used: int = 0) -> None:
        self.seed, self.used = int(seed), int(used)

    def __repr__(self) -> str:
        return f"Generator(seed={self.seed}, used={self.used})"

    def state(self) -> tuple[int, int]:
        """Seed, and the number of counters used (four words each)."""
        return self.seed, self.used

    def uniform(self, *shape: Any, low: float = 0.0, high: float = 1.0, dtype: Any = "f32",
                device: str | None = None) -> Tensor:  # fmt: skip
        """Numbers in ``[low, high)``."""
        return self._drawn("uniform", shape, low, high - low, dtype, device)

    def normal(self, *shape: Any, mean: float = 0.0, std: float = 1.0, dtype: Any = "f32",
               device: str | None = None) -> Tensor:  # fmt: skip
        """Normally distributed numbers."""
        return self._drawn("normal", shape, mean, std, dtype, device)

    def integers(self, low: int, high: int, shape: Any = (), device: str | None = None) -> Tensor:
        """i64 in ``[low, high)``, at most 2**32 different ones."""
        if not 0 < high - low <= 2**32:
            raise InvalidArgumentError(
                "no integers to draw from", got=f"{low} to {high}",
                expected="low < high, at most 2**32 apart", next_step="give another range",
            )  # fmt: skip
        drawn = self._drawn("uniform", (shape,), 0.0, float(high - low), "f64", device)
        whole: Tensor = drawn.floor().astype("i64") + low  # type: ignore[attr-defined]
        return whole

    def permutation(self, n: int, device: str | None = None) -> Tensor:
        """The numbers below ``n`` in random order."""
        if n == 0:
            return arange(0, device=device)
        order: Tensor = self._drawn("uniform", (n,), 0.0, 1.0, "f64", device).argsort()  # type: ignore[attr-defined]
        return order

    def _drawn(
        self, distribution: str, shape: tuple[Any, ...], low: float, width: float, dtype: Any,
        device: str | None,
    ) -> Tensor:  # fmt: skip
        extents = geo.ints("shape", shape[0] if len(shape) == 1 else shape)
        made = empty(extents, dtype=dtype, device=device)
        if not made.dtype.is_float:
            raise InvalidArgumentError(
                f"random numbers of {made.dtype}", expected="a floating point dtype",
                next_step="use integers(low, high, shape)",
            )  # fmt: skip
        if made.size:
            launch("RANDOM", out=made.array, distribution=distribution, seed=self.seed,
                   counter_base=self.used, low=low, width=width)  # fmt: skip
            self.used += -(-made.size // 4)
        return made


_shared = Generator(int(np.random.SeedSequence().generate_state(1)[0]))


def manual_seed(seed: int) -> Generator:
    """Start the shared generator anew; it is returned. Without this it starts anywhere.

    ``rand``, ``randn``, ``randint``, ``randperm`` and ``nn.functional.dropout`` draw from it.
    Layers draw their weights by ``nn.manual_seed``.
    """
    _shared.seed, _shared.used = int(seed), 0
    return _shared


def reserved(words: int) -> tuple[int, int]:
    """Seed and first counter for so many words of the shared generator, which are used up."""
    first = _shared.state()
    _shared.used += -(-words // 4)
    return first


def rand(*shape: Any, dtype: Any = "f32", device: str | None = None) -> Tensor:
    """Uniform numbers in [0, 1) from the shared generator."""
    return _shared.uniform(*shape, dtype=dtype, device=device)


def randn(*shape: Any, dtype: Any = "f32", device: str | None = None) -> Tensor:
    """Normally distributed numbers from the shared generator."""
    return _shared.normal(*shape, dtype=dtype, device=device)


def randint(low: int, high: int, shape: Any = (), device: str | None = None) -> Tensor:
    """i64 in ``[low, high)`` from the shared generator."""
    return _shared.integers(low, high, shape, device)


def randperm(n: int, device: str | None = None) -> Tensor:
    """The numbers below ``n`` in random order, from the shared generator."""
    return _shared.permutation(n, device)
