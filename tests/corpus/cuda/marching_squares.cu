// Marching squares: the case of each cell, how many line segments it gives, and their ends in an
// output list whose places come from one atomic addition a warp.
__constant__ signed char edges[16][5] = {
    {0, -1, -1, -1, -1}, {1, 3, 0, -1, -1}, {1, 0, 1, -1, -1}, {1, 3, 1, -1, -1},
    {1, 1, 2, -1, -1},   {2, 3, 2, 0, 1},   {1, 0, 2, -1, -1}, {1, 3, 2, -1, -1},
    {1, 2, 3, -1, -1},   {1, 2, 0, -1, -1}, {2, 0, 3, 1, 2},   {1, 2, 1, -1, -1},
    {1, 1, 3, -1, -1},   {1, 1, 0, -1, -1}, {1, 0, 3, -1, -1}, {0, -1, -1, -1, -1}};

__device__ float2 crossing(int edge, float x, float y, const float (&v)[4], float level) {
  switch (edge) {
    case 0: return make_float2(x + (level - v[0]) / (v[1] - v[0]), y);
    case 1: return make_float2(x + 1, y + (level - v[1]) / (v[2] - v[1]));
    case 2: return make_float2(x + (level - v[3]) / (v[2] - v[3]), y + 1);
    default: return make_float2(x, y + (level - v[0]) / (v[3] - v[0]));
  }
}

extern "C" __global__ void k(const float* f, int w, int h, float level, unsigned char* cases,
                             unsigned* total, float4* segments, int* owner) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  const int cells = (w - 1) * (h - 1), x = i % (w - 1), y = i / (w - 1);
  float v[4] = {};
  int which = 0;
  if (i < cells) {
    v[0] = f[y * w + x];
    v[1] = f[y * w + x + 1];
    v[2] = f[(y + 1) * w + x + 1];
    v[3] = f[(y + 1) * w + x];
    for (int c = 0; c < 4; ++c) which |= (v[c] > level) << c;
    cases[i] = which;
  }
  const int mine = edges[which][0];
  int scan = mine;
  for (int d = 1; d < 32; d <<= 1) {
    const int other = __shfl_up_sync(~0u, scan, d);
    if (lane >= d) scan += other;
  }
  unsigned base = 0;
  if (lane == 31) base = atomicAdd(total, (unsigned)scan);
  base = __shfl_sync(~0u, base, 31) + scan - mine;
  for (int s = 0; s < mine; ++s) {
    const float2 a = crossing(edges[which][1 + 2 * s], x, y, v, level);
    const float2 b = crossing(edges[which][2 + 2 * s], x, y, v, level);
    segments[base + s] = make_float4(a.x, a.y, b.x, b.y);
    owner[base + s] = i;
  }
}
