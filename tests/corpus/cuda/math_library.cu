// A table of the math library's functions, single and double precision, arguments from a grid.
template <typename T>
struct Row {
  T value[24];
};

template <typename T>
__global__ void evaluate(const T* x, const T* y, Row<T>* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const T a = x[i], b = y[i], p = fabs(a) + T(0.01), u = a / (fabs(a) + T(1));
  T* o = out[i].value;
  o[0] = sin(a) + cos(b);
  o[1] = tan(u);
  o[2] = asin(u) * acos(u);
  o[3] = atan2(a, b);
  o[4] = sinh(u) - cosh(u);
  o[5] = tanh(a);
  o[6] = asinh(a) + acosh(p + T(1)) + atanh(u);
  o[7] = exp2(u) + exp10(u);
  o[8] = expm1(u);
  o[9] = log2(p) + log10(p);
  o[10] = log1p(p);
  o[11] = pow(p, u);
  o[12] = cbrt(a);
  o[13] = hypot(a, b);
  o[14] = erf(a);
  o[15] = erfc(u);
  o[16] = tgamma(p);
  o[17] = lgamma(p);
  o[18] = fmod(a, T(0.7));
  o[19] = rint(a) + floor(b) * ceil(a) + trunc(b) + round(a);
  T whole;
  o[20] = modf(a, &whole) + whole * T(2);
  o[21] = fma(a, b, p) + fmax(a, b) * fmin(a, b) + fdim(a, b) + copysign(p, b);
  o[22] = rsqrt(p) + sqrt(p) + rcbrt(p);
  o[23] = isnan(a) + 2 * isinf(b) + 4 * signbit(a) + (isfinite(p) ? ilogb(p) : 0);
}
