// Keeps the elements that pass a test, in order: ballots in warps, a scan over the warps of a block,
// block offsets from a counting launch.
__device__ bool passes(float x) { return x > 0.25f; }

extern "C" __global__ void count(const float* in, int n, int* counts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int total = __syncthreads_count(i < n && passes(in[i]));
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

extern "C" __global__ void offsets(const int* counts, int* starts, int blocks) {
  int sum = 0;
  for (int b = 0; b < blocks; ++b) {
    starts[b] = sum;
    sum += counts[b];
  }
  starts[blocks] = sum;
}

extern "C" __global__ void compact(const float* in, int n, const int* starts, float* out, int* at) {
  __shared__ int warp_counts[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  const float x = i < n ? in[i] : 0.0f;
  const bool keep = i < n && passes(x);
  const unsigned votes = __ballot_sync(0xffffffffu, keep);
  unsigned below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  if (lane == 0) warp_counts[warp] = __popc(votes);
  __syncthreads();
  if (warp == 0) {
    const int warps = blockDim.x / warpSize;
    int c = lane < warps ? warp_counts[lane] : 0;
    for (int d = 1; d < 32; d <<= 1) {
      const int other = __shfl_up_sync(0xffffffffu, c, d);
      if (lane >= d) c += other;
    }
    if (lane < warps) warp_counts[lane] = c;
  }
  __syncthreads();
  if (keep) {
    const int slot = starts[blockIdx.x] + (warp ? warp_counts[warp - 1] : 0) + __popc(votes & below);
    out[slot] = x;
    at[slot] = i;
  }
}
