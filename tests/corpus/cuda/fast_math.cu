// The same arithmetic as a user compiles it with -use_fast_math: approximate division and roots, flushed
// subnormals, intrinsics with stated errors. A tone-mapping pass and a Gaussian weight.
__device__ float filmic(float x) {
  const float a = 2.51f, b = 0.03f, c = 2.43f, d = 0.59f, e = 0.14f;
  return __saturatef((x * (a * x + b)) / (x * (c * x + d) + e));
}

extern "C" __global__ void k(const float3* in, float3* out, float* weight, float* tiny, int n,
                             float exposure, float sigma) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float3 v = in[i];
  const float3 c = make_float3(v.x * exp2f(exposure), v.y * exp2f(exposure), v.z * exp2f(exposure));
  const float luminance = 0.2126f * c.x + 0.7152f * c.y + 0.0722f * c.z;
  const float mapped = filmic(luminance) / fmaxf(luminance, 1e-6f);
  out[i] = make_float3(powf(c.x * mapped, 1.0f / 2.2f), sqrtf(c.y * mapped), logf(1.0f + c.z * mapped));
  const float r2 = v.x * v.x + v.y * v.y + v.z * v.z;
  weight[i] = expf(-r2 / (2.0f * sigma * sigma)) * rsqrtf(6.2831853f * sigma * sigma) + sinf(v.x) * cosf(v.y);
  tiny[i] = v.x * 1e-39f + 0.0f;  // flushed to zero
}
