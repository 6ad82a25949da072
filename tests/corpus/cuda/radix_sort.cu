// One block sorts 512 unsigned keys with four-bit digits: eight stable passes, each with a ballot per
// digit in every warp, a scan over the digit counts, and a scatter through shared memory.
constexpr int THREADS = 256, ITEMS = 2, WARPS = THREADS / 32, RADIX = 16;

extern "C" __global__ void k(const unsigned* in, unsigned* out) {
  __shared__ unsigned keys[THREADS * ITEMS];
  __shared__ unsigned counts[RADIX][WARPS * ITEMS];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const unsigned below = (1u << lane) - 1u;
  for (int j = 0; j < ITEMS; ++j) keys[j * THREADS + t] = in[blockIdx.x * 512 + j * THREADS + t];
  __syncthreads();

  for (int shift = 0; shift < 32; shift += 4) {
    unsigned key[ITEMS], rank[ITEMS];
    for (int j = 0; j < ITEMS; ++j) {
      key[j] = keys[j * THREADS + t];
      const unsigned digit = key[j] >> shift & (RADIX - 1);
      for (unsigned d = 0; d < RADIX; ++d) {
        const unsigned same = __ballot_sync(0xffffffffu, digit == d);
        if (digit == d) rank[j] = __popc(same & below);
        if (lane == 0) counts[d][j * WARPS + warp] = __popc(same);
      }
    }
    __syncthreads();

    // exclusive scan over 16 digits x 16 columns, by one thread a cell
    unsigned* flat = &counts[0][0];
    const unsigned mine = flat[t];
    unsigned sum = mine;
    for (int d = 1; d < RADIX * WARPS * ITEMS; d *= 2) {
      __syncthreads();
      const unsigned other = t >= d ? flat[t - d] : 0;
      __syncthreads();
      sum += other;
      flat[t] = sum;
    }
    __syncthreads();
    flat[t] = sum - mine;
    __syncthreads();

    for (int j = 0; j < ITEMS; ++j) {
      const unsigned digit = key[j] >> shift & (RADIX - 1);
      keys[counts[digit][j * WARPS + warp] + rank[j]] = key[j];
    }
    __syncthreads();
  }
  for (int j = 0; j < ITEMS; ++j) out[blockIdx.x * 512 + j * THREADS + t] = keys[j * THREADS + t];
}
