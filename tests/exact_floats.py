"""IEEE 754 formats in exact arithmetic: what a correctly rounded result is, from its definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Format:
    """Total bits, precision p (with the hidden bit) and largest exponent."""

    bits: int
    p: int
    emax: int

    @property
    def emin(self) -> int:
        return 1 - self.emax

    @property
    def infinity(self) -> int:
        return ((2 << (self.bits - self.p)) // 2 - 1) << (self.p - 1)

    def decode(self, word: int) -> float:
        """The number; a double holds those of all formats here."""
        sign = -1.0 if word >> (self.bits - 1) else 1.0
        size = word & ((1 << (self.bits - 1)) - 1)
        if size >= self.infinity:
            return sign * math.inf if size == self.infinity else math.nan
        exponent, mantissa = size >> (self.p - 1), size & ((1 << (self.p - 1)) - 1)
        if exponent:
            mantissa += 1 << (self.p - 1)
        return sign * math.ldexp(mantissa, max(exponent, 1) + self.emin - 1 - (self.p - 1))

    def round(self, x: Fraction | float, mode: str, minus_zero: bool = False) -> int:
        """The bits of x (a number, infinity or NaN) rounded by ``mode``."""
        if isinstance(x, float):
            if math.isnan(x):
                return self.infinity + 1
            if math.isinf(x):
                return self.infinity | self._sign(x < 0)
            minus_zero = math.copysign(1, x) < 0
            x = Fraction(x)
        if x == 0:
            return self._sign(minus_zero)
        negative, size = x < 0, abs(x)
        e = size.numerator.bit_length() - size.denominator.bit_length()
        e -= size < Fraction(2) ** e
        e = max(e, self.emin)
        scaled = size / Fraction(2) ** (e - self.p + 1)
        n = math.floor(scaled)
        n += _rounds_up(scaled - n, n, negative, mode)
        if n == 1 << self.p:
            e, n = e + 1, n >> 1
        if e > self.emax:
            stays = mode == "rz" or mode == ("rp" if negative else "rm")
            return (self.infinity - stays) | self._sign(negative)
        if n >= 1 << (self.p - 1):
            n += (e - self.emin) << (self.p - 1)
        return n | self._sign(negative)

    def _sign(self, negative: bool) -> int:
        return int(negative) << (self.bits - 1)


def _rounds_up(rest: Fraction, n: int, negative: bool, mode: str) -> bool:
    half = Fraction(1, 2)
    if mode == "rn":
        return rest > half or (rest == half and n % 2 == 1)
    if mode == "rna":
        return rest >= half
    return rest > 0 and mode == ("rm" if negative else "rp")


FORMATS = {"f16": Format(16, 11, 15), "bf16": Format(16, 8, 127), "f32": Format(32, 24, 127),
           "f64": Format(64, 53, 1023)}  # fmt: skip


def exact_fma(a: float, b: float, c: float, mode: str) -> tuple[Fraction | float, bool]:
    """a * b + c, and whether it is -0 if it is zero."""
    if not all(map(math.isfinite, (a, b, c))):
        if math.isfinite(a) and math.isfinite(b):
            return c, False
        product = a * b
        return product + c if not math.isfinite(c) else product, False
    total = Fraction(a) * Fraction(b) + Fraction(c)
    signs = (math.copysign(1, a) * math.copysign(1, b) < 0, math.copysign(1, c) < 0)
    return total, all(signs) or (any(signs) and mode == "rm")


def exact_div(a: float, b: float) -> tuple[Fraction | float, bool]:
    """a / b, and whether it is -0 if it is zero."""
    negative = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or a == b == 0:
        return math.nan, False
    if math.isinf(b):
        return Fraction(0), negative
    if math.isinf(a) or b == 0:
        return -math.inf if negative else math.inf, False
    return Fraction(a) / Fraction(b), negative


def exact_sqrt(a: float) -> tuple[Fraction | float, bool]:
    """The root; an irrational one is replaced by a number that rounds the same way."""
    if math.isnan(a) or a < 0:
        return math.nan, False
    if math.isinf(a) or a == 0:
        return a, math.copysign(1, a) < 0
    x = Fraction(a)
    scale = 1 << 1400
    square = x.numerator * scale * scale // x.denominator
    root = math.isqrt(square)
    exact = root * root == square and x.numerator * scale * scale % x.denominator == 0
    return Fraction(root, scale) if exact else Fraction(2 * root + 1, 2 * scale), False


def words(array: np.ndarray) -> np.ndarray:
    """Floats as their bits."""
    return array.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def edges(name: str) -> list[int]:
    """Zeros, subnormals, neighbours of powers of two, the largest, infinities, NaN."""
    f = FORMATS[name]
    one, tiny = f.emax << (f.p - 1), 1 << (f.p - 1)
    plain = [0, 1, 2, 3, tiny - 1, tiny, tiny + 1, one - 1, one, one + 1, one + tiny // 2,
             one + tiny, f.infinity - 1, f.infinity, f.infinity + tiny // 2]  # fmt: skip
    sign = 1 << (f.bits - 1)
    return [*plain, *(v | sign for v in plain)]


def samples(name: str, arity: int, count: int, seed: int) -> list[np.ndarray]:
    """Operands' bits: mixed edges, then random bits, then random numbers of similar size."""
    rng = np.random.default_rng(seed)
    f = FORMATS[name]
    kind = np.dtype(f"u{f.bits // 8}")
    out = []
    close = rng.integers(f.emax - 12, f.emax + 12, count)
    for k in range(arity):
        edge = rng.choice(np.array(edges(name), kind), count)
        wild = rng.integers(0, 1 << f.bits, count, dtype=kind, endpoint=False)
        exponent = (close + rng.integers(-1, 2, count)).astype(kind) << kind.type(f.p - 1)
        low = rng.integers(0, 1 << (f.p - 1), count, dtype=kind)
        sign = rng.integers(0, 2, count).astype(kind) << kind.type(f.bits - 1)
        out.append(np.concatenate([edge, wild, exponent | low | sign]))
        del k
    return out


def assert_same(name: str, form: str, got: np.ndarray, want: list[int], given: list) -> None:
    """Equal bits; any NaN for NaN."""
    f = FORMATS[name]
    size = (1 << (f.bits - 1)) - 1
    for k, (g, w) in enumerate(zip(words(got).tolist(), want, strict=True)):
        both_nan = (g & size) > f.infinity and (w & size) > f.infinity
        assert g == w or both_nan, (form, [hex(int(x[k])) for x in given], hex(g), hex(w))


def evaluate(name: str, given: list, rule: Callable[..., tuple], mode: str) -> list[int]:
    """``rule`` on the decoded operands, rounded once."""
    f = FORMATS[name]
    decoded = [[f.decode(int(w)) for w in x] for x in given]
    return [f.round(*_ordered(rule(*row), mode)) for row in zip(*decoded, strict=True)]


def _ordered(exact: tuple, mode: str) -> tuple:
    return exact[0], mode, exact[1]
