// Edit distance of two strings by anti-diagonals: three rolling diagonals in shared memory, one block a
// pair of strings of different lengths.
extern "C" __global__ void k(const char* a, const char* b, const int* lengths, int pitch, int* out) {
  extern __shared__ unsigned short diagonal[];
  const int m = lengths[2 * blockIdx.x], n = lengths[2 * blockIdx.x + 1];
  const char* p = a + blockIdx.x * pitch;
  const char* q = b + blockIdx.x * pitch;
  const int width = pitch + 1;
  unsigned short *now = diagonal, *last = now + width, *before = last + width;
  for (int d = 0; d <= m + n; ++d) {
    const int low = max(0, d - n), high = min(d, m);
    for (int i = low + threadIdx.x; i <= high; i += blockDim.x) {
      const int j = d - i;
      unsigned short v;
      if (i == 0) v = j;
      else if (j == 0) v = i;
      else {
        const int change = before[i - 1] + (p[i - 1] != q[j - 1]);
        v = min(change, min(last[i - 1], last[i]) + 1);
      }
      now[i] = v;
    }
    __syncthreads();
    unsigned short* oldest = before;
    before = last;
    last = now;
    now = oldest;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = last[m];
}
