"""All threads of a random program at once: what its statements and functions do, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

DTYPES = {
    "int": "i4",
    "unsigned": "u4",
    "long long": "i8",
    "unsigned long long": "u8",
    "short": "i2",
    "unsigned char": "u1",
    "signed char": "i1",
    "float": "f4",
    "double": "f8",
}
UNSIGNED = {
    "int": "unsigned",
    "long long": "unsigned long long",
    "short": "unsigned short",
    "signed char": "unsigned char",
}
WORDS = ("int", "unsigned", "long long", "unsigned long long")
FLOATS = ("float", "double")
INPUT = 256  # elements of each input array
SLOTS = 16  # of the counters that all threads share
LOCAL = 8

HELPERS = """
static __device__ __noinline__ int steps(unsigned v) {
  int n = 0; v = v % 97u + 1u;
  while (v != 1u && n < 40) { v = v & 1u ? 3u * v + 1u : v / 2u; n++; }
  return n;
}
static __device__ __noinline__ unsigned divisor(unsigned a, unsigned b) {
  a = a % 1000u + 1u; b = b % 1000u + 1u;
  while (b) { unsigned t = a % b; a = b; b = t; }
  return a;
}
struct Pair { int low; long long high; };
static __device__ __noinline__ Pair apart(long long v, int by) {
  Pair p; p.low = (int)v ^ by; p.high = v < 0 ? v >> (by & 31) : v;
  return p;
}
static __device__ unsigned clamped_shl(unsigned a, unsigned b) {
  unsigned r; asm("shl.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r;
}
static __device__ int clamped_shr(int a, unsigned b) {
  int r; asm("shr.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r;
}
static __device__ unsigned narrow_add(unsigned a, unsigned b) {
  unsigned short x = a, y = b, r; asm("add.u16 %0, %1, %2;" : "=h"(r) : "h"(x), "h"(y)); return r;
}
__constant__ int table[16] = {3,-1,4,1,-5,9,2,6,-5,3,5,8,-9,7,9,3};
"""
TABLE = np.array([3, -1, 4, 1, -5, 9, 2, 6, -5, 3, 5, 8, -9, 7, 9, 3], "i4")


class State:
    """All threads of a launch: their variables, places and memory."""

    def __init__(self, grid: tuple[int, ...], block: tuple[int, ...], memory: dict[str, Any]):
        size, blocks = int(np.prod(block)), int(np.prod(grid))
        self.threads, self.size = size * blocks, size
        linear = np.tile(np.arange(size), blocks)
        self.block = np.repeat(np.arange(blocks), size)
        places = {
            "threadIdx.x": linear % block[0],
            "threadIdx.y": linear // block[0] % block[1],
            "threadIdx.z": linear // (block[0] * block[1]),
            "blockIdx.x": self.block % grid[0],
            "blockIdx.y": self.block // grid[0] % grid[1],
            "blockIdx.z": self.block // (grid[0] * grid[1]),
        }
        self.linear = linear
        self.warp = self.block * 64 + linear // 32
        self.vars: dict[str, np.ndarray] = {k: v.astype("u4") for k, v in places.items()}
        self.vars["lin"] = linear.astype("u4")
        self.vars["gid"] = np.arange(self.threads).astype("u4")
        self.memory = memory
        self.local = np.zeros((self.threads, LOCAL), "i4")
        self.shared = np.zeros(self.threads, "i4")
        self.off = np.zeros(self.threads, bool)  # left by break, continue or return
        self.exits: dict[str, np.ndarray] = {}  # of the innermost loop

    def spread(self, value: Any, dtype: str) -> np.ndarray:
        return np.full(self.threads, value).astype(dtype)


def leave(s: State, mask: np.ndarray, word: str) -> None:
    mask = mask.astype(bool)
    s.off |= mask
    if word != "return":
        s.exits[word] |= mask


def put(s: State, mask: np.ndarray, name: str, value: np.ndarray) -> None:
    old = s.vars[name]
    s.vars[name] = np.where(mask, value.astype(old.dtype), old)


def popc(a: np.ndarray) -> np.ndarray:
    return np.unpackbits(a.view("u1").reshape(-1, 4), axis=1).sum(axis=1)


def brev(a: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(a.view("u1").reshape(-1, 4), axis=1, bitorder="little")[:, ::-1]
    return np.packbits(bits, axis=1, bitorder="little").view("u4").reshape(-1)


def clz(a: np.ndarray) -> np.ndarray:
    return np.array([32 - int(v).bit_length() for v in a])


def steps_of(a: np.ndarray) -> np.ndarray:
    out = []
    for start in (a % 97 + 1).tolist():
        v, n = start, 0
        while v != 1 and n < 40:
            v, n = (3 * v + 1 if v & 1 else v // 2), n + 1
        out.append(n)
    return np.array(out)


def to_int(a: np.ndarray) -> np.ndarray:
    wide = np.clip(np.trunc(a.astype("f8")), -(2.0**31), 2.0**31 - 1)
    return np.where(np.isnan(wide), 0, wide).astype("i4")


def across_warp(s: State, mask: np.ndarray, what: str, p: np.ndarray, e: np.ndarray) -> np.ndarray:
    out = np.zeros(s.threads, "i8")
    for warp in np.unique(s.warp[mask]):
        lanes = np.flatnonzero(mask & (s.warp == warp))
        bits = sum(1 << int(s.linear[k] % 32) for k in lanes if p[k])
        out[lanes] = {
            "ballot": bits,
            "count": bits.bit_count(),
            "sum": int(e[lanes].astype("i4").sum(dtype="i4")),
            "first": int(e[lanes[0]]),
            "any": int(bits != 0),
            "all": int(p[lanes].all()),
        }[what]
    return out
