// A program as people write it: a tiled matrix product and a histogram in shared memory.
#define TILE 16
#define BINS 64

__constant__ float scale;

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[TILE][TILE];
  __shared__ float tile_b[TILE][TILE + 1];
  int row = blockIdx.y * TILE + threadIdx.y;
  int col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int first = 0; first < k; first += TILE) {
    int ka = first + threadIdx.x, kb = first + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = scale * sum;
}

template <typename T>
__global__ void histogram(const T* values, long long count, T low, T high, unsigned* bins) {
  __shared__ unsigned local[BINS];
  for (int i = threadIdx.x; i < BINS; i += blockDim.x) local[i] = 0;
  __syncthreads();
  long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += step) {
    int bin = (int)((values[i] - low) / (high - low) * BINS);
    atomicAdd(&local[min(max(bin, 0), BINS - 1)], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < BINS; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}
