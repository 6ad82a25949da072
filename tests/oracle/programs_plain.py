"""Programs without communication: arithmetic, types, parameters, constants."""

from __future__ import annotations

import math
import struct
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from oracle.programs import CudaProgram

Array = NDArray[Any]
BFLOAT = np.dtype(ml_dtypes.bfloat16)


def normal(r: np.random.Generator, n: int, dtype: Any = np.float32) -> Array:
    """Standard normal numbers of a dtype."""
    return r.standard_normal(n).astype(dtype)


def zeros(n: int, dtype: Any = np.float32) -> Array:
    """A cleared buffer."""
    return np.zeros(n, dtype)


def bits(r: np.random.Generator, n: int, dtype: Any) -> Array:
    """Random integers over a dtype's whole range, its ends included."""
    info = np.iinfo(dtype)
    out = r.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    out[:4] = [info.min, info.max, 0, 1]
    return out


AXPY = r"""
extern "C" __global__ void k(float* y, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(a, x[i], y[i]);
}"""

STRIDED = r"""
extern "C" __global__ void k(const double* x, double* y, long long n, double a) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x)
    y[i] = a * x[i] - x[n - 1 - i] / 3.0;
}"""

HALF = r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half* a, const __half* b, __half* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half s = __hadd(__hmul(a[i], b[i]), a[i]);
  o[i] = __hgt(s, b[i]) ? __hsub(s, b[i]) : __hfma(a[i], b[i], s);
}"""

HALF2 = r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half2* a, const __half2* b, __half2* o) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __half2 m = __hmax2(a[i], b[i]);
  o[i] = __hadd2(__hmul2(a[i], b[i]), __lows2half2(m, __hneg2(m)));
}"""

BFLOAT16 = r"""
#include <cuda_bf16.h>
extern "C" __global__ void k(const __nv_bfloat16* a, const float* f, __nv_bfloat16* o, float* g) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  o[i] = __float2bfloat16(f[i]);
  g[i] = __bfloat162float(a[i]) * 2.0f;
}"""

MATH = r"""
extern "C" __global__ void k(const float* x, float* o) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  o[10 * i] = tanhf(v);         o[10 * i + 1] = expf(v);       o[10 * i + 2] = erff(v);
  o[10 * i + 3] = sinf(v);      o[10 * i + 4] = logf(fabsf(v));
  o[10 * i + 5] = powf(fabsf(v), 1.7f);
  o[10 * i + 6] = rsqrtf(fabsf(v)); o[10 * i + 7] = v / 3.7f;  o[10 * i + 8] = atan2f(v, 2.f);
  o[10 * i + 9] = rintf(v) + floorf(v) + truncf(v) + ceilf(v) + roundf(v);
}"""

MATH64 = r"""
extern "C" __global__ void k(const double* x, double* o) {
  int i = threadIdx.x;
  o[4 * i] = exp(x[i]); o[4 * i + 1] = sqrt(fabs(x[i]));
  o[4 * i + 2] = 1.0 / x[i]; o[4 * i + 3] = cos(x[i]) + log1p(fabs(x[i]));
}"""

ROUNDING = r"""
extern "C" __global__ void k(const float* a, const float* b, const float* c, float* o) {
  int i = threadIdx.x;
  float x = a[i], y = b[i], z = c[i];
  o[i] = __fmaf_rn(x, y, z); o[i + 64] = __fadd_rd(x, y); o[i + 128] = __fmul_ru(x, y);
  o[i + 192] = __fdiv_rz(x, y); o[i + 256] = __fsqrt_ru(fabsf(x)); o[i + 320] = __fmaf_rd(x, y, z);
}"""

FMA64 = r"""
extern "C" __global__ void k(const double* a, const double* b, const double* c, double* o) {
  int i = threadIdx.x;
  o[i] = fma(a[i], b[i], c[i]);
  o[i + 64] = __dadd_rd(a[i], c[i]);
}"""

CASTS = r"""
extern "C" __global__ void k(const float* x, int* i32, unsigned* u32, long long* i64,
                             signed char* i8, float* back) {
  int i = threadIdx.x;
  i32[i] = __float2int_rz(x[i]); u32[i] = __float2uint_rn(x[i]); i64[i] = __float2ll_rd(x[i]);
  i8[i] = (signed char)i32[i]; back[i] = (float)i64[i] + (float)i8[i];
}"""

DIVISION = r"""
extern "C" __global__ void k(const long long* a, const long long* b, long long* o,
                             const unsigned* c, unsigned* p) {
  int i = threadIdx.x;
  o[3 * i] = a[i] / b[i]; o[3 * i + 1] = a[i] % b[i];
  o[3 * i + 2] = (long long)((unsigned long long)a[i] / (unsigned long long)b[i]);
  p[2 * i] = c[i] / 7u + c[i] % 1000u; p[2 * i + 1] = c[i] / (c[63 - i] | 1u);
}"""

WIDE = r"""
extern "C" __global__ void k(const long long* a, const long long* b, long long* hi,
                             unsigned long long* uhi, long long* lo, const int* c, long long* w) {
  int i = threadIdx.x;
  hi[i] = __mul64hi(a[i], b[i]); uhi[i] = __umul64hi(a[i], b[i]);
  lo[i] = a[i] * b[i]; w[i] = (long long)c[i] * c[63 - i] + __mulhi(c[i], c[63 - i]);
}"""

BITS = r"""
extern "C" __global__ void k(const unsigned* a, const unsigned long long* b, unsigned* o) {
  int i = threadIdx.x; unsigned x = a[i], y = a[127 - i];
  unsigned* p = o + 12 * i;
  p[0] = __popc(x); p[1] = __clz(x); p[2] = __brev(x); p[3] = __ffs(x);
  p[4] = __byte_perm(x, y, 0x2705); p[5] = __funnelshift_l(x, y, 11); p[6] = (x & y) ^ (x | ~y);
  p[7] = __popcll(b[i]) + __clzll(b[i]); p[8] = __vadd4(x, y); p[9] = __dp4a((int)x, (int)y, 5);
  p[10] = (x << (y & 31)) + (x >> (y & 31)); p[11] = __funnelshift_rc(x, y, i);
}"""

BYTES = r"""
extern "C" __global__ void k(unsigned char* p, const signed char* s, short* h, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned char v = p[i];
  p[i] = (unsigned char)(v * 3 + 250) >> 1;
  h[i] = (short)(s[i] * s[i] - v) / 3;
}"""

PARAMETERS = r"""
struct S { char tag; double scale; short skip[3]; int w[4]; };
extern "C" __global__ void k(bool flip, S s, short bias, double* o, unsigned char last, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  o[i] = (flip ? -1.0 : 1.0) * s.scale * s.w[i & 3] + s.skip[i % 3] + bias + s.tag + last;
}"""

CONSTANTS = r"""
__constant__ float table[8] = {1.f, -2.f, 3.5f, 0.f, 7.f, 1e-3f, -0.f, 9.f};
__constant__ unsigned char bytes[5] = {1, 2, 250, 4, 5};
__device__ int base[2][3] = {{1, 2, 3}, {-4, -5, -6}};
__device__ const float* pointer = table + 2;
extern "C" __global__ void k(float* o) {
  int i = threadIdx.x;
  o[i] = table[i & 7] * base[i & 1][i % 3] + bytes[i % 5] + pointer[i & 3];
}"""

THREE_D = r"""
extern "C" __global__ void k(int* o, int3 size) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x < size.x && y < size.y && z < size.z)
    o[(z * size.y + y) * size.x + x] = x + 100 * y + 10000 * z + 1000000 * (int)gridDim.z;
}"""

VECTORS = r"""
extern "C" __global__ void k(const float4* a, float4* o, const ushort2* h, ushort2* g) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = a[i];
  o[i] = make_float4(v.w, v.z + 1.f, v.y, v.x * 2.f);
  g[i] = make_ushort2(h[i].y, h[i].x + 1);
}"""

MINMAX = r"""
extern "C" __global__ void k(const float* a, const float* b, float* o, int* p) {
  int i = threadIdx.x;
  o[i] = fminf(a[i], b[i]); o[i + 32] = fmaxf(a[i], b[i]); o[i + 64] = copysignf(a[i], b[i]);
  p[i] = (a[i] < b[i]) | (a[i] <= b[i]) << 1 | (a[i] == b[i]) << 2 | (a[i] != b[i]) << 3 |
         !(a[i] < b[i]) << 4 | !(a[i] >= b[i]) << 5 | isnan(a[i]) << 6 | isinf(b[i]) << 7;
}"""

NULLS = r"""
extern "C" __global__ void k(float* o, const float* bias, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = i + (bias ? bias[i] : 0.5f);
}"""

ASM = r"""
extern "C" __global__ void k(const unsigned* a, unsigned* o) {
  int i = threadIdx.x; unsigned r, hi;
  asm("{\n .reg .u32 t;\n .reg .pred p;\n add.cc.u32 t, %2, %2;\n addc.u32 %1, 0, 0;\n"
      " setp.gt.u32 p, t, 1000;\n @p bra DONE;\n add.u32 t, t, 7;\n DONE:\n mov.u32 %0, t;\n}"
      : "=r"(r), "=r"(hi) : "r"(a[i]));
  asm("bfe.u32 %0, %1, 4, 9;" : "=r"(o[3 * i + 2]) : "r"(a[i]));
  o[3 * i] = r; o[3 * i + 1] = hi;
}"""


def _half_answer(v: list[Any]) -> dict[int, Array]:
    a, b = v[0], v[1]
    s = a * b + a
    exact = a.astype(np.float64) * b.astype(np.float64) + s.astype(np.float64)
    return {2: np.where(s > b, s - b, exact.astype(np.float16))}


def _half2_answer(v: list[Any]) -> dict[int, Array]:
    a, b = v[0].reshape(-1, 2), v[1].reshape(-1, 2)
    low = np.maximum(a, b)[:, 0]
    return {2: (a * b + np.stack([low, -low], axis=1)).reshape(-1)}


def _math_answer(v: list[Any]) -> dict[int, Array]:
    x = v[0].astype(np.float64)
    size = np.abs(x)
    away = np.copysign(np.floor(size + 0.5), x)
    columns = [np.tanh(x), np.exp(x), np.array([math.erf(t) for t in x]), np.sin(x), np.log(size),
               size**1.7, 1 / np.sqrt(size), x / 3.7, np.arctan2(x, 2.0),
               np.rint(x) + np.floor(x) + np.trunc(x) + np.ceil(x) + away]  # fmt: skip
    return {1: np.stack(columns, axis=1).reshape(-1).astype(np.float32)}


def _math64_answer(v: list[Any]) -> dict[int, Array]:
    x = v[0]
    columns = [np.exp(x), np.sqrt(np.abs(x)), 1 / x, np.cos(x) + np.log1p(np.abs(x))]
    return {1: np.stack(columns, axis=1).reshape(-1)}


def _toward(exact: Any, near: float, mode: str, dtype: Any) -> Any:
    from fractions import Fraction

    value, kind = dtype(near), dtype
    up, down = kind(np.inf), kind(-np.inf)
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    while mode == "rd" and Fraction(float(value)) > exact:
        value = np.nextafter(value, down)
    while mode == "ru" and Fraction(float(value)) < exact:
        value = np.nextafter(value, up)
    return value


def _rounding_answer(v: list[Any]) -> dict[int, Array]:
    from fractions import Fraction

    rows = []
    for a, b, c in zip(*v[:3], strict=True):
        x, y, z = (Fraction(float(t)) for t in (a, b, c))
        whole = x * y + z
        near = [float(whole), float(x + y), float(x * y), float(x / y), math.sqrt(abs(float(a)))]
        root = np.float32(near[4])
        if Fraction(float(root)) ** 2 < abs(x):
            root = np.nextafter(root, np.float32(np.inf))
        elif Fraction(float(np.nextafter(root, np.float32(0)))) ** 2 >= abs(x):
            root = np.nextafter(root, np.float32(0))
        rows.append([
            np.float32(near[0]),
            _toward(x + y, near[1], "rd", np.float32), _toward(x * y, near[2], "ru", np.float32),
            _toward(x / y, near[3], "rz", np.float32), root,
            _toward(whole, near[0], "rd", np.float32),
        ])  # fmt: skip
    return {3: np.array(rows, np.float32).T.reshape(-1)}


def _fma64_answer(v: list[Any]) -> dict[int, Array]:
    from fractions import Fraction

    rows = []
    for a, b, c in zip(*v[:3], strict=True):
        x, y, z = (Fraction(float(t)) for t in (a, b, c))
        rows.append([float(x * y + z), _toward(x + z, float(x + z), "rd", np.float64)])
    return {3: np.array(rows, np.float64).T.reshape(-1)}


def _casts_build(r: np.random.Generator) -> list[Any]:
    x = np.r_[
        [np.nan, np.inf, -np.inf, 3e9, -3e9, 2.5, -2.5, 1e19, -1e19, 0.5, -0.0, 4.2e9],
        r.standard_normal(52) * 200,
    ].astype(np.float32)
    return [x, zeros(64, "i4"), zeros(64, "u4"), zeros(64, "i8"), zeros(64, "i1"), zeros(64)]


def _clip(x: Array, dtype: Any, nan: int = 0) -> Array:
    info = np.iinfo(dtype)
    whole = [nan if t != t else info.max if t > info.max else info.min if t < info.min else int(t)
             for t in x.tolist()]  # fmt: skip
    return np.array(whole, dtype)


def _casts_answer(v: list[Any]) -> dict[int, Array]:
    x = v[0].astype(np.float64)
    i32, u32, i64 = (
        _clip(np.trunc(x), "i4"),
        _clip(np.rint(x), "u4"),
        _clip(np.floor(x), "i8", -(1 << 63)),
    )
    i8 = i32.astype(np.int8)
    back = i64.astype(np.float32) + i8.astype(np.float32)
    return {1: i32, 2: u32, 3: i64, 4: i8, 5: back}


def _division_answer(v: list[Any]) -> dict[int, Array]:
    a, b, c = (x.tolist() for x in (v[0], v[1], v[3]))
    out, top = [], 2**64
    for x, y in zip(a, b, strict=True):
        q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        out += [q, x - q * y, (x % top) // (y % top)]
    wrapped = np.array([t % top for t in out], np.uint64).view(np.int64)
    p = [t for i, x in enumerate(c) for t in (x // 7 + x % 1000, x // (c[63 - i] | 1))]
    return {2: wrapped, 4: np.array(p, np.uint64).astype(np.uint32)}


def _wide_answer(v: list[Any]) -> dict[int, Array]:
    a, b, c = (x.tolist() for x in (v[0], v[1], v[5]))
    top = 2**64
    pairs = list(zip(a, b, strict=True))
    w = [x * y + ((x * y) >> 32) for x, y in zip(c, c[::-1], strict=True)]
    return {
        2: np.array([x * y >> 64 for x, y in pairs], np.int64),
        3: np.array([(x % top) * (y % top) >> 64 for x, y in pairs], np.uint64),
        4: np.array([x * y % top for x, y in pairs], np.uint64).view(np.int64),
        6: np.array(w, np.int64),
    }


def _signed(x: int) -> list[int]:
    return list(struct.unpack("4b", struct.pack("I", x)))


def _bits_answer(v: list[Any]) -> dict[int, Array]:
    a, b = v[0].tolist(), v[1].tolist()
    full, out = 2**32 - 1, []
    for i, (x, z) in enumerate(zip(a, b, strict=True)):
        y = a[127 - i]
        pool = struct.pack("II", x, y)
        shift = y & 31
        out += [
            x.bit_count(), 32 - x.bit_length(), int(f"{x:032b}"[::-1], 2), (x & -x).bit_length(),
            int.from_bytes(bytes(pool[n] for n in (5, 0, 7, 2)), "little"),
            ((y << 32 | x) << 11) >> 32 & full, ((x & y) ^ (x | ~y)) & full,
            z.bit_count() + 64 - z.bit_length(),
            int.from_bytes(bytes((s + t) & 255 for s, t in zip(*struct.unpack("4s4s", pool),
                                                               strict=True)), "little"),
            sum(s * t for s, t in zip(_signed(x), _signed(y), strict=True)) + 5 & full,
            (x << shift) + (x >> shift) & full, (y << 32 | x) >> min(i, 32) & full,
        ]  # fmt: skip
    return {2: np.array(out, np.uint64).astype(np.uint32)}


def _bytes_answer(v: list[Any]) -> dict[int, Array]:
    p, s = v[0].astype(int), v[1].astype(int)
    numerator = s * s - p
    third = np.sign(numerator) * (np.abs(numerator) // 3)
    return {0: ((p * 3 + 250) % 256 >> 1).astype(np.uint8), 2: third.astype(np.int16)}


def _parameters_build(r: np.random.Generator) -> list[Any]:
    s = struct.pack("=b7xd3h2x4i", -3, 1.25, 10, -20, 30, 1, -2, 3, -4)
    return [np.bool_(True), s, np.int16(-7), zeros(50, "f8"), np.uint8(200), np.int32(40)]


def _parameters_answer(v: list[Any]) -> dict[int, Array]:
    i = np.arange(50)
    w, skip = np.array([1, -2, 3, -4]), np.array([10, -20, 30])
    out = -1.25 * w[i & 3] + skip[i % 3] - 7 - 3 + 200
    return {3: np.where(i < 40, out, 0.0)}


def _constants_answer(v: list[Any]) -> dict[int, Array]:
    i = np.arange(32)
    table = np.array([1, -2, 3.5, 0, 7, 1e-3, -0.0, 9], np.float32)
    base = np.array([[1, 2, 3], [-4, -5, -6]])
    small = np.array([1, 2, 250, 4, 5])
    out = table[i & 7].astype(np.float64) * base[i & 1, i % 3] + small[i % 5] + table[2 + (i & 3)]
    return {0: out.astype(np.float32)}


def _three_d_answer(v: list[Any]) -> dict[int, Array]:
    z, y, x = np.meshgrid(np.arange(5), np.arange(7), np.arange(11), indexing="ij")
    return {0: (x + 100 * y + 10000 * z + 2000000).astype(np.int32).reshape(-1)}


def _vectors_answer(v: list[Any]) -> dict[int, Array]:
    a, h = v[0].reshape(-1, 4), v[2].reshape(-1, 2)
    o = np.stack([a[:, 3], a[:, 2] + 1, a[:, 1], a[:, 0] * 2], axis=1)
    g = np.stack([h[:, 1], h[:, 0] + np.uint16(1)], axis=1)
    return {1: o.reshape(-1), 3: g.reshape(-1)}


def _minmax_build(r: np.random.Generator) -> list[Any]:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, np.nan, 2.0], np.float32)
    a = np.r_[special, normal(r, 24)]
    b = np.r_[special[::-1], a[8:20], normal(r, 12)]
    return [a, b, zeros(96), zeros(32, "i4")]


def _minmax_answer(v: list[Any]) -> dict[int, Array]:
    a, b = v[0], v[1]
    with np.errstate(invalid="ignore"):
        flags = [a < b, a <= b, a == b, a != b, ~(a < b), ~(a >= b), np.isnan(a), np.isinf(b)]
    p = sum(f.astype(np.int32) << i for i, f in enumerate(flags))
    return {2: np.r_[np.fmin(a, b), np.fmax(a, b), np.copysign(a, b)], 3: np.asarray(p)}


def _asm_answer(v: list[Any]) -> dict[int, Array]:
    a = v[0].astype(np.uint64)
    twice = (2 * a) & np.uint64(0xFFFFFFFF)
    low = np.where(twice > 1000, twice, twice + 7)
    columns = [low, a >> np.uint64(31), (a >> np.uint64(4)) & np.uint64(511)]
    return {1: np.stack(columns, axis=1).reshape(-1).astype(np.uint32)}


def _fma64_build(r: np.random.Generator) -> list[Any]:
    a, b, c = (normal(r, 64, "f8") for _ in range(3))
    c[:32] = -a[:32] * b[:32]
    c[40:44], a[44], b[44] = 0.0, 1e200, 1e100
    return [a, b, c, zeros(128, "f8")]


def _axpy_answer(v: list[Any]) -> dict[int, Array]:
    y, x, a, n = v
    exact = float(a) * x.astype(np.float64) + y.astype(np.float64)
    return {0: np.where(np.arange(y.size) < n, exact, y).astype(np.float32)}


def _strided_answer(v: list[Any]) -> dict[int, Array]:
    return {1: v[3] * v[0] - v[0][::-1] / 3.0}


def _nonzero(r: np.random.Generator) -> list[Any]:
    a, b = bits(r, 64, "i8"), bits(r, 64, "i8") >> r.integers(0, 60, 64)
    b[b == 0] = 3
    a[0] = b[0] = -5
    return [a, b, zeros(192, "i8"), bits(r, 64, "u4"), zeros(128, "u4")]


PROGRAMS = [
    CudaProgram("axpy", AXPY, (5,), (77,), lambda r: [
        normal(r, 400), normal(r, 400), np.float32(1.7), np.int32(370)], _axpy_answer, rtol=2e-7),
    CudaProgram("strided_double", STRIDED, (2,), (100,), lambda r: [
        normal(r, 1003, "f8"), zeros(1003, "f8"), np.int64(1003), np.float64(0.1)],
        _strided_answer, rtol=1e-14, atol=1e-15),
    CudaProgram("half_scalar", HALF, (3,), (100,), lambda r: [
        normal(r, 300, "f2"), normal(r, 300, "f2"), zeros(300, "f2"), np.int32(300)],
        _half_answer),
    CudaProgram("half2", HALF2, (2,), (32,), lambda r: [
        normal(r, 128, "f2"), normal(r, 128, "f2"), zeros(128, "f2")], _half2_answer),
    CudaProgram("bfloat", BFLOAT16, (1,), (256,), lambda r: [
        normal(r, 256, BFLOAT), normal(r, 256), zeros(256, BFLOAT), zeros(256)],
        lambda v: {2: v[1].astype(BFLOAT), 3: v[0].astype(np.float32) * 2}),
    CudaProgram("math", MATH, (2,), (50,), lambda r: [
        (r.standard_normal(100) * np.linspace(0.1, 9, 100)).astype("f4"), zeros(1000)],
        _math_answer, rtol=3e-6, atol=3e-7),
    CudaProgram("math_double", MATH64, (1,), (64,), lambda r: [
        normal(r, 64, "f8") * 5, zeros(256, "f8")], _math64_answer, rtol=1e-14, atol=1e-14),
    CudaProgram("rounding_modes", ROUNDING, (1,), (64,), lambda r: [
        normal(r, 64), normal(r, 64), normal(r, 64), zeros(384)], _rounding_answer),
    CudaProgram("fma_double", FMA64, (1,), (64,), _fma64_build, _fma64_answer),
    CudaProgram("casts", CASTS, (1,), (64,), _casts_build, _casts_answer),
    CudaProgram("division", DIVISION, (1,), (64,), _nonzero, _division_answer),
    CudaProgram("wide_products", WIDE, (1,), (64,), lambda r: [
        bits(r, 64, "i8"), bits(r, 64, "i8"), zeros(64, "i8"), zeros(64, "u8"), zeros(64, "i8"),
        bits(r, 64, "i4"), zeros(64, "i8")], _wide_answer),
    CudaProgram("bit_tricks", BITS, (1,), (128,), lambda r: [
        bits(r, 128, "u4"), bits(r, 128, "u8"), zeros(1536, "u4")], _bits_answer),
    CudaProgram("bytes", BYTES, (4,), (31,), lambda r: [
        bits(r, 120, "u1"), bits(r, 120, "i1"), zeros(120, "i2"), np.int32(120)], _bytes_answer),
    CudaProgram("parameters", PARAMETERS, (1,), (64,), _parameters_build, _parameters_answer),
    CudaProgram("constants", CONSTANTS, (1,), (32,), lambda r: [zeros(32)], _constants_answer,
                rtol=1e-6),
    CudaProgram("three_d", THREE_D, (3, 3, 2), (4, 3, 3), lambda r: [
        zeros(385, "i4"), struct.pack("3i", 11, 7, 5)], _three_d_answer),
    CudaProgram("vectors", VECTORS, (2,), (16,), lambda r: [
        normal(r, 128), zeros(128), bits(r, 64, "u2"), zeros(64, "u2")], _vectors_answer),
    CudaProgram("min_max_nan", MINMAX, (1,), (32,), _minmax_build, _minmax_answer),
    CudaProgram("null_pointer", NULLS, (1,), (40,), lambda r: [
        zeros(40), None, np.int32(35)],
        lambda v: {0: np.where(np.arange(40) < 35, np.arange(40) + 0.5, 0).astype("f4")}),
    CudaProgram("inline_asm", ASM, (1,), (64,), lambda r: [
        np.r_[bits(r, 32, "u4"), np.arange(32, dtype="u4") * 40], zeros(192, "u4")], _asm_answer),
]  # fmt: skip
