// Four transposes of one matrix: naive, through a tile, through a padded tile, diagonal block order.
// 32x32 tiles by 32x8 threads, each thread moves four elements.
constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void naive(const float* in, float* out, int w, int h) {
  const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < w && y + j < h) out[(size_t)x * h + y + j] = in[(size_t)(y + j) * w + x];
}

template <int Pad>
__device__ void through_tile(const float* in, float* out, int w, int h, int bx, int by) {
  __shared__ float tile[TILE][TILE + Pad];
  int x = bx * TILE + threadIdx.x, y = by * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < w && y + j < h) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * w + x];
  __syncthreads();
  x = by * TILE + threadIdx.x;
  y = bx * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < h && y + j < w) out[(y + j) * h + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void tiled(const float* in, float* out, int w, int h) {
  through_tile<0>(in, out, w, h, blockIdx.x, blockIdx.y);
}

extern "C" __global__ void padded(const float* in, float* out, int w, int h) {
  through_tile<1>(in, out, w, h, blockIdx.x, blockIdx.y);
}

extern "C" __global__ void diagonal(const float* in, float* out, int w, int h) {
  int bx, by;
  if (gridDim.x == gridDim.y) {
    by = blockIdx.x;
    bx = (blockIdx.x + blockIdx.y) % gridDim.x;
  } else {
    const int linear = blockIdx.x + gridDim.x * blockIdx.y;
    by = linear % gridDim.y;
    bx = ((linear / gridDim.y) + by) % gridDim.x;
  }
  through_tile<1>(in, out, w, h, bx, by);
}
