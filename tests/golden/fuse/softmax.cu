using index_t = int;
#define INDEX_MAX 2147483647



struct Acc0 {
  float a0;
};

struct Combine0 {
  static __device__ __forceinline__ Acc0 of(const Acc0& a, const Acc0& b) {
    Acc0 r;
    r.a0 = (a.a0 > b.a0) | (a.a0 != a.a0) ? a.a0 : b.a0;
    return r;
  }
};

__device__ __forceinline__ Acc0 from_lane(const Acc0& value, int step) {
  return {static_cast<float>(__shfl_xor_sync(0xffffffffu, value.a0, step))};
}

__device__ __forceinline__ Acc0 nothing0() {
  return {__int_as_float((int)0xff800000)};
}

struct Acc1 {
  float a0;
};

struct Combine1 {
  static __device__ __forceinline__ Acc1 of(const Acc1& a, const Acc1& b) {
    Acc1 r;
    r.a0 = a.a0 + b.a0;
    return r;
  }
};

__device__ __forceinline__ Acc1 from_lane(const Acc1& value, int step) {
  return {static_cast<float>(__shfl_xor_sync(0xffffffffu, value.a0, step))};
}

__device__ __forceinline__ Acc1 nothing1() {
  return {(-0.0f)};
}

extern "C" __global__ void __launch_bounds__(256) ge2rt_fused_rows(const float* __restrict__ x0, float* __restrict__ y0) {

  constexpr int GROUP = 32, PACK = 1;
  const int extent = 256, reduced = extent;
  const int row = (int)blockIdx.x * 8 + threadIdx.x / GROUP;
  if (row >= 64) return;
  const int me = threadIdx.x % GROUP;
int x0_at = 0;
int y0_at = 0;
x0_at = (row) * 256;
y0_at = (row) * 256;
  const float* const x0_row = x0 + x0_at;
  float* const y0_row = y0 + y0_at;

  
  Acc0 total0 = nothing0();
  for (int first = me * PACK; first < extent; first += GROUP * PACK) {
    const Pack<float, PACK> x0_in = {x0_row[first]};
#pragma unroll
    for (int k = 0; k < PACK; ++k) {
      [[maybe_unused]] const int at = first + k;
      const float x0_value = x0_in.at[k];
      Acc0 one;
      one.a0 = x0_value;
      total0 = Combine0::of(total0, one);
    }
  }
  total0 = group_reduce<GROUP, Combine0>(total0);

  const float v1 = total0.a0;
  Acc1 total1 = nothing1();
  for (int first = me * PACK; first < extent; first += GROUP * PACK) {
    const Pack<float, PACK> x0_in = {x0_row[first]};
    Pack<float, PACK> v3_out;
#pragma unroll
    for (int k = 0; k < PACK; ++k) {
      [[maybe_unused]] const int at = first + k;
      const float x0_value = x0_in.at[k];
      Acc1 one;
      const float v2 = x0_value - v1;
      const float v3 = exp(v2);
      one.a0 = v3;
      total1 = Combine1::of(total1, one);
      v3_out.at[k] = static_cast<float>(v3);
    }
    y0_row[first] = v3_out.at[0];
  }
  total1 = group_reduce<GROUP, Combine1>(total1);

  const float v4 = reduced > 0 ? total1.a0 : float(0);
  for (int first = me * PACK; first < extent; first += GROUP * PACK) {
    const Pack<float, PACK> v3_in = {y0_row[first]};
    Pack<float, PACK> y0_out;
#pragma unroll
    for (int k = 0; k < PACK; ++k) {
      [[maybe_unused]] const int at = first + k;
      const float v3 = static_cast<float>(v3_in.at[k]);
      float y0_value;
      const float v5 = v3 / v4;
      y0_value = v5;
      y0_out.at[k] = y0_value;
    }
    y0_row[first] = y0_out.at[0];
  }

  
}

