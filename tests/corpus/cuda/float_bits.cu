// Tricks on the bits of floats: unions and bit casts, order-preserving keys, quick inverse root, halves
// by hand, next representable numbers, exponent and mantissa, and Morton codes by bit fields.
union Bits {
  float f;
  unsigned u;
  struct {
    unsigned mantissa : 23, exponent : 8, sign : 1;
  } part;
};

__device__ float quick_rsqrt(float x) {
  Bits b;
  b.f = x;
  b.u = 0x5f3759dfu - (b.u >> 1);
  b.f *= 1.5f - 0.5f * x * b.f * b.f;
  return b.f * (1.5f - 0.5f * x * b.f * b.f);
}

__device__ unsigned short to_half(float f) {  // round to nearest even, no NaN expected
  const unsigned u = __float_as_uint(f), sign = u >> 16 & 0x8000u;
  const int e = (int)(u >> 23 & 255) - 112;
  unsigned m = u & 0x7fffffu;
  if (e >= 31) return sign | 0x7c00u;
  if (e <= 0) {
    if (e < -10) return sign;
    m |= 0x800000u;
    const int shift = 14 - e;
    const unsigned half = m >> shift, rest = m & ((1u << shift) - 1), middle = 1u << (shift - 1);
    return sign | (half + (rest > middle || (rest == middle && (half & 1))));
  }
  unsigned h = e << 10 | m >> 13;
  const unsigned rest = m & 0x1fffu;
  h += rest > 0x1000u || (rest == 0x1000u && (h & 1));
  return sign | h;
}

__device__ unsigned spread(unsigned v) {
  v = (v | v << 8) & 0x00ff00ffu;
  v = (v | v << 4) & 0x0f0f0f0fu;
  v = (v | v << 2) & 0x33333333u;
  return (v | v << 1) & 0x55555555u;
}

extern "C" __global__ void k(const float* in, float* root, unsigned short* half, float* above,
                             int4* parts, unsigned long long* morton, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float f = in[i];
  Bits b;
  b.f = f;
  root[i] = quick_rsqrt(fabsf(f));
  half[i] = to_half(f);
  above[i] = nextafterf(f, 1e30f);
  int exponent;
  const float fraction = frexpf(f, &exponent);
  parts[i] = make_int4(b.part.sign, b.part.exponent, b.part.mantissa,
                       (int)ldexpf(fraction, 24) ^ exponent);
  const unsigned lo = b.u & 0xffffu, hi = b.u >> 16;
  const unsigned long long code = (unsigned long long)__clzll(b.u | 1ULL) << 56;
  morton[i] = code | ((unsigned long long)(spread(lo) | spread(hi) << 1) << 8) |
              (unsigned)__popcll(((unsigned long long)b.u << 32) | ~b.u);
}
