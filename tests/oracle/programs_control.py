"""Programs whose lanes part ways: loops, switches, calls, local arrays, early returns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.programs import CudaProgram
from oracle.programs_plain import bits, normal, zeros

Array = NDArray[Any]

COLLATZ = r"""
extern "C" __global__ void k(const unsigned* a, int* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = a[i]; int steps = 0;
  while (v != 1) { v = v & 1 ? 3 * v + 1 : v / 2; if (++steps == 100) break; }
  o[i] = steps;
}"""

NESTED = r"""
extern "C" __global__ void k(const int* a, int* o) {
  int i = threadIdx.x, sum = 0;
  for (int r = 0; r < a[i]; r++) {
    if (r % 3 == i % 3) continue;
    for (int c = r; c < 12; c++) { if (c == a[i]) break; sum += c * (c & 1 ? 1 : -2); }
  }
  o[i] = sum;
}"""

SWITCH = r"""
extern "C" __global__ void k(const int* op, const float* x, float* o) {
  int i = threadIdx.x; float v = x[i];
  switch (op[i]) {
    case 0: v = v + 1.f; break;
    case 1: v = v * v; break;
    case 2: v = -v;
    case 3: v = v - 3.f; break;
    case 4: v = fabsf(v); break;
    case 5: for (int j = 0; j < 3; j++) v = v * 0.5f + j; break;
    case 6: v = sqrtf(fabsf(v)); break;
    case 7: v = v > 0 ? 1.f : 2.f; break;
    default: v = 99.f;
  }
  o[i] = v;
}"""

JUMPS = r"""
extern "C" __global__ void k(const int* op, int* o) {
  int i = threadIdx.x, v = 0;
  asm("{\n .reg .u32 x;\n mov.u32 x, %1;\n T: .branchtargets A, B, C;\n brx.idx x, T;\n"
      " A: mov.u32 %0, 11;\n bra END;\n B: mov.u32 %0, 22;\n bra END;\n C: mov.u32 %0, 33;\n"
      " END:\n}" : "=r"(v) : "r"(op[i]));
  o[i] = v + i;
}"""

LOCAL = r"""
extern "C" __global__ void k(const int* a, int* o, int n) {
  int i = threadIdx.x; int s[16];
  for (int j = 0; j < n; j++) s[j] = a[i * 16 + j];
  for (int j = 1; j < n; j++) {
    int v = s[j], t = j;
    while (t > 0 && s[t - 1] > v) { s[t] = s[t - 1]; t--; }
    s[t] = v;
  }
  for (int j = 0; j < n; j++) o[i * 16 + j] = s[j];
}"""

CALLS = r"""
struct P { float x, y; int n; };
__device__ __noinline__ P turn(P p, float c) {
  P q; q.x = p.y * c; q.y = -p.x; q.n = p.n + 1; return q;
}
__device__ __noinline__ void store(float* o, const P& p) { o[0] = p.x + p.y; o[1] = p.n; }
extern "C" __global__ void k(const float* a, float* o) {
  int i = threadIdx.x; P p; p.x = a[i]; p.y = a[i] + 1; p.n = 0;
  for (int j = 0; j < i % 5; j++) p = turn(p, 1.5f);
  if (i & 1) p = turn(p, 2.f);
  store(o + 2 * i, p);
}"""

RECURSION = r"""
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void k(int* o) { o[threadIdx.x] = fib(threadIdx.x % 9); }"""

# Every depth keeps an array of its own across the call below it.
STACKED = r"""
__device__ __noinline__ int walk(int n, int seed) {
  int own[8];
  for (int i = 0; i < 8; i++) own[i] = seed * (i + 1);
  if (n == 0) return own[seed & 7];
  int below = walk(n - 1, seed + 1);
  return below + own[(seed + below) & 7];
}
extern "C" __global__ void k(int* o) {
  int own[4];
  for (int i = 0; i < 4; i++) own[i] = threadIdx.x + i;
  int below = walk(threadIdx.x % 6, threadIdx.x);
  o[threadIdx.x] = below * 10 + own[below & 3];
}"""

POINTERS = r"""
__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float square(float x) { return x * x; }
__device__ __noinline__ float minus(float x) { return 1 - x; }
__device__ float (*table[3])(float) = {twice, square, minus};
extern "C" __global__ void k(const int* w, const float* x, float* o) {
  int i = threadIdx.x; o[i] = table[w[i]](x[i]);
}"""

EARLY = r"""
extern "C" __global__ void k(const float* a, float* o, int n) {
  __shared__ float s[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = 0;
  __syncthreads();
  if (i >= n) return;
  s[threadIdx.x] = a[i];
  __syncthreads();
  float sum = 0;
  for (int j = 0; j < blockDim.x; j++) sum += s[j];
  o[i] = sum;
}"""

BINARY_SEARCH = r"""
extern "C" __global__ void k(const int* keys, int n, const int* q, int* o) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lo = 0, hi = n;
  while (lo < hi) { int mid = (lo + hi) >> 1; if (keys[mid] < q[i]) lo = mid + 1; else hi = mid; }
  o[i] = lo;
}"""


def _collatz_answer(v: list[Any]) -> dict[int, Array]:
    out = []
    for start in v[0].tolist():
        value, steps = start, 0
        while value != 1 and steps < 100:
            value = 3 * value + 1 if value & 1 else value // 2
            steps += 1
        out.append(steps)
    return {1: np.array(out, np.int32)}


def _nested_one(a: int, i: int) -> int:
    total = 0
    for r in range(a):
        if r % 3 == i % 3:
            continue
        for c in range(r, 12):
            if c == a:
                break
            total += c * (1 if c & 1 else -2)
    return total


def _switch_one(op: int, x: np.float32) -> Any:
    f = np.float32
    chain = x
    for j in range(3):
        chain = f(chain * f(0.5) + f(j))
    table = [x + f(1), x * x, -x - f(3), x - f(3), abs(x), chain, np.sqrt(abs(x)),
             f(1) if x > 0 else f(2)]  # fmt: skip
    return table[op] if 0 <= op < 8 else f(99)


def _calls_answer(v: list[Any]) -> dict[int, Array]:
    f, out = np.float32, []
    for i, a in enumerate(v[0]):
        x, y, n = a, a + f(1), 0
        for c in [f(1.5)] * (i % 5) + [f(2)] * (i & 1):
            x, y, n = y * c, -x, n + 1
        out += [x + y, n]
    return {1: np.array(out, np.float32)}


def _fibonacci(n: int) -> int:
    return n if n < 2 else _fibonacci(n - 1) + _fibonacci(n - 2)


def _walk(n: int, seed: int) -> int:
    own = [seed * (i + 1) for i in range(8)]
    if n == 0:
        return own[seed & 7]
    below = _walk(n - 1, seed + 1)
    return below + own[(seed + below) & 7]


def _stacked_answer(v: list[Any]) -> dict[int, Array]:
    below = [_walk(i % 6, i) for i in range(40)]
    return {0: np.array([10 * b + i + (b & 3) for i, b in enumerate(below)], np.int32)}


def _pointer_answer(v: list[Any]) -> dict[int, Array]:
    w, x = v[0], v[1]
    return {2: np.choose(w, [2 * x, x * x, 1 - x])}


def _early_answer(v: list[Any]) -> dict[int, Array]:
    a, n = v[0].astype(np.float64), int(v[2])
    out = np.zeros(a.size, np.float32)
    for start in range(0, n, 100):
        out[start : min(n, start + 100)] = a[start : min(n, start + 100)].sum()
    return {1: out}


def _search_build(r: np.random.Generator) -> list[Any]:
    keys = np.sort(r.integers(0, 500, 200)).astype(np.int32)
    return [keys, np.int32(200), r.integers(-5, 510, 128).astype(np.int32), zeros(128, "i4")]


PROGRAMS = [
    CudaProgram("collatz", COLLATZ, (3,), (77,), lambda r: [
        r.integers(1, 3000, 231).astype("u4"), zeros(231, "i4"), np.int32(231)], _collatz_answer),
    CudaProgram("nested_loops", NESTED, (1,), (100,), lambda r: [
        r.integers(0, 12, 100).astype("i4"), zeros(100, "i4")],
        lambda v: {1: np.array([_nested_one(a, i) for i, a in enumerate(v[0].tolist())], "i4")}),
    CudaProgram("switch", SWITCH, (1,), (256,), lambda r: [
        r.integers(-1, 10, 256).astype("i4"), normal(r, 256), zeros(256)],
        lambda v: {2: np.array([_switch_one(a, x) for a, x in zip(v[0], v[1], strict=True)])},
        rtol=3e-7, atol=1e-7),
    CudaProgram("jump_table", JUMPS, (1,), (64,), lambda r: [
        r.integers(0, 3, 64).astype("i4"), zeros(64, "i4")],
        lambda v: {1: (11 * (v[0] + 1) + np.arange(64)).astype("i4")}),
    CudaProgram("local_sort", LOCAL, (1,), (33,), lambda r: [
        bits(r, 528, "i4"), zeros(528, "i4"), np.int32(16)],
        lambda v: {1: np.sort(v[0].reshape(-1, 16), axis=1).reshape(-1)}),
    CudaProgram("calls", CALLS, (1,), (48,), lambda r: [normal(r, 48), zeros(96)],
                _calls_answer, rtol=3e-7, atol=1e-6),
    CudaProgram("recursion", RECURSION, (1,), (40,), lambda r: [zeros(40, "i4")],
        lambda v: {0: np.array([_fibonacci(i % 9) for i in range(40)], "i4")}),
    CudaProgram("recursion_with_arrays", STACKED, (1,), (40,), lambda r: [zeros(40, "i4")],
                _stacked_answer),
    CudaProgram("function_pointers", POINTERS, (1,), (64,), lambda r: [
        r.integers(0, 3, 64).astype("i4"), normal(r, 64), zeros(64)], _pointer_answer),
    CudaProgram("early_return_before_barrier", EARLY, (3,), (100,), lambda r: [
        normal(r, 300), zeros(300), np.int32(230)], _early_answer, rtol=1e-4, atol=1e-5),
    CudaProgram("binary_search", BINARY_SEARCH, (2,), (64,), _search_build,
        lambda v: {3: np.searchsorted(v[0], v[2]).astype("i4")}),
]  # fmt: skip
