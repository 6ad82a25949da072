// A small ray tracer: spheres in constant memory, shadows, mirror bounces in a loop, gamma correction by
// powf, picture as RGBA bytes.
struct Vector {
  float x, y, z;
  __device__ Vector operator+(const Vector& o) const { return {x + o.x, y + o.y, z + o.z}; }
  __device__ Vector operator-(const Vector& o) const { return {x - o.x, y - o.y, z - o.z}; }
  __device__ Vector operator*(float s) const { return {x * s, y * s, z * s}; }
  __device__ float dot(const Vector& o) const { return x * o.x + y * o.y + z * o.z; }
  __device__ Vector unit() const { return *this * rsqrtf(dot(*this)); }
};

struct Sphere {
  Vector centre;
  float radius;
  Vector colour;
  float mirror;
};

constexpr int SPHERES = 5;
__constant__ Sphere scene[SPHERES];

struct Hit {
  float distance;
  int which;
};

__device__ Hit nearest(const Vector& from, const Vector& to) {
  Hit hit = {1e20f, -1};
  for (int i = 0; i < SPHERES; ++i) {
    const Vector oc = from - scene[i].centre;
    const float b = oc.dot(to), c = oc.dot(oc) - scene[i].radius * scene[i].radius;
    const float d = b * b - c;
    if (d <= 0.0f) continue;
    const float root = sqrtf(d);
    const float t = -b - root > 1e-3f ? -b - root : -b + root;
    if (t > 1e-3f && t < hit.distance) hit = {t, i};
  }
  return hit;
}

__device__ Vector trace(Vector from, Vector to) {
  const Vector light = Vector{0.5f, 0.8f, -0.4f}.unit();
  Vector colour = {0, 0, 0};
  float weight = 1.0f;
  for (int bounce = 0; bounce < 3; ++bounce) {
    const Hit hit = nearest(from, to);
    if (hit.which < 0) {
      const float sky = 0.5f * (to.y + 1.0f);
      return colour + (Vector{0.3f, 0.5f, 0.9f} * sky + Vector{0.9f, 0.9f, 0.8f} * (1.0f - sky)) * weight;
    }
    const Sphere& s = scene[hit.which];
    const Vector at = from + to * hit.distance, normal = (at - s.centre).unit();
    float lit = fmaxf(normal.dot(light), 0.0f);
    if (lit > 0.0f && nearest(at, light).which >= 0) lit = 0.0f;
    colour = colour + s.colour * (weight * (1.0f - s.mirror) * (0.2f + 0.8f * lit));
    weight *= s.mirror;
    if (weight < 0.01f) break;
    from = at;
    to = to - normal * (2.0f * to.dot(normal));
  }
  return colour;
}

extern "C" __global__ void k(uchar4* picture, float3* exact, int w, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  const Vector to = Vector{(x - 0.5f * w) / h, (0.5f * h - y) / h, 1.0f}.unit();
  const Vector c = trace({0, 0, -3}, to);
  exact[y * w + x] = make_float3(c.x, c.y, c.z);
  auto byte = [](float v) { return (unsigned char)(255.0f * powf(__saturatef(v), 1.0f / 2.2f) + 0.5f); };
  picture[y * w + x] = make_uchar4(byte(c.x), byte(c.y), byte(c.z), 255);
}
