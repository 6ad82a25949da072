// 256-bin histogram of bytes, read as words, one sub-histogram a warp in shared memory; a second
// kernel merges the blocks' histograms. The layout of the classic sample.
#define BINS 256
#define WARPS 4

extern "C" __global__ void count(const unsigned* words, int n, unsigned* partial) {
  __shared__ unsigned bins[WARPS * BINS];
  for (int i = threadIdx.x; i < WARPS * BINS; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  unsigned* mine = bins + (threadIdx.x >> 5) * BINS;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    const unsigned word = words[i];
    atomicAdd(mine + ((word >> 0) & 0xffu), 1u);
    atomicAdd(mine + ((word >> 8) & 0xffu), 1u);
    atomicAdd(mine + ((word >> 16) & 0xffu), 1u);
    atomicAdd(mine + ((word >> 24) & 0xffu), 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    unsigned sum = 0;
    for (int w = 0; w < WARPS; ++w) sum += bins[bin + w * BINS];
    partial[blockIdx.x * BINS + bin] = sum;
  }
}

extern "C" __global__ void merge(const unsigned* partial, unsigned* histogram, unsigned count) {
  __shared__ unsigned data[64];
  unsigned sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += 64) sum += partial[blockIdx.x + i * BINS];
  data[threadIdx.x] = sum;
  for (unsigned stride = 32; stride > 0; stride >>= 1) {
    __syncthreads();
    if (threadIdx.x < stride) data[threadIdx.x] += data[threadIdx.x + stride];
  }
  if (threadIdx.x == 0) histogram[blockIdx.x] = data[0];
}
