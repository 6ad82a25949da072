// LU with partial pivoting of one small matrix a thread, in local memory, then the solution of a
// system and the determinant. Batches interleaved so that loads are coalesced.
template <int N>
struct Matrix {
  double v[N][N];
  int swaps;

  __device__ bool factor(int (&order)[N]) {
    swaps = 0;
    for (int i = 0; i < N; ++i) order[i] = i;
    for (int c = 0; c < N; ++c) {
      int best = c;
      for (int r = c + 1; r < N; ++r)
        if (fabs(v[r][c]) > fabs(v[best][c])) best = r;
      if (v[best][c] == 0.0) return false;
      if (best != c) {
        for (int j = 0; j < N; ++j) {
          const double t = v[c][j];
          v[c][j] = v[best][j];
          v[best][j] = t;
        }
        const int t = order[c];
        order[c] = order[best];
        order[best] = t;
        ++swaps;
      }
      for (int r = c + 1; r < N; ++r) {
        v[r][c] /= v[c][c];
        for (int j = c + 1; j < N; ++j) v[r][j] -= v[r][c] * v[c][j];
      }
    }
    return true;
  }
};

template <int N>
__global__ void solve(const double* a, const double* b, double* x, double* det, int batch) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= batch) return;
  Matrix<N> m;
  for (int i = 0; i < N * N; ++i) m.v[i / N][i % N] = a[i * batch + t];
  int order[N];
  if (!m.factor(order)) {
    det[t] = 0.0;
    return;
  }
  double y[N], d = m.swaps & 1 ? -1.0 : 1.0;
  for (int i = 0; i < N; ++i) {
    y[i] = b[order[i] * batch + t];
    for (int j = 0; j < i; ++j) y[i] -= m.v[i][j] * y[j];
    d *= m.v[i][i];
  }
  for (int i = N - 1; i >= 0; --i) {
    for (int j = i + 1; j < N; ++j) y[i] -= m.v[i][j] * y[j];
    y[i] /= m.v[i][i];
  }
  for (int i = 0; i < N; ++i) x[i * batch + t] = y[i];
  det[t] = d;
}
