// Pi by random points: each thread has its own linear congruential stream, jumped to its start by
// modular powers, warps add their hits, one 64-bit atomic a warp.
__device__ void jump(unsigned long long& a, unsigned long long& c, unsigned long long steps) {
  unsigned long long ra = 1, rc = 0, ba = a, bc = c;
  while (steps) {
    if (steps & 1) {
      rc = rc * ba + bc;
      ra *= ba;
    }
    bc = bc * ba + bc;
    ba *= ba;
    steps >>= 1;
  }
  a = ra;
  c = rc;
}

extern "C" __global__ void k(unsigned long long seed, int samples, unsigned long long* hits) {
  const unsigned long long A = 6364136223846793005ULL, C = 1442695040888963407ULL;
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long a = A, c = C;
  jump(a, c, (unsigned long long)t * samples * 2);
  unsigned long long state = seed * a + c;
  unsigned mine = 0;
  for (int i = 0; i < samples; ++i) {
    state = state * A + C;
    const float x = (float)(unsigned)(state >> 40) * 0x1p-24f;
    state = state * A + C;
    const float y = (float)(unsigned)(state >> 40) * 0x1p-24f;
    mine += __fadd_rn(__fmul_rn(x, x), __fmul_rn(y, y)) < 1.0f;
  }
  for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(0xffffffffu, mine, d);
  if ((threadIdx.x & 31) == 0) atomicAdd(hits, (unsigned long long)mine);
}
