// Cross entropy with label smoothing and its gradient in one launch; ignored labels give zeros.
extern "C" __global__ void k(const float* logits, const long long* labels, float* loss, float* grad,
                             int classes, float smoothing, long long ignored) {
  __shared__ float shared[2][32];
  const float* x = logits + (size_t)blockIdx.x * classes;
  float* g = grad + (size_t)blockIdx.x * classes;
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5, warps = blockDim.x >> 5;
  const long long label = labels[blockIdx.x];
  if (label == ignored) {
    for (int i = t; i < classes; i += blockDim.x) g[i] = 0.0f;
    if (t == 0) loss[blockIdx.x] = 0.0f;
    return;
  }
  float top = -3.0e38f;
  for (int i = t; i < classes; i += blockDim.x) top = fmaxf(top, x[i]);
  for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
  if (lane == 0) shared[0][warp] = top;
  __syncthreads();
  for (int w = 0; w < warps; ++w) top = fmaxf(top, shared[0][w]);
  float sum = 0.0f, all = 0.0f;
  for (int i = t; i < classes; i += blockDim.x) {
    sum += expf(x[i] - top);
    all += x[i];
  }
  for (int d = 16; d; d >>= 1) {
    sum += __shfl_xor_sync(~0u, sum, d);
    all += __shfl_xor_sync(~0u, all, d);
  }
  __syncthreads();
  if (lane == 0) {
    shared[0][warp] = sum;
    shared[1][warp] = all;
  }
  __syncthreads();
  sum = all = 0.0f;
  for (int w = 0; w < warps; ++w) {
    sum += shared[0][w];
    all += shared[1][w];
  }
  const float lse = top + log1pf(sum - 1.0f), base = smoothing / classes;
  for (int i = t; i < classes; i += blockDim.x)
    g[i] = expf(x[i] - lse) - base - (i == label ? 1.0f - smoothing : 0.0f);
  if (t == 0) loss[blockIdx.x] = lse - (1.0f - smoothing) * x[label] - base * all;
}
