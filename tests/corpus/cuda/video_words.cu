// Bytes and half-words in parallel within a word: the SIMD-in-a-word functions, absolute differences,
// averages, saturation, dot products, permutations and bit fields, mostly of image codecs.
extern "C" __global__ void k(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned x = a[i], y = b[i];
  unsigned* o = out + 16 * i;
  o[0] = __vadd4(x, y);
  o[1] = __vsub4(x, y);
  o[2] = __vaddus4(x, y);
  o[3] = __vsubus4(x, y);
  o[4] = __vavgu4(x, y);
  o[5] = __vabsdiffu4(x, y);
  o[6] = __vsadu4(x, y);
  o[7] = __vcmpgtu4(x, y);
  o[8] = __vmaxs2(x, y);
  o[9] = __vaddss2(x, y);
  o[10] = __dp4a(x, y, 7u);
  o[11] = (unsigned)__dp2a_lo((int)x, (int)y, -9);
  o[12] = __byte_perm(x, y, 0x6240u | (i & 7));
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(o[13]) : "r"(x), "r"(y & 31), "r"(y >> 8 & 15));
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(o[14]) : "r"(x), "r"(y), "r"(x >> 27), "r"(7));
  o[15] = __usad(x, y, 5u) ^ __brev(x) ^ __rhadd((int)x, (int)y) ^ __umul24(x, y);
}
