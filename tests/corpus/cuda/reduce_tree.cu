// Sum by a tree in shared memory: each thread brings two elements, then the block halves.
// A second launch sums the partial results of the blocks.
extern "C" __global__ void k(const float* in, float* out, unsigned n) {
  extern __shared__ float cell[];
  const unsigned t = threadIdx.x;
  unsigned i = blockIdx.x * (blockDim.x * 2) + t;

  float mine = i < n ? in[i] : 0.0f;
  if (i + blockDim.x < n) mine += in[i + blockDim.x];
  cell[t] = mine;
  __syncthreads();

  for (unsigned half = blockDim.x / 2; half > 0; half >>= 1) {
    if (t < half) cell[t] += cell[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = cell[0];
}
