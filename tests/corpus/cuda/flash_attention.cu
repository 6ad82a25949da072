// Attention forward in tiles with an online softmax, causal: one block a head and 32 queries, keys and
// values through shared memory, each thread owns one query row in registers.
constexpr int D = 16, ROWS = 32, TILE = 16;

extern "C" __global__ void k(const float* q, const float* key, const float* value, float* out,
                             float* logsum, int n, float scale) {
  __shared__ float ks[TILE][D], vs[TILE][D];
  const int head = blockIdx.y, t = threadIdx.x, row = blockIdx.x * ROWS + t;
  const size_t base = (size_t)head * n * D;
  float query[D], acc[D];
#pragma unroll
  for (int d = 0; d < D; ++d) {
    query[d] = row < n ? q[base + row * D + d] * scale : 0.0f;
    acc[d] = 0.0f;
  }
  float top = -1e30f, sum = 0.0f;
  const int last = min(n, (int)(blockIdx.x + 1) * ROWS);
  for (int start = 0; start < last; start += TILE) {
    for (int i = t; i < TILE * D; i += ROWS) {
      const int r = start + i / D;
      ks[i / D][i % D] = r < n ? key[base + start * D + i] : 0.0f;
      vs[i / D][i % D] = r < n ? value[base + start * D + i] : 0.0f;
    }
    __syncthreads();
    float s[TILE], high = top;
#pragma unroll
    for (int j = 0; j < TILE; ++j) {
      float dot = 0.0f;
#pragma unroll
      for (int d = 0; d < D; ++d) dot += query[d] * ks[j][d];
      s[j] = start + j <= row && start + j < n ? dot : -1e30f;
      high = fmaxf(high, s[j]);
    }
    const float correction = exp2f((top - high) * 1.44269504f);
    sum *= correction;
#pragma unroll
    for (int d = 0; d < D; ++d) acc[d] *= correction;
#pragma unroll
    for (int j = 0; j < TILE; ++j) {
      const float p = s[j] > -1e29f ? exp2f((s[j] - high) * 1.44269504f) : 0.0f;
      sum += p;
#pragma unroll
      for (int d = 0; d < D; ++d) acc[d] = fmaf(p, vs[j][d], acc[d]);
    }
    top = high;
    __syncthreads();
  }
  if (row >= n) return;
  const float inverse = 1.0f / sum;
#pragma unroll
  for (int d = 0; d < D; ++d) out[base + row * D + d] = acc[d] * inverse;
  logsum[head * n + row] = top + logf(sum);
}
