using index_t = int;
#define INDEX_MAX 2147483647



struct Acc0 {
  float a0;
};

struct Combine0 {
  static __device__ __forceinline__ Acc0 of(const Acc0& a, const Acc0& b) {
    Acc0 r;
    r.a0 = a.a0 + b.a0;
    return r;
  }
};

__device__ __forceinline__ Acc0 from_lane(const Acc0& value, int step) {
  return {static_cast<float>(__shfl_xor_sync(0xffffffffu, value.a0, step))};
}

__device__ __forceinline__ Acc0 nothing0() {
  return {(-0.0f)};
}


extern "C" __global__ void __launch_bounds__(256) ge2rt_fused_reduce(const float* __restrict__ x0, float* __restrict__ y0) {

  [[maybe_unused]] const int reduced = 64;
  constexpr int SLICES = 8, COLUMNS = 8, RUN = 32 * COLUMNS;
  const int lane = threadIdx.x % 32, slice = threadIdx.x / 32 % SLICES;
  const int extent = 256;
  const int runs = (extent - 1) / RUN + 1;  // runs a row of outputs
  const int group = (int)blockIdx.x * 1 + threadIdx.x / (32 * SLICES);
  const int output_row = group / runs;
  const int start = (group - output_row * runs) * RUN;
int x0_at = 0;
int y0_at = 0;
  const float* const x0_first = x0 + x0_at + start;
  const float* const x0_lane = x0_first + lane;
  Acc0 total[COLUMNS];
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) total[c] = nothing0();
  const int stretch = (reduced + SLICES - 1) / SLICES;
  const int from = slice * stretch < reduced ? slice * stretch : reduced;
  const int to = reduced - from < stretch ? reduced : from + stretch;
  {
    for (int number = from; number < to; ++number) {
int x0_at = 0;
x0_at = (number) * 256;

#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        const int column = c * 32 + lane;
        
        const float x0_value = x0_lane[x0_at + c * 32];
        Acc0 one;
        [[maybe_unused]] const int at = number;
        const float v1 = x0_value * x0_value;
        one.a0 = v1;

        total[c] = Combine0::of(total[c], one);
      }
    }
  }
  __shared__ Acc0 parts[SLICES][RUN];
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) parts[slice][c * 32 + lane] = total[c];
  __syncthreads();
  for (int column = threadIdx.x; column < RUN && start + column < extent; column += 256) {
    Acc0 all = parts[0][column];
#pragma unroll
    for (int s = 1; s < SLICES; ++s) all = Combine0::of(all, parts[s][column]);
    const Acc0 total0 = all;
    float y0_value;
    const float v2 = reduced > 0 ? total0.a0 : float(0);
    y0_value = v2;
    y0[y0_at + (start + column)] = y0_value;

  }
}

