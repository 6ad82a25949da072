// A separable filter in two passes over shared memory; every thread makes several results. The shape
// of the well-known convolutionSeparable program.
#define RADIUS 4
#define LENGTH (2 * RADIUS + 1)
__constant__ float c_kernel[LENGTH];

#define ROWS_X 16
#define ROWS_Y 4
#define ROWS_STEPS 4
#define HALO 1

extern "C" __global__ void rows(float* dst, const float* src, int w, int h, int pitch) {
  __shared__ float data[ROWS_Y][(ROWS_STEPS + 2 * HALO) * ROWS_X];
  const int base_x = (blockIdx.x * ROWS_STEPS - HALO) * ROWS_X + threadIdx.x;
  const int base_y = blockIdx.y * ROWS_Y + threadIdx.y;
  src += base_y * pitch + base_x;
  dst += base_y * pitch + base_x;
#pragma unroll
  for (int i = HALO; i < HALO + ROWS_STEPS; i++)
    data[threadIdx.y][threadIdx.x + i * ROWS_X] = src[i * ROWS_X];
#pragma unroll
  for (int i = 0; i < HALO; i++)
    data[threadIdx.y][threadIdx.x + i * ROWS_X] = base_x >= -i * ROWS_X ? src[i * ROWS_X] : 0;
#pragma unroll
  for (int i = HALO + ROWS_STEPS; i < HALO + ROWS_STEPS + HALO; i++)
    data[threadIdx.y][threadIdx.x + i * ROWS_X] = w - base_x > i * ROWS_X ? src[i * ROWS_X] : 0;
  __syncthreads();
#pragma unroll
  for (int i = HALO; i < HALO + ROWS_STEPS; i++) {
    float sum = 0;
#pragma unroll
    for (int j = -RADIUS; j <= RADIUS; j++)
      sum += c_kernel[RADIUS - j] * data[threadIdx.y][threadIdx.x + i * ROWS_X + j];
    dst[i * ROWS_X] = sum;
  }
}

#define COLS_X 16
#define COLS_Y 8
#define COLS_STEPS 4

extern "C" __global__ void columns(float* dst, const float* src, int w, int h, int pitch) {
  __shared__ float data[COLS_X][(COLS_STEPS + 2 * HALO) * COLS_Y + 1];
  const int base_x = blockIdx.x * COLS_X + threadIdx.x;
  const int base_y = (blockIdx.y * COLS_STEPS - HALO) * COLS_Y + threadIdx.y;
  src += base_y * pitch + base_x;
  dst += base_y * pitch + base_x;
#pragma unroll
  for (int i = 0; i < COLS_STEPS + 2 * HALO; i++) {
    const int y = base_y + i * COLS_Y;
    data[threadIdx.x][threadIdx.y + i * COLS_Y] = y >= 0 && y < h ? src[i * COLS_Y * pitch] : 0;
  }
  __syncthreads();
#pragma unroll
  for (int i = HALO; i < HALO + COLS_STEPS; i++) {
    float sum = 0;
#pragma unroll
    for (int j = -RADIUS; j <= RADIUS; j++)
      sum += c_kernel[RADIUS - j] * data[threadIdx.x][threadIdx.y + i * COLS_Y + j];
    dst[i * COLS_Y * pitch] = sum;
  }
}
