// One round of AES on 16-byte states: the S-box is made in shared memory from inverses in GF(2^8), then
// substitution, shift of rows, mix of columns and the round key. A state is one uint4.
__device__ unsigned char times(unsigned char a, unsigned char b) {
  unsigned char p = 0;
  for (int i = 0; i < 8; ++i) {
    if (b & 1) p ^= a;
    a = (a << 1) ^ (a & 0x80 ? 0x1b : 0);
    b >>= 1;
  }
  return p;
}

__device__ unsigned char power(unsigned char a, int n) {
  unsigned char r = 1;
  for (; n; n >>= 1) {
    if (n & 1) r = times(r, a);
    a = times(a, a);
  }
  return r;
}

__device__ unsigned twice(unsigned v) {  // four bytes at once
  return ((v & 0x7f7f7f7fu) << 1) ^ (((v & 0x80808080u) >> 7) * 0x1bu);
}

extern "C" __global__ void k(const uint4* in, uint4 key, uint4* out, int n) {
  __shared__ unsigned char box[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    const unsigned char x = power(i, 254);
    unsigned char y = x;
    for (int r = 1; r < 5; ++r) y ^= (unsigned char)(x << r | x >> (8 - r));
    box[i] = y ^ 0x63;
  }
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  union {
    uint4 v;
    unsigned char b[16];
    unsigned w[4];
  } state, moved;
  state.v = in[i];
#pragma unroll
  for (int c = 0; c < 4; ++c)
#pragma unroll
    for (int r = 0; r < 4; ++r) moved.b[4 * c + r] = box[state.b[4 * ((c + r) & 3) + r]];
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const unsigned v = moved.w[c], r1 = __funnelshift_r(v, v, 8);
    state.w[c] = twice(v) ^ twice(r1) ^ r1 ^ __funnelshift_r(v, v, 16) ^ __funnelshift_r(v, v, 24);
  }
  out[i] = make_uint4(state.v.x ^ key.x, state.v.y ^ key.y, state.v.z ^ key.z, state.v.w ^ key.w);
}
