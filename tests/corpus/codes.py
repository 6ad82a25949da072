"""Ciphers, check sums and other arithmetic on bits."""

from __future__ import annotations

import base64
import hashlib
import zlib

import numpy as np

from corpus.program import Data, Launch, Program

Random = np.random.Generator
I32, U32, U8, U64 = np.int32, np.uint32, np.uint8, np.uint64


def _plain(r: Random) -> Data:
    return {
        "x": r.integers(0, 256, 500, U8), "n": I32(500), "code": np.zeros(668, U8),
        "quads": I32(167), "y": np.zeros(500, U8),
    }  # fmt: skip


def _coded(d: Data) -> Data:
    return {"code": np.frombuffer(base64.b64encode(d["x"].tobytes()), U8), "y": d["x"]}


def _messages(r: Random) -> Data:
    return {
        "x": r.integers(0, 2**32, (70, 9), U32), "each": I32(9), "n": I32(70),
        "a": np.zeros(70, U32), "b": np.zeros(70, U32),
    }  # fmt: skip


def _sums(d: Data) -> Data:
    sums = [zlib.crc32(row.tobytes()) for row in d["x"]]
    return {"a": sums, "b": sums}


def _short(r: Random) -> Data:
    lengths = r.integers(0, 56, 50, I32)
    lengths[:2] = 0, 55
    return {
        "x": r.integers(0, 256, (50, 56), U8), "lengths": lengths, "pitch": I32(56),
        "digests": np.zeros((50, 8), U32), "n": I32(50),
    }  # fmt: skip


def _digests(d: Data) -> Data:
    pairs = zip(d["x"], d["lengths"], strict=True)
    digests = b"".join(hashlib.sha256(row[:n].tobytes()).digest() for row, n in pairs)
    return {"digests": np.frombuffer(digests, ">u4").reshape(50, 8)}


def _states(r: Random) -> Data:
    return {
        "x": r.integers(0, 256, (60, 16), U8), "key": r.bytes(16), "y": np.zeros((60, 16), U8),
        "n": I32(60),
    }  # fmt: skip


def _times(a: int, b: int) -> int:
    product = 0
    for _ in range(8):
        product ^= a * (b & 1)
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def _box(x: int) -> int:
    inverse = next((y for y in range(256) if _times(x, y) == 1), 0)
    bits = [inverse >> k & 1 for k in range(8)]
    out = 0
    for k in range(8):
        mixed = bits[k] ^ bits[(k + 4) % 8] ^ bits[(k + 5) % 8] ^ bits[(k + 6) % 8]
        out |= (mixed ^ bits[(k + 7) % 8] ^ 0x63 >> k & 1) << k
    return out


def _rounds(d: Data) -> Data:
    box = np.array([_box(x) for x in range(256)], U8)
    two, three = (np.array([_times(k, x) for x in range(256)], U8) for k in (2, 3))
    assert (box[0], box[0x53]) == (0x63, 0xED)  # the standard's example
    s = box[d["x"]].reshape(60, 4, 4)  # column, row
    s = np.stack([np.roll(s[:, :, r], -r, 1) for r in range(4)], 2)
    a, b, c, e = (s[:, :, r] for r in range(4))
    rows = [
        two[p] ^ three[q] ^ u ^ v
        for p, q, u, v in ((a, b, c, e), (b, c, e, a), (c, e, a, b), (e, a, b, c))
    ]
    return {"y": np.stack(rows, 2).reshape(60, 16) ^ np.frombuffer(d["key"], U8)}


def _numbers(r: Random) -> Data:
    n = r.integers(2**10, 2**63, 60, U64) * U64(2) + U64(1)
    n[:10] = [3, 37, 41, 561, 2**61 - 1, 2**64 - 59, 3215031751, 2**32 + 15, 9, 2**64 - 1]
    n[40:] >>= U64(34)
    n[40:] |= U64(1)
    n[40:] = np.maximum(n[40:], U64(3))
    return {
        "n": n, "base": r.integers(0, 2**63, 60, U64), "e": r.integers(0, 2**63, 60, U64),
        "powers": np.zeros(60, U64), "prime": np.full(60, 7, U8), "count": I32(60),
    }  # fmt: skip


def _is_prime(n: int) -> bool:
    small = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if n in small or any(n % p == 0 for p in small):
        return n in small
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(
        pow(a, odd, n) == 1 or any(pow(a, odd << t, n) == n - 1 for t in range(twos)) for a in small
    )


def _powers(d: Data) -> Data:
    triples = zip(d["base"].tolist(), d["e"].tolist(), d["n"].tolist(), strict=True)
    return {
        "powers": np.array([pow(*t) for t in triples], U64),
        "prime": [_is_prime(n) for n in d["n"].tolist()],
    }  # fmt: skip


PROGRAMS = (
    Program(
        "base64", _plain,
        (Launch((3,), (64,), "x n code", "encode"),
         Launch((3,), (64,), "code quads y n", "decode")),
        _coded,
    ),
    Program("crc32", _messages, (Launch((2,), (64,), "x each n a b"),), _sums),
    Program(
        "sha256", _short, (Launch((2,), (32,), "x lengths pitch digests n"),), _digests,
        follows="hashcat: SHA-256 kernels",
    ),
    Program("aes_round", _states, (Launch((2,), (32,), "x key y n"),), _rounds),
    Program(
        "modular_power", _numbers, (Launch((2,), (32,), "n base e powers prime count"),), _powers
    ),
)  # fmt: skip
