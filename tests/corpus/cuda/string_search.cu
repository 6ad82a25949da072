// All places of a pattern in a text: a rolling look at four bytes as one word filters, the rest is
// compared byte by byte; places are counted a block and marked as bits.
__constant__ unsigned char pattern[16];

__device__ __forceinline__ unsigned word_at(const unsigned char* p) {
  const size_t address = (size_t)p;
  const unsigned* aligned = (const unsigned*)(address & ~(size_t)3);
  const unsigned shift = (unsigned)(address & 3) * 8;
  return shift ? __funnelshift_r(aligned[0], aligned[1], shift) : aligned[0];
}

extern "C" __global__ void k(const unsigned char* text, int n, int length, unsigned* marks,
                             int* counts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool hit = false;
  if (i + length <= n) {
    const unsigned head = pattern[0] | pattern[1] << 8 | pattern[2] << 16 | pattern[3] << 24;
    hit = word_at(text + i) == head;
    for (int j = 4; hit && j < length; ++j) hit = text[i + j] == pattern[j];
  }
  const unsigned votes = __ballot_sync(0xffffffffu, hit);
  if ((threadIdx.x & 31) == 0) marks[i >> 5] = votes;
  const int total = __syncthreads_count(hit);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}
