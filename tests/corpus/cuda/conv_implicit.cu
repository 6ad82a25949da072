// Convolution of NCHW images as a matrix product without the im2col matrix: rows are filters, columns
// are output pixels, the inner index runs over channel and filter taps. 16x16 tiles.
struct Geometry {
  int c, h, w, filters, r, s, stride, pad, oh, ow;
};

__global__ void conv(const float* image, const float* weight, float* out, const Geometry g) {
  __shared__ float ws[16][16], xs[16][17];
  const int k = g.c * g.r * g.s, pixels = g.oh * g.ow;
  const int filter = blockIdx.y * 16 + threadIdx.y, pixel = blockIdx.x * 16 + threadIdx.x;
  const int n = blockIdx.z;
  const int oy = pixel / g.ow, ox = pixel % g.ow;
  float sum = 0.0f;
  for (int base = 0; base < k; base += 16) {
    const int wi = base + threadIdx.x, xi = base + threadIdx.y;
    ws[threadIdx.y][threadIdx.x] = filter < g.filters && wi < k ? weight[filter * k + wi] : 0.0f;
    float v = 0.0f;
    if (xi < k && pixel < pixels) {
      const int c = xi / (g.r * g.s), tap = xi % (g.r * g.s);
      const int y = oy * g.stride - g.pad + tap / g.s, x = ox * g.stride - g.pad + tap % g.s;
      if (y >= 0 && y < g.h && x >= 0 && x < g.w) v = image[((n * g.c + c) * g.h + y) * g.w + x];
    }
    xs[threadIdx.y][threadIdx.x] = v;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += ws[threadIdx.y][i] * xs[i][threadIdx.x];
    __syncthreads();
  }
  if (filter < g.filters && pixel < pixels) out[(n * g.filters + filter) * pixels + pixel] = sum;
}
