"""Operands that instruction forms are fed with: edge values, random words, numbers of like size."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from exact_floats import FORMATS, edges
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_WHOLE = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF,
          0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 0x100000000,
          0x123456789ABCDEF0, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000,
          0xFFFFFFFFFFFFFFFF)  # fmt: skip
_COUNTS = (0, 1, 2, 7, 8, 15, 16, 17, 30, 31, 32, 33, 47, 48, 62, 63, 64, 65, 127, 128, 255, 256,
           0x80000000, 0xFFFFFFFF)  # fmt: skip
_PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "u8x4": "u8",
           "s8x4": "s8", "e4m3x2": "u8", "e5m2x2": "u8"}  # fmt: skip
NAMED = ("count", "bit", "lane", "nth", "clamp", "everyone", "members", "few", "vote")
"""Kinds of operands that are words of 32 bits with a meaning: see :func:`_special`."""
# Places where a conversion turns: halves of integers, and the ends of the integer types.
_TURNS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 126.5, 127.5, 128.0, 254.5, 255.5, 256.0, 32766.5,
          32767.5, 32768.0, 65534.5, 65535.5, 65536.0, 2.0**23 + 1, 2.0**24, 2.0**31 - 128,
          2147483647.0, 2147483647.5, 2.0**31, 2.0**32 - 256, 4294967295.5, 2.0**32, 2.0**63 - 1024,
          2.0**63, 2.0**64 - 2048, 2.0**64)  # fmt: skip


def bits_of(kind: str) -> int:
    """Width of a type."""
    if kind in NAMED:
        return 32
    if kind in _PACKED:
        return 16 if kind[0] == "e" else 32
    return 1 if kind == "pred" else int(kind.lstrip("usbf"))


def edge_words(kind: str) -> list[int]:
    """The edge values of one element of a type, as bits."""
    if kind in ("pred", "bit"):
        return [0, 1]
    if kind == "count":
        return list(_COUNTS)
    if kind in FORMATS:
        turns = [FORMATS[kind].round(s * v, "rz") for v in _TURNS for s in (1.0, -1.0)]
        return list(dict.fromkeys([*edges(kind), *turns]))
    mask = (1 << bits_of(kind)) - 1
    return list(dict.fromkeys(v & mask for v in _WHOLE))


def feed(kinds: Sequence[str], count: int, seed: str) -> list[Words]:
    """Operands of one instruction: ``count`` of edges, of random words and of like sizes each.

    The edges of several operands meet in a random order of all combinations; each edge of a
    single operand comes at least once where ``count`` allows it.
    """
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    elements = [_PACKED.get(k, k) for k in kinds]
    parts = [_parts(kind) for kind in kinds]
    drawn = [_columns(elements, count, rng) for _ in range(max(parts, default=0))]
    out = []
    for at, (element, number) in enumerate(zip(elements, parts, strict=True)):
        words = np.zeros(3 * count, np.uint64)
        for k in range(number):
            words |= drawn[k][at] << np.uint64(k * bits_of(element))
        out.append(_special(element, words, rng))
    return out


def _special(kind: str, words: Words, rng: np.random.Generator) -> Words:
    """Operands that mean something to a warp: member masks that its lanes agree on, and so on."""
    lane = np.arange(words.size, dtype=np.uint64) % np.uint64(32)
    warp = np.arange(words.size) // 32
    if kind == "vote":  # nobody, everybody, some
        return np.where(warp % 3 == 0, 0, np.where(warp % 3 == 1, 1, words & np.uint64(1)))
    if kind == "few":  # warps that agree, and warps of three values
        three = words[rng.integers(0, 3, words.size)]
        return np.where(warp % 2 == 0, words[warp], three)
    if kind == "members":  # everybody, halves, even and odd lanes, quarters
        quarter = np.uint64(0xFF) << (lane & np.uint64(24))
        half = np.uint64(0xFFFF) << (lane & np.uint64(16))
        odd = np.uint64(0x55555555) << (lane & np.uint64(1))
        return np.choose(warp % 4, [np.uint64(0xFFFFFFFF), half, odd, quarter])
    tables = {"lane": range(32), "nth": [*range(1, 34), *range(2**32 - 33, 2**32)], "bit": (0, 1),
              "everyone": [0xFFFFFFFF],
              "clamp": [0x1F, 0, 0x1F, 0x101F, 0x181F, 0x1C1F, 0x1E1F, 0x1000, 7]}  # fmt: skip
    if kind not in tables:
        return words
    table = np.array([*tables[kind]], np.uint64)
    return table[warp % table.size] if kind == "clamp" else rng.choice(table, words.size)


def _parts(kind: str) -> int:
    return bits_of(kind) // bits_of(_PACKED[kind]) if kind in _PACKED else 1


def _columns(kinds: Sequence[str], count: int, rng: np.random.Generator) -> list[Words]:
    met = _edges_met([edge_words(k) for k in kinds], count, rng)
    close = rng.integers(-10, 11, count)
    out = []
    for kind, edge in zip(kinds, met, strict=True):
        wild = _wild(kind, count, rng)
        out.append(np.concatenate([edge, wild, _alike(kind, close, rng)]))
    return out


def _edges_met(lists: list[list[int]], count: int, rng: np.random.Generator) -> list[Words]:
    total = math.prod(map(len, lists))
    if total <= 100_000:
        rows = np.array(list(itertools.product(*lists)), np.uint64).reshape(total, len(lists))
        chosen = np.resize(rng.permutation(total), count)
        return [rows[chosen, k] for k in range(len(lists))]
    return [rng.choice(np.array(one, np.uint64), count) for one in lists]


def _wild(kind: str, count: int, rng: np.random.Generator) -> Words:
    if kind == "count":
        return rng.integers(0, 70, count, dtype=np.uint64)
    top = np.uint64((1 << bits_of(kind)) - 1)
    return rng.integers(0, top, count, dtype=np.uint64, endpoint=True)


def _alike(kind: str, close: NDArray[Any], rng: np.random.Generator) -> Words:
    """Floats of about the size 2^close; integers of random length."""
    count = close.size
    if kind in ("pred", *NAMED):
        return _wild(kind, count, rng)
    if kind not in FORMATS:
        kept = rng.integers(0, bits_of(kind), count).astype(np.uint64)
        words = _wild(kind, count, rng) >> kept
        negative = rng.integers(0, 2, count).astype(bool)
        mask = np.uint64((1 << bits_of(kind)) - 1)
        return np.where(negative, (~words) & mask, words)
    f = FORMATS[kind]
    exponent = (f.emax + close + rng.integers(-1, 2, count)).astype(np.uint64)
    low = rng.integers(0, 1 << (f.p - 1), count, dtype=np.uint64)
    sign = rng.integers(0, 2, count).astype(np.uint64)
    return exponent << np.uint64(f.p - 1) | low | sign << np.uint64(f.bits - 1)
