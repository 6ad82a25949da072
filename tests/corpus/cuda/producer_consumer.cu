// Warp specialisation with named barriers: two producer warps fill a ring of two buffers, two consumer
// warps empty it; full and empty barriers per buffer, 128 threads each.
#define FULL(b) (1 + (b))
#define EMPTY(b) (3 + (b))

__device__ __forceinline__ void wait(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
__device__ __forceinline__ void arrive(int id) { asm volatile("bar.arrive %0, 128;" ::"r"(id) : "memory"); }

extern "C" __global__ void k(const float* in, float* out, int tiles) {
  __shared__ float ring[2][64];
  const int t = threadIdx.x & 63;
  const bool producer = threadIdx.x < 64;
  if (producer) {
    for (int i = 0; i < tiles; ++i) {
      const int b = i & 1;
      if (i >= 2) wait(EMPTY(b));
      ring[b][t] = in[(blockIdx.x * tiles + i) * 64 + t] * 2.0f;
      arrive(FULL(b));
    }
  } else {
    float sum = 0.0f;
    for (int i = 0; i < tiles; ++i) {
      const int b = i & 1;
      wait(FULL(b));
      sum += ring[b][63 - t] + ring[b][t ^ 1];
      if (i + 2 < tiles) arrive(EMPTY(b));
    }
    out[blockIdx.x * 64 + t] = sum;
  }
}
