// Many small products at once: an 8x8 by 8x8 matrix product a half-warp tile, pointers to the matrices
// in arrays (a pointer table), double precision, transposed operands by flags in a struct.
struct Shape {
  int m, n, k;
  bool transpose_a, transpose_b;
  double alpha;
};

__device__ __forceinline__ double load(const double* p, int row, int col, int ld, bool swap) {
  return swap ? p[col * ld + row] : p[row * ld + col];
}

extern "C" __global__ void k(const double* const* as, const double* const* bs, double* const* cs,
                             Shape s, int batch) {
  extern __shared__ double pool[];
  const int which = blockIdx.x * blockDim.y + threadIdx.y;
  double* a = pool + threadIdx.y * (s.m * s.k + s.k * s.n);
  double* b = a + s.m * s.k;
  if (which < batch) {
    const double* from_a = as[which];
    const double* from_b = bs[which];
    for (int i = threadIdx.x; i < s.m * s.k; i += blockDim.x)
      a[i] = load(from_a, i / s.k, i % s.k, s.transpose_a ? s.m : s.k, s.transpose_a);
    for (int i = threadIdx.x; i < s.k * s.n; i += blockDim.x)
      b[i] = load(from_b, i / s.n, i % s.n, s.transpose_b ? s.k : s.n, s.transpose_b);
  }
  __syncthreads();
  if (which >= batch) return;
  double* c = cs[which];
  for (int i = threadIdx.x; i < s.m * s.n; i += blockDim.x) {
    double sum = 0;
    for (int p = 0; p < s.k; ++p) sum += a[i / s.n * s.k + p] * b[p * s.n + i % s.n];
    c[i] += s.alpha * sum;
  }
}
