// Int8 GEMM by dp4a with per-row scales: four products an instruction, int32 accumulators, result
// requantised to int8 with round to nearest and saturation.
extern "C" __global__ void k(const int* a, const int* b, const float* scale, signed char* c,
                             int* raw, int n, int words) {
  __shared__ int as[16][17], bs[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  int acc = 0;
  for (int base = 0; base < words; base += 16) {
    as[threadIdx.y][threadIdx.x] = a[row * words + base + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(blockIdx.x * 16 + threadIdx.y) * words + base + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) acc = __dp4a(as[threadIdx.y][i], bs[threadIdx.x][i], acc);
    __syncthreads();
  }
  raw[row * n + col] = acc;
  int q;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(q) : "f"(acc * scale[row]));
  c[row * n + col] = (signed char)q;
}
