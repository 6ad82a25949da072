// Conjugate gradients on a tridiagonal system by one block that runs all iterations: dot products by
// shuffles in double precision, vectors in shared memory, a loop that ends by a uniform condition.
constexpr int N = 256;

__device__ double block_sum(double v, double* part) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  double sum = 0.0;
  for (int w = 0; w < N / 32; ++w) sum += part[w];
  return sum;
}

extern "C" __global__ void k(const double* low, const double* diagonal, const double* high,
                             const double* b, double* x, int* iterations, double tolerance,
                             int most) {
  __shared__ double p[N + 2], part[N / 32];
  const int t = threadIdx.x;
  const double l = low[t], d = diagonal[t], u = high[t];
  double xt = 0.0, r = b[t];
  if (t == 0) p[0] = p[N + 1] = 0.0;
  p[t + 1] = r;
  double rr = block_sum(r * r, part);
  const double stop = tolerance * tolerance * rr;
  int it = 0;
  while (rr > stop && it < most) {
    const double mine = p[t + 1];
    const double ap = l * p[t] + d * mine + u * p[t + 2];
    const double alpha = rr / block_sum(mine * ap, part);
    xt += alpha * mine;
    r -= alpha * ap;
    const double next = block_sum(r * r, part);
    p[t + 1] = r + next / rr * mine;
    rr = next;
    __syncthreads();
    ++it;
  }
  x[t] = xt;
  if (t == 0) *iterations = it;
}
