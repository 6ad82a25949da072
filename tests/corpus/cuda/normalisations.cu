// Layer normalisation by shuffles with float4 loads (a warp a row), and root-mean-square normalisation
// of halves (a block a row, half2 loads), the pieces of transformer libraries.
#include <cuda_fp16.h>

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

extern "C" __global__ void layernorm(const float4* in, const float4* gamma, const float4* beta,
                                     float4* out, int quads, float eps) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  const float4* x = in + row * quads;
  float sum = 0;
  for (int i = threadIdx.x; i < quads; i += 32) sum += (x[i].x + x[i].y) + (x[i].z + x[i].w);
  const float n = 4.0f * quads, mean = warp_sum(sum) / n;
  float squares = 0;
  for (int i = threadIdx.x; i < quads; i += 32) {
    const float4 v = x[i];
    const float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
    squares += a * a + b * b + c * c + d * d;
  }
  const float inverse = rsqrtf(warp_sum(squares) / n + eps);
  for (int i = threadIdx.x; i < quads; i += 32) {
    const float4 v = x[i], g = gamma[i], b = beta[i];
    out[row * quads + i] =
        make_float4((v.x - mean) * inverse * g.x + b.x, (v.y - mean) * inverse * g.y + b.y,
                    (v.z - mean) * inverse * g.z + b.z, (v.w - mean) * inverse * g.w + b.w);
  }
}

extern "C" __global__ void rmsnorm(const __half2* in, const __half2* weight, __half2* out, int pairs,
                                   float eps) {
  __shared__ float part[32];
  const __half2* x = in + blockIdx.x * pairs;
  float squares = 0;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 v = __half22float2(x[i]);
    squares += v.x * v.x + v.y * v.y;
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) total += part[w];
  const float inverse = rsqrtf(total / (2 * pairs) + eps);
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 v = __half22float2(x[i]);
    const __half2 scaled = __floats2half2_rn(v.x * inverse, v.y * inverse);
    out[blockIdx.x * pairs + i] = __hmul2(scaled, weight[i]);
  }
}
