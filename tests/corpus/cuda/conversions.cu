// Conversions between all number types as kernels make them: casts, rounding functions, saturation,
// narrow stores, packed halves and bfloat16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void k(const float* f, const double* d, const long long* w, int* ints,
                             long long* longs, unsigned char* bytes, unsigned short* shorts,
                             float* floats, double* doubles, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float a = f[i];
  const double b = d[i];
  const long long c = w[i];
  int* p = ints + 8 * i;
  p[0] = (int)a;
  p[1] = __float2int_rn(a);
  p[2] = __float2int_ru(a);
  p[3] = __float2int_rd(a);
  p[4] = (int)b;
  p[5] = __double2int_rn(b);
  p[6] = (int)(unsigned)fabsf(a);
  p[7] = (int)(short)c + (int)(signed char)c;
  long long* q = longs + 4 * i;
  q[0] = (long long)a;
  q[1] = __double2ll_rd(b);
  q[2] = (long long)__double2ull_rn(fabs(b));
  q[3] = (long long)(unsigned)c;
  bytes[3 * i] = (unsigned char)c;
  bytes[3 * i + 1] = (unsigned char)(signed char)(c >> 8);
  bytes[3 * i + 2] = (unsigned char)fminf(fmaxf(a, 0.0f), 255.0f);
  unsigned short* h = shorts + 5 * i;
  h[0] = __half_as_ushort(__float2half_rn(a));
  h[1] = __half_as_ushort(__float2half_rz(a));
  h[2] = __bfloat16_as_ushort(__float2bfloat16_rn(a));
  h[3] = __half_as_ushort(__double2half(b));
  h[4] = __half_as_ushort(__ll2half_rn(c % 60000));
  float* g = floats + 5 * i;
  g[0] = (float)c;
  g[1] = __ll2float_rz(c);
  g[2] = (float)b;
  g[3] = __double2float_ru(b);
  g[4] = __half2float(__ushort_as_half((unsigned short)(c & 0x7bff))) + (float)(unsigned long long)c;
  double* e = doubles + 3 * i;
  e[0] = (double)c;
  e[1] = (double)a;
  e[2] = __hiloint2double(__double2hiint(b), __double2loint(b) ^ 1) + (double)(unsigned long long)c;
}
