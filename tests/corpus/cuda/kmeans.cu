// k-means: points to their nearest centre (centres in shared memory), sums by shared atomics, then new
// centres; the number of changed points by a block vote.
constexpr int K = 5, D = 3;

extern "C" __global__ void assign(const float* points, const float* centres, int* label, float* sums,
                                  int* counts, int* changed, int n) {
  __shared__ float c[K * D], s[K * D];
  __shared__ int m[K];
  for (int i = threadIdx.x; i < K * D; i += blockDim.x) {
    c[i] = centres[i];
    s[i] = 0.0f;
  }
  if (threadIdx.x < K) m[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool moved = false;
  if (i < n) {
    float best = 3.0e38f;
    int which = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      float d2 = 0.0f;
#pragma unroll
      for (int d = 0; d < D; ++d) {
        const float x = points[d * n + i] - c[k * D + d];
        d2 += x * x;
      }
      if (d2 < best) {
        best = d2;
        which = k;
      }
    }
    moved = label[i] != which;
    label[i] = which;
    for (int d = 0; d < D; ++d) atomicAdd(s + which * D + d, points[d * n + i]);
    atomicAdd(m + which, 1);
  }
  const int total = __syncthreads_count(moved);
  if (threadIdx.x == 0 && total) atomicAdd(changed, total);
  for (int j = threadIdx.x; j < K * D; j += blockDim.x) atomicAdd(sums + j, s[j]);
  if (threadIdx.x < K) atomicAdd(counts + threadIdx.x, m[threadIdx.x]);
}

extern "C" __global__ void update(float* centres, float* sums, int* counts) {
  const int k = threadIdx.x, d = threadIdx.y;
  const int count = counts[k];
  __syncthreads();
  if (count) centres[k * D + d] = sums[k * D + d] / count;
  sums[k * D + d] = 0.0f;
  if (d == 0) counts[k] = 0;
}
