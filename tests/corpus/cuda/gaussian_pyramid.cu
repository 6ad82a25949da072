// One step down a Gaussian pyramid, of float4 pixels: binomial weights 1 4 6 4 1, borders mirrored.
__device__ __forceinline__ int mirror(int i, int n) {
  if (i < 0) i = -i;
  if (i >= n) i = 2 * n - 2 - i;
  return i;
}

__device__ __forceinline__ float4 operator*(float s, float4 v) {
  return make_float4(s * v.x, s * v.y, s * v.z, s * v.w);
}

__device__ __forceinline__ float4& operator+=(float4& a, float4 b) {
  a.x += b.x;
  a.y += b.y;
  a.z += b.z;
  a.w += b.w;
  return a;
}

extern "C" __global__ void down(const float4* in, int w, int h, float4* out) {
  const int ow = (w + 1) / 2, oh = (h + 1) / 2;
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= ow || y >= oh) return;
  const float weight[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int j = 0; j < 5; ++j) {
    const float4* row = in + mirror(2 * y + j - 2, h) * w;
    float4 line = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < 5; ++i) line += weight[i] * row[mirror(2 * x + i - 2, w)];
    sum += weight[j] * line;
  }
  out[y * ow + x] = sum;
}
