// Sparse matrix times vector in three formats: CSR with a thread a row, CSR with a warp a row, ELL in
// column-major order.
extern "C" __global__ void csr_scalar(const int* start, const int* column, const float* value,
                                      const float* x, float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = start[row]; j < start[row + 1]; ++j) sum += value[j] * __ldg(x + column[j]);
  y[row] = sum;
}

extern "C" __global__ void csr_vector(const int* start, const int* column, const float* value,
                                      const float* x, float* y, int rows) {
  __shared__ volatile float part[128];
  const int t = threadIdx.x, lane = t & 31;
  const int warps = gridDim.x * blockDim.x / 32;
  for (int row = (blockIdx.x * blockDim.x + t) / 32; row < rows; row += warps) {
    float sum = 0.0f;
    for (int j = start[row] + lane; j < start[row + 1]; j += 32) sum += value[j] * x[column[j]];
    part[t] = sum;
    __syncwarp();
    for (int d = 16; d > 0; d >>= 1) {
      if (lane < d) part[t] += part[t + d];
      __syncwarp();
    }
    if (lane == 0) y[row] = part[t];
  }
}

extern "C" __global__ void ell(const int* column, const float* value, const float* x, float* y,
                               int rows, int width) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = 0; j < width; ++j) {
    const int c = column[j * rows + row];
    if (c >= 0) sum += value[j * rows + row] * x[c];
  }
  y[row] = sum;
}
