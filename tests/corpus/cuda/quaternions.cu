// Quaternions passed and returned by value: products, rotation of points, spherical interpolation with
// acos and sin, and a struct parameter that is indexed by a register.
struct alignas(16) Quaternion {
  float w, x, y, z;
};

struct Path {
  Quaternion key[4];
  float3 point;
  int steps;
};

__device__ __noinline__ Quaternion multiply(Quaternion a, Quaternion b) {
  return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
          a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
}

__device__ __noinline__ Quaternion slerp(Quaternion a, Quaternion b, float t) {
  float d = a.w * b.w + a.x * b.x + a.y * b.y + a.z * b.z;
  float sign = 1.0f;
  if (d < 0.0f) {
    d = -d;
    sign = -1.0f;
  }
  float u = 1.0f - t, v = t;
  if (d < 0.9995f) {
    const float angle = acosf(d), scale = 1.0f / sinf(angle);
    u = sinf(u * angle) * scale;
    v = sinf(v * angle) * scale;
  }
  v *= sign;
  return {u * a.w + v * b.w, u * a.x + v * b.x, u * a.y + v * b.y, u * a.z + v * b.z};
}

__device__ float3 rotate(Quaternion q, float3 p) {
  const Quaternion r = multiply(multiply(q, {0.0f, p.x, p.y, p.z}), {q.w, -q.x, -q.y, -q.z});
  return make_float3(r.x, r.y, r.z);
}

extern "C" __global__ void k(const Path path, float3* out, Quaternion* orientation) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 3 * path.steps) return;
  const int segment = i / path.steps;
  const float t = (float)(i % path.steps) / path.steps;
  const Quaternion q = slerp(path.key[segment], path.key[segment + 1], t);
  orientation[i] = q;
  out[i] = rotate(q, path.point);
}
