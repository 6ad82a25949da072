// Median of 3x3 and of 5 in a row by sorting networks on packed bytes: four pixels a thread, by the
// byte-wise minimum and maximum of video instructions.
__device__ __forceinline__ void order(unsigned& a, unsigned& b) {
  const unsigned low = __vminu4(a, b);
  b = __vmaxu4(a, b);
  a = low;
}

__device__ unsigned median9(unsigned (&v)[9]) {
  order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]);
  order(v[0], v[1]); order(v[3], v[4]); order(v[6], v[7]);
  order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]);
  v[3] = __vmaxu4(v[0], v[3]); v[5] = __vminu4(v[5], v[8]); order(v[4], v[7]);
  v[6] = __vmaxu4(v[3], v[6]); v[4] = __vmaxu4(v[1], v[4]); v[2] = __vminu4(v[2], v[5]);
  v[4] = __vminu4(v[4], v[7]); order(v[4], v[2]);
  v[4] = __vmaxu4(v[6], v[4]);
  return __vminu4(v[4], v[2]);
}

extern "C" __global__ void k(const unsigned* in, unsigned* out, int words, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= words) return;
  unsigned v[9];
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const unsigned* row = in + min(max(y + j - 1, 0), h - 1) * words;
    const unsigned here = row[x];
    const unsigned left = x > 0 ? row[x - 1] : here << 24;
    const unsigned right = x + 1 < words ? row[x + 1] : here >> 24;
    v[3 * j] = __byte_perm(left, here, 0x6543);
    v[3 * j + 1] = here;
    v[3 * j + 2] = __byte_perm(here, right, 0x4321);
  }
  out[y * words + x] = median9(v);
}
