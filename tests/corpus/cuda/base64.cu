// Base64 of a byte string: a thread encodes three bytes to one 32-bit store, and decodes four
// characters with a range of selects; padding at the end.
__constant__ char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

extern "C" __global__ void encode(const unsigned char* in, int n, unsigned* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, at = 3 * i;
  if (at >= n) return;
  const int left = n - at;
  const unsigned v = in[at] << 16 | (left > 1 ? in[at + 1] : 0) << 8 | (left > 2 ? in[at + 2] : 0);
  const char4 c = make_char4(alphabet[v >> 18], alphabet[v >> 12 & 63],
                             left > 1 ? alphabet[v >> 6 & 63] : '=', left > 2 ? alphabet[v & 63] : '=');
  out[i] = *reinterpret_cast<const unsigned*>(&c);
}

__device__ int value(unsigned char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : 0;
}

extern "C" __global__ void decode(const uchar4* in, int quads, unsigned char* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const uchar4 c = in[i];
  const int v = value(c.x) << 18 | value(c.y) << 12 | value(c.z) << 6 | value(c.w);
#pragma unroll
  for (int j = 0; j < 3; ++j)
    if (3 * i + j < n) out[3 * i + j] = v >> (16 - 8 * j);
}
