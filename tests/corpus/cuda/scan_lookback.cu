// Inclusive scan in one pass: tiles by ticket, each tile publishes its sum, then looks back over its
// predecessors until one of them has a prefix (decoupled look-back).
enum : unsigned { EMPTY = 0, PARTIAL = 1, PREFIX = 2 };

__device__ __forceinline__ void publish(unsigned long long* where, unsigned flag, unsigned value) {
  const unsigned long long word = (unsigned long long)flag << 32 | value;
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(where), "l"(word) : "memory");
}

__device__ __forceinline__ unsigned long long look(const unsigned long long* where) {
  unsigned long long word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(where) : "memory");
  return word;
}

extern "C" __global__ void k(const unsigned* in, unsigned* out, unsigned long long* state,
                             unsigned* ticket, int n) {
  constexpr int items = 4;
  __shared__ unsigned tile, exclusive, warp_sums[8];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  if (t == 0) tile = atomicAdd(ticket, 1u);
  __syncthreads();

  const int base = (tile * blockDim.x + t) * items;
  unsigned v[items], sum = 0;
#pragma unroll
  for (int j = 0; j < items; ++j) {
    sum += base + j < n ? in[base + j] : 0u;
    v[j] = sum;
  }
  unsigned scan = sum;
  for (int d = 1; d < 32; d *= 2) {
    const unsigned other = __shfl_up_sync(~0u, scan, d);
    if (lane >= d) scan += other;
  }
  if (lane == 31) warp_sums[warp] = scan;
  __syncthreads();
  unsigned before = scan - sum, total = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }

  if (t == 0) {
    publish(state + tile, tile == 0 ? PREFIX : PARTIAL, total);
    unsigned sum_before = 0;
    for (int at = (int)tile - 1; at >= 0; --at) {
      unsigned long long word;
      do word = look(state + at); while ((word >> 32) == EMPTY);
      sum_before += (unsigned)word;
      if ((word >> 32) == PREFIX) break;
    }
    if (tile > 0) publish(state + tile, PREFIX, sum_before + total);
    exclusive = sum_before;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < items; ++j)
    if (base + j < n) out[base + j] = exclusive + before + v[j];
}
