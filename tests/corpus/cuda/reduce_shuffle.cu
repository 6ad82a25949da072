// Sum, minimum and maximum of each row at once, by shuffles: lanes first, then the warps' results.
struct Stats {
  float sum, low, high;
};

__device__ Stats join(Stats a, Stats b) {
  return {a.sum + b.sum, fminf(a.low, b.low), fmaxf(a.high, b.high)};
}

__device__ Stats over_warp(Stats s) {
  for (int d = 16; d > 0; d /= 2) {
    Stats other;
    other.sum = __shfl_down_sync(0xffffffffu, s.sum, d);
    other.low = __shfl_down_sync(0xffffffffu, s.low, d);
    other.high = __shfl_down_sync(0xffffffffu, s.high, d);
    s = join(s, other);
  }
  return s;
}

extern "C" __global__ void k(const float* rows, Stats* out, int columns) {
  __shared__ Stats part[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const float* row = rows + (size_t)blockIdx.x * columns;

  Stats s = {0.0f, __int_as_float(0x7f800000), -__int_as_float(0x7f800000)};
  for (int i = threadIdx.x; i < columns; i += blockDim.x) s = join(s, {row[i], row[i], row[i]});
  s = over_warp(s);
  if (lane == 0) part[warp] = s;
  __syncthreads();

  if (warp == 0) {
    s = lane < warps ? part[lane] : Stats{0.0f, __int_as_float(0x7f800000), -__int_as_float(0x7f800000)};
    s = over_warp(s);
    if (lane == 0) out[blockIdx.x] = s;
  }
}
