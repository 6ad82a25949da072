// Sobel gradients and non-maximum suppression: the front half of an edge detector.
__device__ int at(const unsigned char* in, int w, int h, int x, int y) {
  x = min(max(x, 0), w - 1);
  y = min(max(y, 0), h - 1);
  return in[y * w + x];
}

extern "C" __global__ void sobel(const unsigned char* in, int w, int h, short2* gradient, int* power) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int gx = 0, gy = 0;
  for (int d = -1; d <= 1; ++d) {
    const int weight = 2 - abs(d);
    gx += weight * (at(in, w, h, x + 1, y + d) - at(in, w, h, x - 1, y + d));
    gy += weight * (at(in, w, h, x + d, y + 1) - at(in, w, h, x + d, y - 1));
  }
  gradient[y * w + x] = make_short2((short)gx, (short)gy);
  power[y * w + x] = gx * gx + gy * gy;
}

extern "C" __global__ void thin(const short2* gradient, const int* power, int w, int h, int least,
                                unsigned char* edges) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  unsigned char result = 0;
  if (x > 0 && y > 0 && x < w - 1 && y < h - 1) {
    const short2 g = gradient[y * w + x];
    const int ax = abs((int)g.x), ay = abs((int)g.y), here = power[y * w + x];
    int dx, dy;
    if (5 * ay < 2 * ax) { dx = 1; dy = 0; }
    else if (5 * ax < 2 * ay) { dx = 0; dy = 1; }
    else { dx = 1; dy = (g.x ^ g.y) < 0 ? -1 : 1; }
    const int before = power[(y - dy) * w + x - dx], after = power[(y + dy) * w + x + dx];
    if (here >= least && here > before && here >= after) result = here >= 4 * least ? 2 : 1;
  }
  edges[y * w + x] = result;
}
