using index_t = int;
#define INDEX_MAX 2147483647



extern "C" __global__ void __launch_bounds__(256) ge2rt_fused_pointwise(const float* __restrict__ x0, const float* __restrict__ x1, float* __restrict__ y0) {
  [[maybe_unused]] constexpr int k0 = 128;
  [[maybe_unused]] constexpr int k1 = 256;
  [[maybe_unused]] constexpr int k2 = (-128);
  [[maybe_unused]] const int x0_n0 = 64, x0_s0 = 256;
  [[maybe_unused]] const int x0_n1 = 128, x0_s1 = 1;
  [[maybe_unused]] const int x1_n0 = 64, x1_s0 = 256;
  [[maybe_unused]] const int x1_n1 = 128, x1_s1 = 1;
  constexpr int LANES = 32, PACK = 1, STEPS = 4, RUN = LANES * PACK * STEPS;
  const int extent = 256;
  const int runs = (extent - 1) / RUN + 1;  // runs a row
  const int warp = (int)blockIdx.x * 8 + threadIdx.x / 32;
  const int row = warp / runs;
  if (row >= 16384 / extent) return;
  const int start = (warp - row * runs) * RUN;
  const int me = threadIdx.x % 32, stretch = 0;
int y0_at = 0;
y0_at = (row) * 256;
  [[maybe_unused]] const int c0 = row;
  float* y0_run = y0 + y0_at + start;
  {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      [[maybe_unused]] const int at = (stretch + step * 32 + me) * PACK;
    }
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      [[maybe_unused]] const int at = (stretch + step * 32 + me) * PACK;
      Pack<float, PACK> y0_out;
#pragma unroll
      for (int k = 0; k < PACK; ++k) {
        [[maybe_unused]] const int c1 = start + at + k;
        float y0_value;
        float v1;
        if (c1 < k0) {
          [[maybe_unused]] const index_t e1_0 = c0;
          [[maybe_unused]] const index_t e1_1 = c1;
          const float v2 = x0[e1_0 * x0_s0 + e1_1 * x0_s1];
          const float v3 = -v2;
          v1 = v3;
        } else {
          [[maybe_unused]] const index_t e2_0 = c0;
          [[maybe_unused]] const index_t e2_1 = c1 + k2;
          const float v4 = x1[e2_0 * x1_s0 + e2_1 * x1_s1];
          v1 = v4;
        }
        y0_value = v1;
        y0_out.at[k] = y0_value;
      }
#pragma unroll
      for (int k = 0; k < PACK; ++k) y0_run[at + k] = y0_out.at[k];
    }
  }
}

