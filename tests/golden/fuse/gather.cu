using index_t = int;
#define INDEX_MAX 2147483647
// An index of an axis of n elements; one outside raises the flag and becomes 0.
template <typename I>
__device__ __forceinline__ index_t index_inside(I at, index_t n, int* fault) {
  const bool inside = static_cast<unsigned long long>(static_cast<long long>(at)) < static_cast<unsigned long long>(n);
  if (!inside) *fault = 1;
  return inside ? static_cast<index_t>(at) : 0;
}



extern "C" __global__ void __launch_bounds__(256) ge2rt_fused_pointwise(const long long* __restrict__ x0, const float* __restrict__ x1, float* __restrict__ y0, int* __restrict__ fault, const float s0) {
  [[maybe_unused]] const int x1_n0 = 64, x1_s0 = 256;
  [[maybe_unused]] const int x1_n1 = 7, x1_s1 = 0;
  [[maybe_unused]] const int x1_n2 = 256, x1_s2 = 1;
  constexpr int LANES = 32, PACK = 1, STEPS = 4, RUN = LANES * PACK * STEPS;
  const int extent = 256;
  const int runs = (extent - 1) / RUN + 1;  // runs a row
  const int warp = (int)blockIdx.x * 8 + threadIdx.x / 32;
  const int row = warp / runs;
  if (row >= 1792 / extent) return;
  const int start = (warp - row * runs) * RUN;
  const int me = threadIdx.x % 32, stretch = 0;
int x0_at = 0;
int y0_at = 0;
x0_at = row;
y0_at = (row) * 256;
  [[maybe_unused]] const int c0 = row;
  const long long* x0_run = x0 + x0_at + 0;
  float* y0_run = y0 + y0_at + start;
  {
    Pack<long long, PACK> x0_in[STEPS];
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      [[maybe_unused]] const int at = (stretch + step * 32 + me) * PACK;
#pragma unroll
      for (int k = 0; k < PACK; ++k) x0_in[step].at[k] = x0_run[0];
    }
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      [[maybe_unused]] const int at = (stretch + step * 32 + me) * PACK;
      Pack<float, PACK> y0_out;
#pragma unroll
      for (int k = 0; k < PACK; ++k) {
        [[maybe_unused]] const int c1 = start + at + k;
        const long long x0_value = x0_in[step].at[k];
        float y0_value;
        const index_t i1_0 = index_inside(x0_value, x1_n0, fault);
        const float v1 = x1[i1_0 * x1_s0 + c0 * x1_s1 + c1 * x1_s2];
        const float v2 = v1 * s0;
        y0_value = v2;
        y0_out.at[k] = y0_value;
      }
#pragma unroll
      for (int k = 0; k < PACK; ++k) y0_run[at + k] = y0_out.at[k];
    }
  }
}

