// Half precision arrives as inline assembly in scopes of its own.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void half_math(
    const __half2* a, const __nv_bfloat162* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half2 x = __hfma2(a[i], a[i + 1], __hmax2(a[i], a[i + 2]));
  __nv_bfloat162 y = __hfma2(b[i], b[i], b[i + 1]);
  float sum = __half2float(__hadd(x.x, hexp(x.y))) + __bfloat162float(y.x) - __low2float(y);
  for (int lanes = 16; lanes; lanes >>= 1) sum += __shfl_xor_sync(~0u, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(out + i / 32, sum);
  while (sum > 1.f) { sum *= 0.5f; if (__any_sync(__activemask(), sum < 0.f)) break; }
  out[i] = sum;
}
