// Local alignment with affine gaps, a warp a pair: each lane owns a column of a 32-wide strip, values
// travel to the next lane by shuffles, one step a row with a skew. The best score of all cells.
constexpr int OPEN = 5, EXTEND = 1, HIT = 3, MISS = -2;

extern "C" __global__ void k(const unsigned char* a, const unsigned char* b, int n, int* best) {
  extern __shared__ int edge[];  // two rows for the right border of a strip: H and E
  const unsigned char* p = a + blockIdx.x * n;
  const unsigned char* q = b + blockIdx.x * n;
  int* border_h = edge;
  int* border_e = edge + n;
  const int lane = threadIdx.x;
  for (int i = lane; i < n; i += 32) {
    border_h[i] = 0;
    border_e[i] = -999;
  }
  __syncwarp();
  int top = 0;
  for (int strip = 0; strip < n; strip += 32) {
    const int column = strip + lane;
    const unsigned char mine = column < n ? q[column] : 255;
    int h_up = 0, f = -999, h_left_before = 0, h = 0, e = -999;
    for (int step = 0; step < n + 31; ++step) {
      const int row = step - lane;
      int h_left = __shfl_up_sync(0xffffffffu, h, 1);
      int e_left = __shfl_up_sync(0xffffffffu, e, 1);
      const bool active = row >= 0 && row < n;
      if (lane == 0) {
        h_left = active ? border_h[row] : 0;
        e_left = active ? border_e[row] : -999;
      }
      if (active) {
        e = max(e_left - EXTEND, h_left - OPEN);
        f = max(f - EXTEND, h_up - OPEN);
        const int diagonal = h_left_before + (p[row] == mine ? HIT : MISS);
        h = max(max(0, diagonal), max(e, f));
        h_up = h;
        h_left_before = h_left;
        if (column < n) top = max(top, h);
      }
      __syncwarp();
      if (active && lane == 31) {
        border_h[row] = h;
        border_e[row] = e;
      }
      __syncwarp();
    }
  }
  top = __reduce_max_sync(0xffffffffu, top);
  if (lane == 0) best[blockIdx.x] = top;
}
