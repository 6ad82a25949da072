// 64-bit modular arithmetic: Montgomery multiplication with 128-bit products by mul.hi, powers by
// squaring, and the test of Miller and Rabin that is exact below 2^64.
typedef unsigned long long u64;

struct Montgomery {
  u64 n, inverse, r2;

  __device__ explicit Montgomery(u64 odd) : n(odd) {
    u64 x = odd;
    for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
    inverse = 0 - x;
    u64 r = (0 - odd) % odd;  // 2^64 mod n
    for (int i = 0; i < 64; ++i) r = r >= odd - r ? r - (odd - r) : r + r;
    r2 = r;
  }

  __device__ u64 multiply(u64 a, u64 b) const {
    const u64 low = a * b, high = __umul64hi(a, b);
    const u64 m = low * inverse;
    u64 t = high + __umul64hi(m, n) + (low != 0);
    const bool carried = t < high || (t == high && (__umul64hi(m, n) + (low != 0)) != 0);
    if (carried || t >= n) t -= n;
    return t;
  }

  __device__ u64 power(u64 base, u64 e) const {
    u64 x = multiply(base % n, r2), y = multiply(1, r2);
    for (; e; e >>= 1) {
      if (e & 1) y = multiply(y, x);
      x = multiply(x, x);
    }
    return multiply(y, 1);
  }
};

extern "C" __global__ void k(const u64* numbers, const u64* bases, const u64* exponents, u64* powers,
                             unsigned char* prime, int count) {
  const u64 witnesses[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const u64 n = numbers[i];
  const Montgomery m(n);
  powers[i] = m.power(bases[i], exponents[i]);
  const int twos = __ffsll(n - 1) - 1;
  bool is_prime = true;
  for (int w = 0; w < 12 && is_prime; ++w) {
    if (witnesses[w] % n == 0) continue;
    u64 x = m.power(witnesses[w], (n - 1) >> twos);
    bool passes = x == 1 || x == n - 1;
    for (int t = 1; t < twos && !passes; ++t) {
      x = m.power(x, 2);
      passes = x == n - 1;
    }
    is_prime = passes;
  }
  prime[i] = is_prime;
}
