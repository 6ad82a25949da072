// Jacobi iterations in double precision for a dense, diagonally dominant system, a warp a row, and
// the largest change by an atomic maximum on the bits of a positive double.
extern "C" __global__ void k(const double* a, const double* b, const double* x, double* y, int n,
                             unsigned long long* change) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= n) return;
  double sum = 0.0, diagonal = 1.0;
  for (int j = lane; j < n; j += 32) {
    const double v = a[(size_t)row * n + j];
    if (j != row) sum = fma(v, x[j], sum);
    else diagonal = v;
  }
  for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
  diagonal = __shfl_sync(0xffffffffu, diagonal, row & 31);
  if (lane == 0) {
    const double next = (b[row] - sum) / diagonal;
    y[row] = next;
    atomicMax(change, (unsigned long long)__double_as_longlong(fabs(next - x[row])));
  }
}
