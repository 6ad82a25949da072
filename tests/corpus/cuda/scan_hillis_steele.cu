// Inclusive scan of a block by Hillis and Steele, with two buffers in one piece of shared memory.
extern "C" __global__ void k(const float* in, float* out, float* totals, int n) {
  extern __shared__ float buffer[];
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  int from = 0, to = 1;
  buffer[t] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int offset = 1; offset < blockDim.x; offset *= 2) {
    const float v = buffer[from * blockDim.x + t];
    buffer[to * blockDim.x + t] = t >= offset ? v + buffer[from * blockDim.x + t - offset] : v;
    from = 1 - from;
    to = 1 - to;
    __syncthreads();
  }
  if (i < n) out[i] = buffer[from * blockDim.x + t];
  if (t == blockDim.x - 1) totals[blockIdx.x] = buffer[from * blockDim.x + t];
}
