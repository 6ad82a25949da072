// One-dimensional convolution with the filter in constant memory and a tile with halo cells: the inner
// cells come from shared memory, the edges of the signal count as zero.
#define RADIUS 6
#define TILE 128
__constant__ float filter[2 * RADIUS + 1];

extern "C" __global__ void k(const float* in, float* out, int n) {
  __shared__ float tile[TILE + 2 * RADIUS];
  const int i = blockIdx.x * TILE + threadIdx.x;
  const int left = (blockIdx.x * TILE) - RADIUS;
  for (int j = threadIdx.x; j < TILE + 2 * RADIUS; j += blockDim.x) {
    const int at = left + j;
    tile[j] = at >= 0 && at < n ? in[at] : 0.0f;
  }
  __syncthreads();
  if (i >= n) return;
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j <= 2 * RADIUS; ++j) sum += tile[threadIdx.x + j] * filter[j];
  out[i] = sum;
}
