// Softmax of rows in one reading: maximum and sum are kept together and corrected when the maximum
// grows; merging of two such pairs over lanes and warps. Rows of minus infinity give zeros.
struct Pair {
  float top, sum;
};

__device__ __forceinline__ Pair merge(Pair a, Pair b) {
  const float top = fmaxf(a.top, b.top);
  const float sa = a.sum > 0 ? a.sum * __expf(a.top - top) : 0.0f;
  const float sb = b.sum > 0 ? b.sum * __expf(b.top - top) : 0.0f;
  return {top, sa + sb};
}

extern "C" __global__ void k(const float* in, float* out, int columns) {
  __shared__ Pair part[32];
  const float* row = in + (size_t)blockIdx.x * columns;
  const int t = threadIdx.x;
  Pair p = {-__int_as_float(0x7f800000), 0.0f};
  for (int i = t; i < columns; i += blockDim.x) {
    const float v = row[i];
    if (v > p.top) {
      p.sum = p.sum * __expf(p.top - v) + 1.0f;
      p.top = v;
    } else if (v > -__int_as_float(0x7f800000)) {
      p.sum += __expf(v - p.top);
    }
  }
  for (int d = 16; d; d >>= 1) {
    const Pair o = {__shfl_xor_sync(~0u, p.top, d), __shfl_xor_sync(~0u, p.sum, d)};
    p = merge(p, o);
  }
  if (t % 32 == 0) part[t / 32] = p;
  __syncthreads();
  p = part[0];
  for (int w = 1; w < blockDim.x / 32; ++w) p = merge(p, part[w]);
  const float scale = p.sum > 0 ? __frcp_rn(p.sum) : 0.0f;
  for (int i = t; i < columns; i += blockDim.x)
    out[(size_t)blockIdx.x * columns + i] = p.sum > 0 ? __expf(row[i] - p.top) * scale : 0.0f;
}
