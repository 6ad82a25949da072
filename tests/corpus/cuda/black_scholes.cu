// Prices of European options by Black and Scholes with the polynomial of Abramowitz and Stegun for
// the normal distribution, in the shape of the toolkit's sample; and with erfc for comparison.
__device__ inline float cnd(float d) {
  const float a1 = 0.31938153f, a2 = -0.356563782f, a3 = 1.781477937f, a4 = -1.821255978f,
              a5 = 1.330274429f, rsqrt2pi = 0.39894228040143267793994605993438f;
  const float k = __fdividef(1.0f, 1.0f + 0.2316419f * fabsf(d));
  float c = rsqrt2pi * __expf(-0.5f * d * d) *
            (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))));
  if (d > 0) c = 1.0f - c;
  return c;
}

__device__ inline double normal(double d) { return 0.5 * erfc(-d * 0.70710678118654752440); }

extern "C" __global__ void quick(float* call, float* put, const float* price, const float* strike,
                                 const float* years, float r, float v, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float s = price[i], x = strike[i], t = years[i];
  const float root = __fsqrt_rn(t);
  const float d1 = __fdividef(__logf(s / x) + (r + 0.5f * v * v) * t, v * root);
  const float d2 = d1 - v * root;
  const float c1 = cnd(d1), c2 = cnd(d2);
  const float discount = __expf(-r * t);
  call[i] = s * c1 - x * discount * c2;
  put[i] = x * discount * (1.0f - c2) - s * (1.0f - c1);
}

extern "C" __global__ void exact(double* call, double* put, const float* price,
                                 const float* strike, const float* years, float r, float v, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const double s = price[i], x = strike[i], t = years[i], root = sqrt(t);
    const double d1 = (log(s / x) + (r + 0.5 * v * v) * t) / (v * root), d2 = d1 - v * root;
    const double discount = exp(-r * t);
    call[i] = s * normal(d1) - x * discount * normal(d2);
    put[i] = x * discount * normal(-d2) - s * normal(-d1);
  }
}
