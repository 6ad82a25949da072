// Forward and inverse 8x8 cosine transforms of an image by blocks, each 8x8 tile by an 8x8 piece of
// the thread block through shared memory; the matrix is a compile-time table.
struct Table {
  float c[8][8];
};

constexpr float cosine(int n) {  // cos(n pi / 16) by symmetry from a quarter wave
  const float quarter[9] = {1.0f, 0.98078528f, 0.92387953f, 0.83146961f, 0.70710678f,
                            0.55557023f, 0.38268343f, 0.19509032f, 0.0f};
  n %= 32;
  if (n > 16) n = 32 - n;
  return n <= 8 ? quarter[n] : -quarter[16 - n];
}

constexpr Table make() {
  Table t{};
  for (int u = 0; u < 8; ++u)
    for (int x = 0; x < 8; ++x) t.c[u][x] = (u ? 0.5f : 0.35355339f) * cosine((2 * x + 1) * u);
  return t;
}

__constant__ Table table = make();

template <bool Inverse>
__device__ void transform(const float* in, float* out, int pitch) {
  __shared__ float a[2][8][9], b[2][8][9];
  const int z = threadIdx.z, x = threadIdx.x, y = threadIdx.y;
  const int at = (blockIdx.y * 8 + y) * pitch + (blockIdx.x * 2 + z) * 8 + x;
  a[z][y][x] = in[at];
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += a[z][y][k] * (Inverse ? table.c[k][x] : table.c[x][k]);
  b[z][y][x] = sum;
  __syncthreads();
  sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += b[z][k][x] * (Inverse ? table.c[k][y] : table.c[y][k]);
  out[at] = sum;
}

extern "C" __global__ void forward(const float* in, float* out, int pitch) {
  transform<false>(in, out, pitch);
}

extern "C" __global__ void inverse(const float* in, float* out, int pitch) {
  transform<true>(in, out, pitch);
}
