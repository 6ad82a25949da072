// Game of life with 32 cells a word: neighbours are counted by carry-save adders over whole words,
// funnel shifts bring the neighbours of the left and right words. The field is a torus.
__device__ __forceinline__ void half_add(unsigned a, unsigned b, unsigned& sum, unsigned& carry) {
  sum = a ^ b;
  carry = a & b;
}

__device__ __forceinline__ void full_add(unsigned a, unsigned b, unsigned c, unsigned& sum,
                                         unsigned& carry) {
  sum = a ^ b ^ c;
  carry = (a & b) | (c & (a ^ b));
}

extern "C" __global__ void k(const unsigned* in, unsigned* out, int words, int h) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= words * h) return;
  const int x = i % words, y = i / words;
  const int left = x ? x - 1 : words - 1, right = x + 1 < words ? x + 1 : 0;
  const int rows[3] = {(y ? y - 1 : h - 1) * words, y * words, (y + 1 < h ? y + 1 : 0) * words};
  unsigned sum[3], carry[3], here = 0;
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const unsigned c = in[rows[j] + x];
    const unsigned l = __funnelshift_l(in[rows[j] + left], c, 1);
    const unsigned r = __funnelshift_r(c, in[rows[j] + right], 1);
    if (j == 1) {
      here = c;
      half_add(l, r, sum[j], carry[j]);
    } else {
      full_add(l, c, r, sum[j], carry[j]);
    }
  }
  unsigned ones, twos_a, twos_b, twos, fours;
  full_add(sum[0], sum[1], sum[2], ones, twos_a);
  full_add(carry[0], carry[1], carry[2], twos_b, fours);
  unsigned more;
  half_add(twos_a, twos_b, twos, more);
  fours |= more;
  out[i] = twos & ~fours & (ones | here);
}
