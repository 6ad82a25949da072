// A few bins, counted in one 64-bit register a thread (eight fields of eight bits), emptied into wider
// counters before a field can overflow; then one atomic a bin and warp.
__device__ __forceinline__ void spill(unsigned (&wide)[8], unsigned long long& narrow) {
#pragma unroll
  for (int b = 0; b < 8; ++b) wide[b] += (unsigned)(narrow >> (8 * b)) & 0xffu;
  narrow = 0;
}

extern "C" __global__ void k(const unsigned char* in, int n, unsigned* bins) {
  unsigned wide[8] = {};
  unsigned long long narrow = 0;
  int pending = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    narrow += 1ULL << (8 * (in[i] & 7));
    if (++pending == 255) {
      spill(wide, narrow);
      pending = 0;
    }
  }
  spill(wide, narrow);
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    const unsigned total = __reduce_add_sync(0xffffffffu, wide[b]);
    if ((threadIdx.x & 31) == b) atomicAdd(bins + b, total);
  }
}
