// Inverses of 4x4 matrices as structs of float4 rows, by cofactors of 2x2 minors, with a flag for
// singular ones; loads and stores of whole rows.
struct Matrix {
  float4 r[4];
};

__device__ __forceinline__ float minor(float a, float b, float c, float d) { return a * d - b * c; }

__device__ bool invert(const Matrix& m, Matrix& out) {
  const float4 a = m.r[0], b = m.r[1], c = m.r[2], d = m.r[3];
  const float s0 = minor(a.x, a.y, b.x, b.y), s1 = minor(a.x, a.z, b.x, b.z),
              s2 = minor(a.x, a.w, b.x, b.w), s3 = minor(a.y, a.z, b.y, b.z),
              s4 = minor(a.y, a.w, b.y, b.w), s5 = minor(a.z, a.w, b.z, b.w);
  const float c0 = minor(c.x, c.y, d.x, d.y), c1 = minor(c.x, c.z, d.x, d.z),
              c2 = minor(c.x, c.w, d.x, d.w), c3 = minor(c.y, c.z, d.y, d.z),
              c4 = minor(c.y, c.w, d.y, d.w), c5 = minor(c.z, c.w, d.z, d.w);
  const float det = s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0;
  if (fabsf(det) < 1e-6f) return false;
  const float i = 1.0f / det;
  out.r[0] = make_float4((b.y * c5 - b.z * c4 + b.w * c3) * i, (-a.y * c5 + a.z * c4 - a.w * c3) * i,
                         (d.y * s5 - d.z * s4 + d.w * s3) * i, (-c.y * s5 + c.z * s4 - c.w * s3) * i);
  out.r[1] = make_float4((-b.x * c5 + b.z * c2 - b.w * c1) * i, (a.x * c5 - a.z * c2 + a.w * c1) * i,
                         (-d.x * s5 + d.z * s2 - d.w * s1) * i, (c.x * s5 - c.z * s2 + c.w * s1) * i);
  out.r[2] = make_float4((b.x * c4 - b.y * c2 + b.w * c0) * i, (-a.x * c4 + a.y * c2 - a.w * c0) * i,
                         (d.x * s4 - d.y * s2 + d.w * s0) * i, (-c.x * s4 + c.y * s2 - c.w * s0) * i);
  out.r[3] = make_float4((-b.x * c3 + b.y * c1 - b.z * c0) * i, (a.x * c3 - a.y * c1 + a.z * c0) * i,
                         (-d.x * s3 + d.y * s1 - d.z * s0) * i, (c.x * s3 - c.y * s1 + c.z * s0) * i);
  return true;
}

extern "C" __global__ void k(const Matrix* in, Matrix* out, bool* regular, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Matrix result = {};
  regular[i] = invert(in[i], result);
  out[i] = result;
}
