"""Programs that look for trouble: odd blocks, parted lanes, strange memory, and broken PTX."""

# ruff: noqa: E501 - lines of CUDA
from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from cpu.native_run import load, ptx_of
from cpu.random_cuda import Maker, differences

from ge2rt.base.errors import Ge2rtError
from ge2rt.ptx.isa import check_module
from ge2rt.ptx.lower import lower_to_ir
from ge2rt.ptx.native import ABORT_ASSERT, ABORT_TRAP, LowerOptions
from ge2rt.ptx.parse import parse_module

HEAD = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
BLOCKS = [(1, 1, 1), (31, 1, 1), (33, 1, 1), (1023, 1, 1), (3, 5, 1), (7, 9, 2), (17, 3, 2), (24, 4, 1),
          (48, 2, 1), (1, 1, 33), (5, 1, 13)]  # fmt: skip


def launched(
    body: str, arrays: dict[str, Any], block: tuple[int, ...] = (64,), grid: tuple[int, ...] = (1,),
    lanes: int = 32, before: str = "", dynamic: int = 0, arch: str = "compute_80", status: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Compile ``body`` with parameters named and typed by ``arrays``; run; the arrays afterwards."""
    ctypes = {"f4": "float", "f8": "double", "i4": "int", "u4": "unsigned", "i8": "long long",
              "u8": "unsigned long long", "i2": "short", "u2": "unsigned short", "u1": "unsigned char",
              "i1": "signed char", "f2": "__half"}  # fmt: skip
    params = []
    for name, value in arrays.items():
        kind = ctypes[value.dtype.str[1:]]
        params.append(f"{kind}{'*' if isinstance(value, np.ndarray) else ''} {name}")
    text = f'{HEAD}{before}\nextern "C" __global__ void k({", ".join(params)}) {{\n{body}\n}}'
    kernel = load(ptx_of(text, arch=arch), "k", block, lanes)
    after = {n: v.copy() for n, v in arrays.items()}
    assert kernel(grid, list(after.values()), dynamic) == status
    return after


def threads(block: tuple[int, ...]) -> int:
    return int(np.prod(block))


LINEAR = ("const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);"
          "const unsigned nt = blockDim.x * blockDim.y * blockDim.z;")  # fmt: skip


@pytest.mark.parametrize("lanes", [32, 16])
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_returns_between_barriers_in_odd_blocks(block: tuple[int, ...], lanes: int) -> None:
    """Some threads leave before the first barrier, some before the second; the rest still meet."""
    n = threads(block)
    got = launched(f"""{LINEAR}
      __shared__ int sh[1024];
      sh[t] = t; if (t % 5 == 3) return;
      __syncthreads();
      int v = sh[nt - 1 - t];
      if (t % 7 == 2) {{ out[t] = -v; return; }}
      __syncthreads();
      sh[t] = v * 2;
      __syncthreads();
      for (int i = 0; i < 3; i++) {{
        if ((t >> i) & 1) v += i * sh[(t + 1) % nt];
        __syncthreads();
        if (t & 2) sh[t] += 1;
        __syncthreads();
      }}
      out[t] = v;""", {"out": np.zeros(n, "i4")}, block, lanes=lanes)["out"]  # fmt: skip
    sh, alive = np.arange(n), np.arange(n) % 5 != 3
    v, want, t = sh[::-1].copy(), np.zeros(n, int), np.arange(n)
    leave = alive & (t % 7 == 2)
    want[leave] = -v[leave]
    alive &= ~leave
    sh[alive] = 2 * v[alive]
    for i in range(3):
        take = alive & ((t >> i) & 1 == 1)
        v = np.where(take, v + i * sh[(t + 1) % n], v)
        sh = sh + (alive & (t & 2 == 2))
    want[alive] = v[alive]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("lanes", [32, 16, 1])
def test_trip_counts_that_differ_with_values_live_afterwards(lanes: int) -> None:
    n = 77
    got = launched("""
      const int t = threadIdx.x; int a = 0, b = 1, last = -1; float f = 1.0f;
      const int trips = (t * 7) % 13;
      for (int i = 0; i < trips; i++) {
        last = i; const int c = a + b; a = b; b = c;
        if (i == (t & 7)) { f *= 2.0f; continue; }
        int j = 0; do { f += 0.25f; j++; } while (j < (t & 3) && i + j < 9);
        if (f > 12.0f) { last += 100; break; }
      }
      x[t] = a; y[t] = last; z[t] = f;
      """, {"x": np.zeros(n, "i4"), "y": np.zeros(n, "i4"), "z": np.zeros(n, "f4")}, (n,),
      lanes=lanes)  # fmt: skip
    for t in range(n):
        a, b, last, f = 0, 1, -1, 1.0
        for i in range((t * 7) % 13):
            last, a, b = i, b, a + b
            if i == t & 7:
                f *= 2
                continue
            j = 0
            while True:
                f, j = f + 0.25, j + 1
                if not (j < (t & 3) and i + j < 9):
                    break
            if f > 12:
                last += 100
                break
        assert (got["x"][t], got["y"][t], got["z"][t]) == (a, last, f), t


@pytest.mark.parametrize("lanes", [32, 16, 1])
def test_leaving_nested_loops_by_goto(lanes: int) -> None:
    got = launched("""
      const int t = threadIdx.x; int s = 0;
      for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
          s += i * j + 1;
          if (s > 40 + t) goto out;
          if (((s ^ t) & 7) == 7) goto next;
          switch ((s + t) % 5) { case 0: s += 2; case 1: s += 1; break; case 3: s ^= 4; default: ; }
        }
        s += 100; if (t == 9) return;
        next: s += 1000 * (t & 1);
      }
      out: x[t] = s;""", {"x": np.zeros(50, "i4")}, (50,), lanes=lanes)["x"]  # fmt: skip

    def one(t: int) -> int:
        s = 0
        for i in range(6):
            for j in range(6):
                s += i * j + 1
                if s > 40 + t:
                    return s
                if (s ^ t) & 7 == 7:
                    break
                k = (s + t) % 5
                s = s + 3 if k == 0 else s + 1 if k == 1 else s ^ 4 if k == 3 else s
            else:
                s += 100
                if t == 9:
                    return 0
            s += 1000 * (t & 1)
        return s

    assert got.tolist() == [one(t) for t in range(50)]


@pytest.mark.parametrize("lanes", [32, 16, 1])
@pytest.mark.parametrize("block", [(40, 1), (3, 11), (7, 9), (24, 2), (17, 4)], ids=str)
def test_addresses_of_every_kind(block: tuple[int, ...], lanes: int) -> None:
    """Negative strides, wrap-around of 32 bits, rows of odd length, bytes and words."""
    n = threads(block)
    x = np.arange(4096, dtype="i4") * 3
    b = (np.arange(4096) * 7).astype("u1")
    got = launched(f"""{LINEAR}
      long long s = 0;
      const unsigned back = t - 1u;
      if (t > 0) s += x[back];
      if (back < 5u) s += 1000 * b[back];
      s += x[4095 - 3 * t] + x[(nt - 1 - t) * 2 + 1];
      s += b[4095u - t] + (signed char)b[t * 5 + 3];
      s += x[threadIdx.x * 64 + threadIdx.y] - x[(threadIdx.x ^ 3) + threadIdx.y * 48];
      const int half = (int)t / 2 - (int)t % 3;
      s += *(x + 2000 + half) + x[2000 - 8 * (int)threadIdx.y];
      const unsigned wrapped = (t + 4294967290u) * 1u;
      s += x[wrapped + 10u] + (t >= 6u ? x[wrapped] : 0);
      s += *(const int*)((const char*)x + (t << 2)) + ((const short*)x)[t * 2];
      s += ((const int4*)x)[t].z + ((const uchar4*)b)[t * 3].y + ((const short2*)x)[99 - t].x;
      out[nt - 1 - t] = s;""",
      {"x": x, "b": b, "out": np.zeros(n, "i8")}, (*block, 1), lanes=lanes)["out"]  # fmt: skip
    t = np.arange(n)
    tx, ty = t % block[0], t // block[0]
    sb, sh = b.view("i1"), x.view("i2")
    half = t // 2 - t % 3
    w = x.astype("i8")
    s = np.where(t > 0, w[t - 1], 0) + np.where(
        (t > 0) & (t - 1 < 5), 1000 * b[t - 1].astype("i8"), 0
    )
    s += w[4095 - 3 * t] + w[(n - 1 - t) * 2 + 1] + b[4095 - t] + sb[t * 5 + 3]
    s += w[tx * 64 + ty] - w[(tx ^ 3) + ty * 48] + w[2000 + half] + w[2000 - 8 * ty]
    s += w[t + 4] + np.where(t >= 6, w[t - 6], 0) + w[t] + sh[t * 2]
    s += w[t * 4 + 2] + b[t * 12 + 1] + sh[2 * (99 - t)]
    np.testing.assert_array_equal(got[::-1], s)


@pytest.mark.parametrize("lanes", [32, 1])
def test_shared_memory_under_other_types(lanes: int) -> None:
    got = launched("""
      extern __shared__ float4 raw[]; __shared__ unsigned char own[64];
      const int t = threadIdx.x; char* c = (char*)raw; __half* h = (__half*)raw; float* f = (float*)raw;
      f[t] = t * 0.5f; own[t] = t; __syncthreads();
      if (t % 3 == 0) h[2 * t + 1] = __float2half(1.5f);
      __syncthreads();
      if (t & 1) c[4 * t] ^= 0x55;
      __syncthreads();
      const float4 v = raw[t / 4];
      out[t] = v.x + v.y * 2 + v.z * 3 + v.w * 4; bytes[t] = c[63 - t] + own[63 - t];
      """, {"out": np.zeros(64, "f4"), "bytes": np.zeros(64, "u1")}, lanes=lanes,
      dynamic=256)  # fmt: skip
    f = (np.arange(64) * 0.5).astype("f4")
    h, c = f.view("f2"), f.view("u1")
    h[2 * np.arange(0, 64, 3) + 1] = 1.5
    c[4 * np.arange(1, 64, 2)] ^= 0x55
    v = f.reshape(16, 4).repeat(4, axis=0)
    np.testing.assert_array_equal(got["out"], v[:, 0] + v[:, 1] * 2 + v[:, 2] * 3 + v[:, 3] * 4)
    np.testing.assert_array_equal(got["bytes"], c[:64][::-1] + np.arange(64, dtype="u1")[::-1])


ATOMICS = [("int", "i4"), ("unsigned", "u4"), ("unsigned long long", "u8")]


@pytest.mark.parametrize(("kind", "dtype"), ATOMICS, ids=[d for _, d in ATOMICS])
@pytest.mark.parametrize("lanes", [32, 16])
def test_atomics_with_conflicts_under_masks(kind: str, dtype: str, lanes: int) -> None:
    n = 90
    r = np.random.default_rng(3)
    x = r.integers(0, 1 << 31, n).astype(dtype) - np.array(5).astype(dtype)
    extra = "atomicMin(out + 8 + t % 3, x[t]); atomicMax(out + 11 + t % 3, x[t]);"
    got = launched(f"""const int t = threadIdx.x; __shared__ {kind} sh[4];
      if (t < 4) sh[t] = 0; __syncthreads();
      if (t % 4 != 1) {{ atomicAdd(out + t % 3, x[t]); atomicXor(&sh[t & 3], x[t]); {extra} }}
      if (t == 7 || t == 50) atomicOr(out + 3, x[t]);
      {kind} old = atomicAdd(out + 20 + t, x[t]); old += atomicExch(out + 20 + t, old);
      atomicCAS(out + 20 + t, old, t & 1 ? x[t] : old + 1);
      __syncthreads(); if (t < 4) out[4 + t] = sh[t];
      out[200 + t] = atomicAdd(out + 14, ({kind})1);
      """, {"x": x, "out": np.zeros(300, dtype)}, (n,), lanes=lanes)["out"]  # fmt: skip
    want, t = np.zeros(300, dtype), np.arange(n)
    some = t % 4 != 1
    np.add.at(want, (t % 3)[some], x[some])
    np.bitwise_xor.at(want, 4 + (t & 3)[some], x[some])
    np.minimum.at(want, 8 + (t % 3)[some], x[some])
    np.maximum.at(want, 11 + (t % 3)[some], x[some])
    want[3], want[14] = x[7] | x[50], n
    want[20 : 20 + n] = 0
    np.testing.assert_array_equal(got[:20], want[:20])
    # old was 0 and became x: the exchange leaves 0, gives x; the comparison with 0 + x fails
    np.testing.assert_array_equal(got[20 : 20 + n], np.where(x == 0, 0, 0))
    assert sorted(got[200 : 200 + n].tolist()) == list(range(n))


def test_floating_atomics_and_halves() -> None:
    got = launched("""const int t = threadIdx.x;
      if (t != 3) { atomicAdd(f, 0.25f); atomicAdd(d + t % 2, 0.5); }
      atomicAdd((__half2*)h + (t & 1), __floats2half2_rn(1.0f, 0.5f)); atomicAdd(h + 6, __float2half(1.0f));
      """, {"f": np.zeros(1, "f4"), "d": np.zeros(2, "f8"), "h": np.zeros(8, "f2")}, (50,))  # fmt: skip
    assert got["f"][0] == 49 / 4
    assert got["d"].tolist() == [12.5, 12.0]
    assert got["h"].tolist() == [25, 12.5, 25, 12.5, 0, 0, 50, 0]


def test_votes_and_shuffles_in_a_branch_and_in_a_partial_warp() -> None:
    n = 72
    got = launched("""const int t = threadIdx.x; const unsigned all = __activemask(); out[t] = all;
      const bool odd = (t * 5) % 3 == 1; const unsigned m = __ballot_sync(all, odd);
      int v = -1;
      if (odd) { v = __popc(__ballot_sync(m, t & 4)) + 100 * __any_sync(m, t == 10)
                   + 1000 * __all_sync(m, t > 5) + 10000 * __shfl_sync(m, t, __ffs(m) - 1);
        if (t & 1) { const unsigned q = __activemask(); v += (q == (m & 0xaaaaaaaau)) << 24; } }
      two[t] = v;
      three[t] = __match_any_sync(all, t % 5);
      """, {"out": np.zeros(n, "u4"), "two": np.zeros(n, "i4"), "three": np.zeros(n, "u4")}, (n,))  # fmt: skip
    for t in range(n):
        warp = range(t // 32 * 32, min(n, t // 32 * 32 + 32))
        assert got["out"][t] == (1 << len(warp)) - 1
        assert got["three"][t] == sum(1 << u % 32 for u in warp if u % 5 == t % 5)
        odd = [u for u in warp if u * 5 % 3 == 1]
        if t in odd:
            want = sum(u & 4 > 0 for u in odd) + 100 * (10 in odd) + 1000 * (min(odd) > 5)
            want += 10000 * odd[0] + ((t & 1) << 24)
        else:
            want = -1
        assert got["two"][t] == want, t


@pytest.mark.parametrize("lanes", [32, 1])
def test_local_arrays_structs_tables_and_calls(lanes: int) -> None:
    before = """
      struct Big { char tag; double x; short s[3]; long long last; };
      __constant__ float table[40] = {1.0f, 2.5f, -3.0f};
      __constant__ short shorts[5] = {-1, 2, -3, 4, -5};
      static __device__ int counts[4] = {5, 6, 7, 8};
      static __device__ __noinline__ double weigh(Big b, int i) { b.x += b.s[i % 3]; return b.x * b.last; }
      static __device__ __noinline__ void swap(int& a, int& b) { int c = a; a = b; b = c; }
    """
    got = launched("""const int t = threadIdx.x; int heap[70];
      for (int i = 0; i < 70; i++) heap[i] = (i * 37 + t) % 71;
      for (int i = 0; i < 69; i++) { int least = i;
        for (int j = i + 1; j < 70; j++) if (heap[j] < heap[least]) least = j;
        swap(heap[i], heap[least]); }
      out[t] = heap[t % 70] + heap[0] * 100 + counts[t & 3] + shorts[t % 5];
      Big b; b.tag = t; b.x = 0.5; b.last = t - 20; for (int i = 0; i < 3; i++) b.s[i] = t * i;
      z[t] = weigh(b, t) + table[t % 5];
      """, {"out": np.zeros(45, "i4"), "z": np.zeros(45, "f8")}, (45,), before=before,
      lanes=lanes)  # fmt: skip
    table, shorts = [1, 2.5, -3, 0, 0], [-1, 2, -3, 4, -5]
    for t in range(45):
        heap = sorted((i * 37 + t) % 71 for i in range(70))
        assert got["out"][t] == heap[t % 70] + heap[0] * 100 + 5 + (t & 3) + shorts[t % 5]
        assert got["z"][t] == (0.5 + t * (t % 3)) * (t - 20) + table[t % 5]


@pytest.mark.parametrize("lanes", [32, 16, 1])
def test_integer_corners(lanes: int) -> None:
    edges = np.array([0, 1, -1, 7, -7, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63), 1 << 31,
                      -(1 << 31), (1 << 32) - 1, 12345678901, -98765432109], "i8")  # fmt: skip
    n = len(edges)
    got = launched("""const int t = threadIdx.x; if (t >= 14) return; long long a = x[t], b = x[13 - t];
      long long* o = out + t * 12; unsigned long long u = a;
      o[0] = a / 7; o[1] = a % 7; o[2] = u / 10; o[3] = u % 1000000007ull; o[4] = a / -5; o[5] = a % 16;
      o[6] = b ? u / (unsigned long long)b : 0; o[7] = b > 0 ? a % b : 0;
      o[8] = __umul64hi(u, b); o[9] = __mul64hi(a, b); o[10] = (long long)(u * (unsigned long long)b);
      o[11] = (int)a / ((int)(b & 15) + 1) + (short)a * (signed char)b + ((unsigned char)a >> 3);
      """, {"x": edges, "out": np.zeros(12 * n, "i8")}, (33,), lanes=lanes)["out"]  # fmt: skip

    def trunc(a: int, b: int) -> int:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    def as_type(v: int, bits: int) -> int:
        return (v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

    top = 1 << 64
    for t, a in enumerate(edges.tolist()):
        b = int(edges[13 - t])
        u, w, i = a % top, b % top, as_type(a, 32)
        want = [trunc(a, 7), a - 7 * trunc(a, 7), u // 10, u % 1000000007, trunc(a, -5),
                a - 16 * trunc(a, 16), u // w if w else 0, a - b * trunc(a, b) if b > 0 else 0,
                u * w >> 64, a * b >> 64, a * b,
                trunc(i, (b & 15) + 1) + as_type(a, 16) * as_type(b, 8) + (a % 256 >> 3)]  # fmt: skip
        assert got[12 * t : 12 * t + 12].tolist() == [as_type(v, 64) for v in want], a


@pytest.mark.parametrize("lanes", [32, 1])
def test_half_and_bfloat_pairs(lanes: int) -> None:
    r = np.random.default_rng(5)
    x, y = (r.standard_normal(128).astype("f2") for _ in range(2))
    got = launched("""const int t = threadIdx.x; const __half2 a = ((__half2*)x)[t], b = ((__half2*)y)[t];
      __half2 c = __hmul2(__hadd2(a, b), __hsub2(a, b));
      if (__hbgt2(a, b)) c = __hneg2(c);
      ((__half2*)z)[t] = __hmax2(c, __hmin2(a, b));
      const __nv_bfloat162 p = __floats2bfloat162_rn(__low2float(a), __high2float(b));
      f[t] = __bfloat162float(__hmul(p.x, p.y));
      """, {"x": x, "y": y, "z": np.zeros(128, "f2"), "f": np.zeros(64, "f4")}, lanes=lanes)  # fmt: skip
    c = ((x + y) * (x - y)).astype("f2").reshape(-1, 2)
    flip = (x.reshape(-1, 2) > y.reshape(-1, 2)).all(axis=1)[:, None]
    c = np.where(flip, -c, c).reshape(-1)
    np.testing.assert_array_equal(got["z"], np.maximum(c, np.minimum(x, y)))

    def bfloat(v: np.ndarray) -> np.ndarray:
        bits = v.astype("f4").view("u4").astype("u8")
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("u4").view("f4")

    np.testing.assert_array_equal(got["f"], bfloat(bfloat(x[::2]) * bfloat(y[1::2])))


def test_grids_in_three_dimensions_and_no_arguments() -> None:
    got = launched("""out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] +=
      threadIdx.x + 1000 * gridDim.z;""", {"out": np.zeros(30, "i4")}, (1,), (2, 3, 5))["out"]  # fmt: skip
    assert got.tolist() == [5000] * 30
    launched("__shared__ int s[32]; s[threadIdx.x] = 1; __syncthreads();", {}, (32,), (4, 1, 1))


def test_the_end_of_a_launch_by_trap_and_assert() -> None:
    out = np.zeros(64, "i4")
    got = launched("x[threadIdx.x] = 1; if (threadIdx.x == 40) __trap(); x[threadIdx.x] = 2;",
                   {"x": out}, status=ABORT_TRAP)["x"]  # fmt: skip
    assert got[40] == 1
    assert got[:32].tolist() == [2] * 32
    got = launched("""if (threadIdx.x >= 40) __assertfail("message", "file", 1, "function", 1);
      x[threadIdx.x] = 3;""", {"x": out}, status=ABORT_ASSERT, before="""extern "C" __device__ void
      __assertfail(const char*, const char*, unsigned, const char*, size_t);""")["x"]  # fmt: skip
    assert got[40:].tolist() == [0] * 24


@pytest.mark.parametrize("block", [5, 33])
def test_recursion_that_differs_by_lane(block: int) -> None:
    got = launched("x[threadIdx.x] = f(threadIdx.x % 11);", {"x": np.zeros(block, "i4")}, (block,),
                   before="""static __device__ __noinline__ int f(int n) {
                     return n < 2 ? n : f(n - 1) + f(n - 2); }""")["x"]  # fmt: skip
    fibonacci = [0, 1]
    while len(fibonacci) < 11:
        fibonacci.append(sum(fibonacci[-2:]))
    assert got.tolist() == [fibonacci[t % 11] for t in range(block)]


def nest(depth: int, width: int) -> str:
    if not depth:
        return "v = v * 3 + 1;"
    return "".join(f"if (x[(v + {k}) & 63] & {1 << k}) {{ {nest(depth - 1, width)} }} else v ^= {k + depth};"
                   for k in range(width))  # fmt: skip


def test_many_branches_three_deep_stay_small() -> None:
    """Code grows with the branches, not with their product over the copies."""
    text = f'extern "C" __global__ void k(int* x) {{ int v = threadIdx.x; {nest(3, 3)} x[threadIdx.x + 64] = v; }}'
    module = parse_module(ptx_of(text))
    small = lower_to_ir(module, "k", LowerOptions((64, 1, 1))).llvm_ir.count("\n")
    instrs = sum(len(b.instrs) for b in module.functions["k"].blocks)
    assert small < 40 * instrs
    got = launched(f"int v = threadIdx.x; {nest(3, 3)} out[threadIdx.x] = v;",
                   {"x": np.arange(64, dtype="i4") * 5, "out": np.zeros(64, "i4")})  # fmt: skip
    one = launched(f"int v = threadIdx.x; {nest(3, 3)} out[threadIdx.x] = v;",
                   {"x": np.arange(64, dtype="i4") * 5, "out": np.zeros(64, "i4")}, lanes=1)  # fmt: skip
    np.testing.assert_array_equal(got["out"], one["out"])


SOURCE = """extern "C" __global__ void k(const float* a, float* b, int n) {
  __shared__ float s[64]; int i = blockIdx.x * blockDim.x + threadIdx.x; float v = 0;
  if (i < n) v = a[i]; s[threadIdx.x] = v; __syncthreads();
  for (int k = 0; k < n % 5; k++) v += s[(threadIdx.x + k) & 63];
  if (v > 1.0f) b[i] = expf(v); else atomicAdd(b + i, v); }"""


def broken(text: str, chance: random.Random) -> str:
    """The text with one to three small faults."""
    for _ in range(chance.randrange(1, 4)):
        lines = text.split("\n")
        at = chance.randrange(len(lines))
        kind = chance.randrange(7)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif kind == 2:
            lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
        elif kind == 3:
            word = chance.choice(re.findall(r"[\w.%]+", text))
            lines[at] = re.sub(r"[\w.%]+", word, lines[at], count=1)
        elif kind == 4:
            lines[at] = re.sub(
                r"\d+", str(chance.choice([0, -1, 99, 2**31, 2**63, 2**70])), lines[at], count=1
            )
        elif kind == 5:
            lines[at] = lines[at].replace(
                chance.choice(",;[]{}().%:@"), chance.choice(",;[]{}()@ "), 1
            )
        else:
            other = chance.choice(
                [".f32", ".u64", ".s8", ".pred", ".b128", ".v4", ".shared", ".f64", ""]
            )
            lines[at] = re.sub(r"\.\w+", other, lines[at], count=1)
        text = "\n".join(lines)
    return text


def test_broken_ptx_is_an_error_of_ours_and_never_a_crash(full: bool) -> None:
    """Parsing, checking and lowering refuse with our own errors, or make valid LLVM IR."""
    from ge2rt.ptx import codegen

    text = ptx_of(SOURCE)
    fine = 0
    for seed in range(3000 if full else 120):
        damaged = broken(text, random.Random(seed))
        try:
            module = parse_module(damaged)
            check_module(module)
            for entry in module.entries():
                made = lower_to_ir(module, entry, LowerOptions((48, 1, 1)))
                if full or seed % 8 == 0:
                    codegen.optimise(made.llvm_ir, codegen.host(), 0)
                fine += 1
        except Ge2rtError as error:
            assert "LLVM IR is not valid" not in str(error), seed  # noqa: PT017 - else it is fine
    assert fine > 5


def test_random_programs(full: bool) -> None:
    """A slice of what scripts/fuzz_ptx.py runs for as long as one likes."""
    import datetime

    first = datetime.date.today().toordinal() * 10
    for seed in range(first, first + (60 if full else 2)):
        program = Maker(seed, size=2).program()
        for lanes in (32,) if program.warps else (32, 16, 1):
            assert differences(program, lanes) == [], f"seed {seed}, {lanes} lanes"
