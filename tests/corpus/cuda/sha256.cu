// SHA-256 of one short message a thread (up to 55 bytes), the schedule in a ring of 16 words, rotations
// by funnel shifts, big-endian words by byte permutation.
__constant__ unsigned K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ __forceinline__ unsigned rotr(unsigned x, int n) { return __funnelshift_r(x, x, n); }

extern "C" __global__ void k(const unsigned char* messages, const int* lengths, int pitch,
                             unsigned* digests, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned w[16] = {};
  const int length = lengths[i];
  unsigned char* bytes = reinterpret_cast<unsigned char*>(w);
  for (int j = 0; j < length; ++j) bytes[j] = messages[i * pitch + j];
  bytes[length] = 0x80;
#pragma unroll
  for (int j = 0; j < 16; ++j) w[j] = __byte_perm(w[j], 0, 0x0123);
  w[15] = length * 8;

  unsigned h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned s[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) s[j] = h[j];
#pragma unroll 16
  for (int r = 0; r < 64; ++r) {
    if (r >= 16) {
      const unsigned a = w[(r + 1) & 15], b = w[(r + 14) & 15];
      w[r & 15] += (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) + w[(r + 9) & 15] +
                   (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
    }
    const unsigned t1 = s[7] + (rotr(s[4], 6) ^ rotr(s[4], 11) ^ rotr(s[4], 25)) +
                        ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[r] + w[r & 15];
    const unsigned t2 = (rotr(s[0], 2) ^ rotr(s[0], 13) ^ rotr(s[0], 22)) +
                        ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
#pragma unroll
    for (int j = 7; j > 0; --j) s[j] = s[j - 1];
    s[4] += t1;
    s[0] = t1 + t2;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) digests[i * 8 + j] = h[j] + s[j];
}
