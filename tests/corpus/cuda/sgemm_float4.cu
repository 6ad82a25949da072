// C = alpha A B + beta C in single precision: 64x64 tiles of C by 256 threads, 4x4 results a thread in
// registers, float4 loads, two shared-memory buffers so that loads overlap with arithmetic.
constexpr int BM = 64, BN = 64, BK = 16;

extern "C" __global__ void __launch_bounds__(256)
sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n,
      int k, float alpha, float beta) {
  __shared__ __align__(16) float as[2][BK][BM];
  __shared__ __align__(16) float bs[2][BK][BN];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const int a_row = t / 4, a_col = t % 4 * 4, b_row = t / 16, b_col = t % 16 * 4;
  a += (size_t)(blockIdx.y * BM + a_row) * k + a_col;
  b += (size_t)b_row * n + blockIdx.x * BN + b_col;
  float acc[4][4] = {};

  float4 next_a = *reinterpret_cast<const float4*>(a);
  float4 next_b = *reinterpret_cast<const float4*>(b);
  int buffer = 0;
  for (int tile = 0; tile < k; tile += BK) {
    as[buffer][a_col + 0][a_row] = next_a.x;
    as[buffer][a_col + 1][a_row] = next_a.y;
    as[buffer][a_col + 2][a_row] = next_a.z;
    as[buffer][a_col + 3][a_row] = next_a.w;
    *reinterpret_cast<float4*>(&bs[buffer][b_row][b_col]) = next_b;
    __syncthreads();
    if (tile + BK < k) {
      a += BK;
      b += (size_t)BK * n;
      next_a = *reinterpret_cast<const float4*>(a);
      next_b = *reinterpret_cast<const float4*>(b);
    }
#pragma unroll
    for (int p = 0; p < BK; ++p) {
      const float4 u = *reinterpret_cast<const float4*>(&as[buffer][p][ty * 4]);
      const float4 v = *reinterpret_cast<const float4*>(&bs[buffer][p][tx * 4]);
      const float left[4] = {u.x, u.y, u.z, u.w}, right[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(left[i], right[j], acc[i][j]);
    }
    buffer ^= 1;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float4* out = reinterpret_cast<float4*>(
        c + (size_t)(blockIdx.y * BM + ty * 4 + i) * n + blockIdx.x * BN + tx * 4);
    float4 old = *out;
    old.x = alpha * acc[i][0] + beta * old.x;
    old.y = alpha * acc[i][1] + beta * old.y;
    old.z = alpha * acc[i][2] + beta * old.z;
    old.w = alpha * acc[i][3] + beta * old.w;
    *out = old;
  }
}
