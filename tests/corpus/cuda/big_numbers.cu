// 256-bit integers: addition, subtraction and multiplication with carry chains in inline PTX (add.cc,
// addc, mad.lo.cc, madc.hi), a product modulo 2^256 - 189 by folding.
struct Big {
  unsigned w[8];
};

__device__ unsigned add(Big& a, const Big& b) {
  unsigned carry;
  asm("add.cc.u32 %0, %0, %9; addc.cc.u32 %1, %1, %10; addc.cc.u32 %2, %2, %11;\n\t"
      "addc.cc.u32 %3, %3, %12; addc.cc.u32 %4, %4, %13; addc.cc.u32 %5, %5, %14;\n\t"
      "addc.cc.u32 %6, %6, %15; addc.cc.u32 %7, %7, %16; addc.u32 %8, 0, 0;"
      : "+r"(a.w[0]), "+r"(a.w[1]), "+r"(a.w[2]), "+r"(a.w[3]), "+r"(a.w[4]), "+r"(a.w[5]),
        "+r"(a.w[6]), "+r"(a.w[7]), "=r"(carry)
      : "r"(b.w[0]), "r"(b.w[1]), "r"(b.w[2]), "r"(b.w[3]), "r"(b.w[4]), "r"(b.w[5]), "r"(b.w[6]),
        "r"(b.w[7]));
  return carry;
}

__device__ unsigned subtract(Big& a, const Big& b) {
  unsigned borrow;
  asm("sub.cc.u32 %0, %0, %9; subc.cc.u32 %1, %1, %10; subc.cc.u32 %2, %2, %11;\n\t"
      "subc.cc.u32 %3, %3, %12; subc.cc.u32 %4, %4, %13; subc.cc.u32 %5, %5, %14;\n\t"
      "subc.cc.u32 %6, %6, %15; subc.cc.u32 %7, %7, %16; subc.u32 %8, 0, 0;"
      : "+r"(a.w[0]), "+r"(a.w[1]), "+r"(a.w[2]), "+r"(a.w[3]), "+r"(a.w[4]), "+r"(a.w[5]),
        "+r"(a.w[6]), "+r"(a.w[7]), "=r"(borrow)
      : "r"(b.w[0]), "r"(b.w[1]), "r"(b.w[2]), "r"(b.w[3]), "r"(b.w[4]), "r"(b.w[5]), "r"(b.w[6]),
        "r"(b.w[7]));
  return borrow & 1;
}

// r[0..n] += a[0..n-1] * b, one row of the school method; returns nothing, the carry goes to r[n]
__device__ void row(unsigned* r, const Big& a, unsigned b) {
  asm("mad.lo.cc.u32 %0, %2, %3, %0; madc.hi.u32 %1, %2, %3, 0;" : "+r"(r[0]), "=r"(r[8]) : "r"(a.w[0]), "r"(b));
  unsigned carry = r[8];
#pragma unroll
  for (int i = 1; i < 8; ++i) {
    unsigned high;
    asm("mad.lo.cc.u32 %0, %2, %3, %0; madc.hi.u32 %1, %2, %3, 0;" : "+r"(r[i]), "=r"(high) : "r"(a.w[i]), "r"(b));
    asm("add.cc.u32 %0, %0, %2; addc.u32 %1, %3, 0;" : "+r"(r[i]), "=r"(carry) : "r"(carry), "r"(high));
  }
  r[8] = carry;
}

__device__ Big multiply(const Big& a, const Big& b) {  // modulo 2^256 - 189
  unsigned r[17] = {};
  for (int i = 0; i < 8; ++i) row(r + i, a, b.w[i]);
  Big low, high;
  for (int i = 0; i < 8; ++i) {
    low.w[i] = r[i];
    high.w[i] = r[i + 8];
  }
  unsigned folded[9] = {};
  row(folded, high, 189u);
  Big part;
  for (int i = 0; i < 8; ++i) part.w[i] = folded[i];
  const unsigned top = folded[8] + add(low, part);
  Big rest = {{top * 189u}};
  if (add(low, rest)) {
    const Big more = {{189u}};
    add(low, more);
  }
  Big modulus;
  for (int i = 0; i < 8; ++i) modulus.w[i] = ~0u;
  modulus.w[0] = 0u - 189u;
  Big reduced = low;
  return subtract(reduced, modulus) ? low : reduced;
}

extern "C" __global__ void k(const Big* a, const Big* b, Big* sums, unsigned* carries, Big* products,
                             int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Big s = a[i], d = a[i];
  const unsigned carry = add(s, b[i]), borrow = subtract(d, b[i]);
  sums[2 * i] = s;
  sums[2 * i + 1] = d;
  carries[i] = carry * 2 + borrow;
  products[i] = multiply(a[i], b[i]);
}
