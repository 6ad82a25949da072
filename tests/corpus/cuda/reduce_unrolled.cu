// Sum with the block size as a template parameter: every step of the tree is unrolled, the last
// warp works without block barriers, through volatile-free shared memory and __syncwarp.
template <unsigned Threads>
__device__ __forceinline__ void last_warp(double* cell, unsigned t) {
  double v = cell[t];
  if (Threads >= 64) { v += cell[t + 32]; __syncwarp(); cell[t] = v; __syncwarp(); }
#pragma unroll
  for (unsigned step = 16; step > 0; step >>= 1) {
    v += cell[t + step];
    __syncwarp();
    cell[t] = v;
    __syncwarp();
  }
}

template <unsigned Threads, bool Even>
__global__ void sum(const double* __restrict__ in, double* __restrict__ out, unsigned n) {
  __shared__ double cell[Threads + 32];
  const unsigned t = threadIdx.x;
  unsigned i = blockIdx.x * (Threads * 2) + t;
  const unsigned stride = Threads * 2 * gridDim.x;

  double mine = 0.0;
  while (i < n) {
    mine += in[i];
    if (Even || i + Threads < n) mine += in[i + Threads];
    i += stride;
  }
  cell[t] = mine;
  if (t < 32) cell[Threads + t] = 0.0;
  __syncthreads();

  if (Threads >= 512) { if (t < 256) cell[t] += cell[t + 256]; __syncthreads(); }
  if (Threads >= 256) { if (t < 128) cell[t] += cell[t + 128]; __syncthreads(); }
  if (Threads >= 128) { if (t < 64) cell[t] += cell[t + 64]; __syncthreads(); }
  if (t < 32) last_warp<Threads>(cell, t);
  if (t == 0) out[blockIdx.x] = cell[0];
}
