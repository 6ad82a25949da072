"""Programs with matrix instructions and asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from oracle.programs import CudaProgram
from oracle.programs_plain import bits, normal, zeros

Array = NDArray[Any]
BFLOAT = np.dtype(ml_dtypes.bfloat16)

# One warp: C[16 x 8] = A[16 x k] B[k x 8], B column by column; fragments filled by hand.
MMA_HALF = r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(const unsigned* a, const unsigned* b, float* c) {
  int l = threadIdx.x, g = l / 4, t = l % 4, w = blockIdx.x;
  a += w * 128; b += w * 64; c += w * 128;
  unsigned a0 = a[g * 8 + t], a1 = a[(g + 8) * 8 + t];
  unsigned a2 = a[g * 8 + t + 4], a3 = a[(g + 8) * 8 + t + 4];
  unsigned b0 = b[g * 8 + t], b1 = b[g * 8 + t + 4];
  float d0 = 0, d1 = 0, d2 = 1, d3 = 1;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.TYPE.TYPE.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};" : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  c[g * 8 + 2 * t] = d0; c[g * 8 + 2 * t + 1] = d1;
  c[(g + 8) * 8 + 2 * t] = d2; c[(g + 8) * 8 + 2 * t + 1] = d3;
}"""

MMA_TF32 = r"""
extern "C" __global__ void k(const float* a, const float* b, float* c) {
  int l = threadIdx.x, g = l / 4, t = l % 4;
  unsigned r[6]; float v[6] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4],
                               a[(g + 8) * 8 + t + 4], b[t * 8 + g], b[(t + 4) * 8 + g]};
  for (int i = 0; i < 6; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r[i]) : "f"(v[i]));
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};" : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
      : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
  c[g * 8 + 2 * t] = d0; c[g * 8 + 2 * t + 1] = d1;
  c[(g + 8) * 8 + 2 * t] = d2; c[(g + 8) * 8 + 2 * t + 1] = d3;
}"""

MMA_BYTES = r"""
extern "C" __global__ void k(const int* a, const int* b, int* c) {
  int l = threadIdx.x, g = l / 4, t = l % 4;
  int a0 = a[g * 8 + t], a1 = a[(g + 8) * 8 + t];
  int a2 = a[g * 8 + t + 4], a3 = a[(g + 8) * 8 + t + 4];
  int b0 = b[g * 8 + t], b1 = b[g * 8 + t + 4], d0 = 5, d1 = 5, d2 = 5, d3 = 5;
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};" : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  c[g * 8 + 2 * t] = d0; c[g * 8 + 2 * t + 1] = d1;
  c[(g + 8) * 8 + 2 * t] = d2; c[(g + 8) * 8 + 2 * t + 1] = d3;
}"""

MMA_DOUBLE = r"""
extern "C" __global__ void k(const double* a, const double* b, double* c) {
  int l = threadIdx.x, g = l / 4, t = l % 4;
  double d0 = 0, d1 = 0;
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(d0), "+d"(d1) : "d"(a[g * 4 + t]), "d"(b[t * 8 + g]));
  c[g * 8 + 2 * t] = d0; c[g * 8 + 2 * t + 1] = d1;
}"""

LDMATRIX = r"""
extern "C" __global__ void k(const unsigned short* a, unsigned* o) {
  __shared__ __align__(16) unsigned short s[32 * 8];
  int l = threadIdx.x;
  for (int i = 0; i < 8; i++) s[l * 8 + i] = a[l * 8 + i];
  __syncwarp();
  unsigned at = (unsigned)__cvta_generic_to_shared(s + l * 8), r0, r1, r2, r3;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(at) : "memory");
  o[l] = r0; o[32 + l] = r1; o[64 + l] = r2; o[96 + l] = r3;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r0), "=r"(r1) : "r"(at) : "memory");
  o[128 + l] = r0; o[160 + l] = r1;
}"""

# C[32 x 16] = A[32 x k] B[k x 16]: two warps, two stages of cp.async, ldmatrix, mma.
PIPELINE = r"""
#include <cuda_fp16.h>
__device__ __forceinline__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
extern "C" __global__ void k(const __half* a, const __half* b, float* c, int kk) {
  __shared__ __align__(16) __half as[2][32][16], bs[2][16][16];
  int tid = threadIdx.x, w = tid / 32, l = tid % 32, steps = kk / 16;
  float acc[2][4] = {};
  auto fetch = [&](int s) {
    copy16(&as[s & 1][tid / 2][tid % 2 * 8], a + (tid / 2) * kk + s * 16 + tid % 2 * 8);
    if (tid < 32)
      copy16(&bs[s & 1][tid / 2][tid % 2 * 8], b + (s * 16 + tid / 2) * 16 + tid % 2 * 8);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0);
  for (int s = 0; s < steps; s++) {
    if (s + 1 < steps) { fetch(s + 1); asm volatile("cp.async.wait_group 1;" ::: "memory"); }
    else asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    unsigned fa[4], fb[4];
    unsigned pa = __cvta_generic_to_shared(&as[s & 1][w * 16 + l % 16][l / 16 * 8]);
    unsigned pb = __cvta_generic_to_shared(&bs[s & 1][l % 16][l / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(pa) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3]) : "r"(pb) : "memory");
    for (int h = 0; h < 2; h++)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},"
        " {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(acc[h][0]), "+f"(acc[h][1]), "+f"(acc[h][2]), "+f"(acc[h][3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * h]), "r"(fb[2 * h + 1]));
    __syncthreads();
  }
  for (int h = 0; h < 2; h++)
    for (int i = 0; i < 4; i++)
      c[(w * 16 + l / 4 + i / 2 * 8) * 16 + h * 8 + l % 4 * 2 + i % 2] = acc[h][i];
}"""

# Two steps of 16 in depth; D (half) takes the second step only and is stored by columns.
WMMA = r"""
#define A8 "{a0,a1,a2,a3,a4,a5,a6,a7}"
#define B8 "{b0,b1,b2,b3,b4,b5,b6,b7}"
#define C8 "{c0,c1,c2,c3,c4,c5,c6,c7}"
#define H4 "{h0,h1,h2,h3}"
#define LOAD(at) \
  "add.u64 p, %0, " at "; wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " A8 ", [p], 32;" \
  "add.u64 p, %1, " at "; wmma.load.b.sync.aligned.col.m16n16k16.global.f16 " B8 ", [p], 32;"
#define ADD "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 " C8 "," A8 "," B8 "," C8 ";"
extern "C" __global__ void k(const void* a, const void* b, float* c, void* d) {
  asm volatile("{ .reg .b32 a<8>, b<8>, h<4>; .reg .f32 c<8>; .reg .u64 p, s; mov.u64 s, 0;"
    "cvt.rn.f32.u64 c0, s; add.f32 c0, c0, 0f40000000; mov.f32 c1, c0; mov.f32 c2, c0;"
    "mov.f32 c3, c0; mov.f32 c4, c0; mov.f32 c5, c0; mov.f32 c6, c0; mov.f32 c7, c0;"
    "mov.b32 h0, 0; mov.b32 h1, 0; mov.b32 h2, 0; mov.b32 h3, 0;"
    LOAD("0") ADD LOAD("32") ADD
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 " H4 "," A8 "," B8 "," H4 ";"
    "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%2], " C8 ", 16;"
    "wmma.store.d.sync.aligned.col.m16n16k16.global.f16 [%3], " H4 ", 16; }"
    :: "l"(a), "l"(b), "l"(c), "l"(d) : "memory");
}"""

ZERO_FILL = r"""
extern "C" __global__ void k(const int* a, int* o, int n) {
  __shared__ __align__(16) int s[128];
  int i = threadIdx.x, left = n - 4 * i, take = left < 0 ? 0 : left > 4 ? 16 : 4 * left;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
    :: "r"((unsigned)__cvta_generic_to_shared(s + 4 * i)), "l"(a + 4 * i), "r"(take) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  for (int j = 0; j < 4; j++) o[32 * j + i] = s[(32 * j + i) ^ 1];
}"""

Answer = Callable[[list[Any]], dict[int, Array]]


def _mma16(v: list[Any]) -> dict[int, Array]:
    a = v[0].astype(np.float64).reshape(-1, 16, 16)
    b = v[1].astype(np.float64).reshape(-1, 8, 16).transpose(0, 2, 1)
    c = a @ b
    c[:, 8:] += 1
    return {2: c.reshape(-1)}


def round_tf32(x: Array) -> Array:
    """float32 rounded to ten mantissa bits, ties away from zero."""
    raw = x.view(np.uint32)
    return ((raw + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def _tf32(v: list[Any]) -> dict[int, Array]:
    a, b = (round_tf32(x).astype(np.float64).reshape(-1, 8) for x in v[:2])
    return {2: (a @ b).reshape(-1)}


def _mma_bytes(v: list[Any]) -> dict[int, Array]:
    a, b = v[0].reshape(16, 32).astype(int), v[1].reshape(8, 32).astype(int)
    return {2: (a @ b.T + 5).astype(np.int32).reshape(-1)}


def _ldmatrix(v: list[Any]) -> dict[int, Array]:
    tiles = v[0].reshape(4, 8, 8)
    straight = tiles.reshape(4, 32, 2)
    turned = tiles[:2].transpose(0, 2, 1).reshape(2, 32, 2)
    return {1: np.ascontiguousarray(np.r_[straight, turned]).view(np.uint32).reshape(-1)}


def _pipeline(v: list[Any]) -> dict[int, Array]:
    k = int(v[3])
    a, b = v[0].astype(np.float64).reshape(32, k), v[1].astype(np.float64).reshape(k, 16)
    return {2: (a @ b).reshape(-1)}


def _wmma(v: list[Any]) -> dict[int, Array]:
    a, b = (x.astype(np.float64).reshape(16, 32) for x in v[:2])
    d = (a[:, 16:] @ b[:, 16:].T).astype(np.float16)
    return {2: (a @ b.T + 2).reshape(-1), 3: d.T.reshape(-1)}


def _zero_fill(v: list[Any]) -> dict[int, Array]:
    kept = np.where(np.arange(128) < int(v[2]), v[0], 0)
    return {1: kept[np.arange(128) ^ 1].astype(np.int32)}


PROGRAMS = [
    CudaProgram("mma_half", MMA_HALF.replace("TYPE", "f16"), (3,), (32,), lambda r: [
        normal(r, 768, "f2"), normal(r, 384, "f2"), zeros(384)], _mma16, rtol=1e-5, atol=1e-5),
    CudaProgram("mma_bfloat", MMA_HALF.replace("TYPE", "bf16"), (1,), (32,), lambda r: [
        normal(r, 256, BFLOAT), normal(r, 128, BFLOAT), zeros(128)], _mma16,
        rtol=1e-5, atol=1e-5),
    CudaProgram("mma_tf32", MMA_TF32, (1,), (32,), lambda r: [
        normal(r, 128), normal(r, 64), zeros(128)], _tf32, rtol=1e-5, atol=1e-5),
    CudaProgram("mma_bytes", MMA_BYTES, (1,), (32,), lambda r: [
        bits(r, 512, "i1"), bits(r, 256, "i1"), zeros(128, "i4")], _mma_bytes),
    CudaProgram("mma_double", MMA_DOUBLE, (1,), (32,), lambda r: [
        normal(r, 32, "f8"), normal(r, 32, "f8"), zeros(64, "f8")],
        lambda v: {2: (v[0].reshape(8, 4) @ v[1].reshape(4, 8)).reshape(-1)},
        rtol=1e-13, atol=1e-13),
    CudaProgram("ldmatrix", LDMATRIX, (1,), (32,), lambda r: [
        bits(r, 256, "u2"), zeros(192, "u4")], _ldmatrix),
    CudaProgram("cp_async_pipeline", PIPELINE, (1,), (64,), lambda r: [
        normal(r, 32 * 80, "f2"), normal(r, 80 * 16, "f2"), zeros(512), np.int32(80)],
        _pipeline, rtol=1e-4, atol=1e-4),
    CudaProgram("wmma", WMMA, (1,), (32,), lambda r: [
        normal(r, 512, "f2"), normal(r, 512, "f2"), zeros(256), zeros(256, "f2")], _wmma,
        rtol=2e-3, atol=2e-3),
    CudaProgram("cp_async_zero_fill", ZERO_FILL, (1,), (32,), lambda r: [
        bits(r, 128, "i4"), zeros(128, "i4"), np.int32(70)], _zero_fill),
]  # fmt: skip
