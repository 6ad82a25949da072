using index_t = int;
#define INDEX_MAX 2147483647



extern "C" __global__ void __launch_bounds__(256) ge2rt_fused_pointwise(const float* __restrict__ x0, float* __restrict__ y0) {
  constexpr int LANES = 32, PACK = 1, STEPS = 4, RUN = LANES * PACK * STEPS;
  const int extent = 256;
  const int runs = (extent - 1) / RUN + 1;  // runs a row
  const int warp = (int)blockIdx.x * 8 + threadIdx.x / 32;
  const int row = warp / runs;
  if (row >= 16384 / extent) return;
  const int start = (warp - row * runs) * RUN;
  const int me = threadIdx.x % 32, stretch = 0;
int x0_at = 0;
int y0_at = 0;
x0_at = (row) * 256;
y0_at = (row) * 256;
  [[maybe_unused]] const int c0 = row;
  const float* x0_run = x0 + x0_at + start;
  float* y0_run = y0 + y0_at + start;
  {
    Pack<float, PACK> x0_in[STEPS];
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      [[maybe_unused]] const int at = (stretch + step * 32 + me) * PACK;
#pragma unroll
      for (int k = 0; k < PACK; ++k) x0_in[step].at[k] = x0_run[at + k];
    }
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      [[maybe_unused]] const int at = (stretch + step * 32 + me) * PACK;
      Pack<float, PACK> y0_out;
#pragma unroll
      for (int k = 0; k < PACK; ++k) {
        [[maybe_unused]] const int c1 = start + at + k;
        const float x0_value = x0_in[step].at[k];
        float y0_value;
        const long long v1 = c0;
        const long long v2 = c1;
        const bool v3 = v1 >= v2;
        const float v4 = v3 ? x0_value : __int_as_float((int)0xff800000);
        y0_value = v4;
        y0_out.at[k] = y0_value;
      }
#pragma unroll
      for (int k = 0; k < PACK; ++k) y0_run[at + k] = y0_out.at[k];
    }
  }
}

