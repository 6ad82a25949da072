// Box blur of rows by a running sum: a warp scans its row in pieces of 32 and keeps the prefix in
// shared memory, then each output is a difference of two prefixes. 64-bit sums never lose bits.
extern "C" __global__ void k(const unsigned short* in, unsigned short* out, int w, int r) {
  extern __shared__ unsigned long long prefix[];
  const unsigned short* row = in + blockIdx.x * w;
  const int lane = threadIdx.x;
  unsigned long long carry = 0;
  if (lane == 0) prefix[0] = 0;
  for (int base = 0; base < w; base += 32) {
    unsigned long long v = base + lane < w ? row[base + lane] : 0;
    for (int d = 1; d < 32; d <<= 1) {
      const unsigned long long other = __shfl_up_sync(0xffffffffu, v, d);
      if (lane >= d) v += other;
    }
    v += carry;
    if (base + lane < w) prefix[base + lane + 1] = v;
    carry = __shfl_sync(0xffffffffu, v, 31);
  }
  __syncwarp();
  for (int x = lane; x < w; x += 32) {
    const int low = max(x - r, 0), high = min(x + r, w - 1);
    const unsigned long long sum = prefix[high + 1] - prefix[low];
    const unsigned count = high - low + 1;
    out[blockIdx.x * w + x] = (unsigned short)((sum + count / 2) / count);
  }
}
