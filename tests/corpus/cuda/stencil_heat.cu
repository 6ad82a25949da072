// Heat equation in two dimensions, five points, a tile with a ring of halo cells; fixed borders.
#define BX 32
#define BY 8

extern "C" __global__ void k(const float* __restrict__ in, float* __restrict__ out, int w, int h,
                             float c) {
  __shared__ float t[BY + 2][BX + 2];
  const int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
  const int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  const bool inside = x < w && y < h;
  const int i = y * w + x;
  if (inside) {
    t[ty][tx] = in[i];
    if (threadIdx.x == 0 && x > 0) t[ty][0] = in[i - 1];
    if (threadIdx.x == BX - 1 && x + 1 < w) t[ty][BX + 1] = in[i + 1];
    if (threadIdx.y == 0 && y > 0) t[0][tx] = in[i - w];
    if (threadIdx.y == BY - 1 && y + 1 < h) t[BY + 1][tx] = in[i + w];
  }
  __syncthreads();
  if (!inside) return;
  float v = t[ty][tx];
  if (x > 0 && y > 0 && x < w - 1 && y < h - 1)
    v += c * (t[ty][tx - 1] + t[ty][tx + 1] + t[ty - 1][tx] + t[ty + 1][tx] - 4.0f * v);
  out[i] = v;
}
