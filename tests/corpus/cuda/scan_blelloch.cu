// Exclusive scan in three launches: each block by Blelloch's up and down sweep over two elements a
// thread (with padding against bank conflicts), the block totals by one block, then the addition.
#define PAD(i) ((i) + ((i) >> 5))

__device__ int sweep(int* cell, int n, int t) {
  int distance = 1;
  for (int d = n >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) {
      const int a = PAD(distance * (2 * t + 1) - 1), b = PAD(distance * (2 * t + 2) - 1);
      cell[b] += cell[a];
    }
    distance *= 2;
  }
  __syncthreads();
  const int total = cell[PAD(n - 1)];
  __syncthreads();
  if (t == 0) cell[PAD(n - 1)] = 0;
  for (int d = 1; d < n; d *= 2) {
    distance >>= 1;
    __syncthreads();
    if (t < d) {
      const int a = PAD(distance * (2 * t + 1) - 1), b = PAD(distance * (2 * t + 2) - 1);
      const int carried = cell[a];
      cell[a] = cell[b];
      cell[b] += carried;
    }
  }
  __syncthreads();
  return total;
}

extern "C" __global__ void scan_blocks(const int* in, int* out, int* totals, int n) {
  extern __shared__ int cell[];
  const int t = threadIdx.x, width = 2 * blockDim.x, base = blockIdx.x * width;
  cell[PAD(t)] = base + t < n ? in[base + t] : 0;
  cell[PAD(t + blockDim.x)] = base + t + blockDim.x < n ? in[base + t + blockDim.x] : 0;
  const int total = sweep(cell, width, t);
  if (base + t < n) out[base + t] = cell[PAD(t)];
  if (base + t + blockDim.x < n) out[base + t + blockDim.x] = cell[PAD(t + blockDim.x)];
  if (t == 0) totals[blockIdx.x] = total;
}

extern "C" __global__ void add_offsets(int* out, const int* offsets, int n) {
  const int width = 2 * blockDim.x;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    const int at = blockIdx.x * width + i;
    if (at < n) out[at] += offsets[blockIdx.x];
  }
}
