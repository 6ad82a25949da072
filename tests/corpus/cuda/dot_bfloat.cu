// Dot products of bfloat16 vectors, two elements a load, accumulated in single precision.
#include <cuda_bf16.h>

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int mask = 16; mask; mask >>= 1) v += __shfl_xor_sync(0xffffffffu, v, mask);
  return v;
}

extern "C" __global__ void k(const __nv_bfloat162* a, const __nv_bfloat162* b, float* out,
                             __nv_bfloat16* rounded, int pairs) {
  const int lane = threadIdx.x & 31;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  const __nv_bfloat162* x = a + (size_t)row * pairs;
  const __nv_bfloat162* y = b + (size_t)row * pairs;
  float acc = 0.0f;
  for (int i = lane; i < pairs; i += 32) {
    const float2 u = __bfloat1622float2(x[i]), v = __bfloat1622float2(y[i]);
    acc = fmaf(u.x, v.x, acc);
    acc = fmaf(u.y, v.y, acc);
  }
  acc = warp_sum(acc);
  if (lane == 0) {
    out[row] = acc;
    rounded[row] = __float2bfloat16_rn(acc);
  }
}
