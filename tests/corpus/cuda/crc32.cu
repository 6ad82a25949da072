// CRC-32 of fixed-size messages: a table made in shared memory by the block, four bytes a step with
// slicing, and the bits reversed forms by brev for comparison.
extern "C" __global__ void k(const unsigned* words, int each, int n, unsigned* by_table,
                             unsigned* by_bits) {
  __shared__ unsigned table[4][256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    unsigned c = i;
    for (int b = 0; b < 8; ++b) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    table[0][i] = c;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    for (int s = 1; s < 4; ++s)
      table[s][i] = table[s - 1][i] >> 8 ^ table[0][table[s - 1][i] & 255];
  __syncthreads();
  const int m = blockIdx.x * blockDim.x + threadIdx.x;
  if (m >= n) return;
  unsigned crc = ~0u, reversed = ~0u;
  for (int i = 0; i < each; ++i) {
    const unsigned word = words[m * each + i];
    crc ^= word;
    crc = table[3][crc & 255] ^ table[2][crc >> 8 & 255] ^ table[1][crc >> 16 & 255] ^
          table[0][crc >> 24];
    reversed ^= __brev(word);
    for (int b = 0; b < 32; ++b) reversed = reversed << 1 ^ ((int)reversed < 0 ? 0x04C11DB7u : 0u);
  }
  by_table[m] = ~crc;
  by_bits[m] = ~__brev(reversed);
}
