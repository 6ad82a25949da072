using index_t = int;
#define INDEX_MAX 2147483647



extern "C" __global__ void __launch_bounds__(256) ge2rt_fused_pointwise(const float* __restrict__ x0, float* __restrict__ y0, const float s0, const float s1) {
  constexpr int LANES = 256, PACK = 1, STEPS = 4, RUN = LANES * PACK * STEPS;
  const int start = (int)blockIdx.x * RUN;
  const int me = threadIdx.x % 32, stretch = threadIdx.x / 32 * 32 * STEPS;
  const float* x0_run = x0 + start;
  float* y0_run = y0 + start;
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
        const float x0_value = x0_in[step].at[k];
        float y0_value;
        const float v1 = x0_value * x0_value;
        const float v2 = v1 * x0_value;
        const float v3 = v2 * s0;
        const float v4 = x0_value + v3;
        const float v5 = v4 * s1;
        const float v6 = exp(v5);
        const float v7 = v6 + 1.0f;
        const float v8 = x0_value / v7;
        y0_value = v8;
        y0_out.at[k] = y0_value;
      }
#pragma unroll
      for (int k = 0; k < PACK; ++k) y0_run[at + k] = y0_out.at[k];
    }
  }
}

