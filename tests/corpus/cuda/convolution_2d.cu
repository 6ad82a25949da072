// Two-dimensional convolution with halo: the block loads (16+4)x(16+4) cells, threads outside of the
// output tile only load. Borders are clamped.
constexpr int R = 2, OUT = 16, IN = OUT + 2 * R;
__constant__ float mask[2 * R + 1][2 * R + 1];

__device__ __forceinline__ int clamp(int v, int low, int high) { return min(max(v, low), high); }

extern "C" __global__ void k(const unsigned char* in, unsigned char* out, int w, int h) {
  __shared__ float tile[IN][IN];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int x = blockIdx.x * OUT + tx - R, y = blockIdx.y * OUT + ty - R;
  tile[ty][tx] = in[clamp(y, 0, h - 1) * w + clamp(x, 0, w - 1)];
  __syncthreads();
  if (tx < R || tx >= IN - R || ty < R || ty >= IN - R || x >= w || y >= h) return;
  float sum = 0.0f;
  for (int j = -R; j <= R; ++j)
    for (int i = -R; i <= R; ++i) sum += mask[j + R][i + R] * tile[ty + j][tx + i];
  out[y * w + x] = (unsigned char)fminf(fmaxf(rintf(sum), 0.0f), 255.0f);
}
