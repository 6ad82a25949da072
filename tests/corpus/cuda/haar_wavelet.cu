// All levels of the Haar wavelet of 512 samples in one block: approximations in shared memory,
// details to their places in the output.
extern "C" __global__ void k(const float* in, float* out, int levels) {
  extern __shared__ float cell[];
  const float scale = rsqrtf(2.0f);
  const int t = threadIdx.x, n = 2 * blockDim.x, base = blockIdx.x * n;
  cell[t] = in[base + t];
  cell[t + blockDim.x] = in[base + t + blockDim.x];
  int half = blockDim.x;
  for (int level = 0; level < levels; ++level) {
    __syncthreads();
    float low = 0.0f, high = 0.0f;
    if (t < half) {
      const float2 pair = reinterpret_cast<float2*>(cell)[t];
      low = (pair.x + pair.y) * scale;
      high = (pair.x - pair.y) * scale;
    }
    __syncthreads();
    if (t < half) {
      cell[t] = low;
      out[base + half + t] = high;
    }
    half >>= 1;
  }
  __syncthreads();
  for (int i = t; i < 2 * half; i += blockDim.x) out[base + i] = cell[i];
}
