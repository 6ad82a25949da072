// All pairs of bodies through shared-memory tiles: float4 positions with the mass in w, softened
// gravity, one leap-frog step.
#define TILE 64

__device__ float3 pull(float3 a, float4 me, float4 other, float soft) {
  const float3 r = make_float3(other.x - me.x, other.y - me.y, other.z - me.z);
  const float d2 = r.x * r.x + r.y * r.y + r.z * r.z + soft;
  const float inverse = rsqrtf(d2);
  const float s = other.w * (inverse * inverse * inverse);
  a.x += r.x * s;
  a.y += r.y * s;
  a.z += r.z * s;
  return a;
}

extern "C" __global__ void k(const float4* old_position, float4* new_position, float4* velocity,
                             int n, float dt, float soft) {
  __shared__ float4 tile[TILE];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 me = old_position[min(i, n - 1)];
  float3 acceleration = make_float3(0, 0, 0);
  for (int base = 0; base < n; base += TILE) {
    tile[threadIdx.x] = base + threadIdx.x < n ? old_position[base + threadIdx.x]
                                               : make_float4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < TILE; ++j) acceleration = pull(acceleration, me, tile[j], soft);
    __syncthreads();
  }
  if (i >= n) return;
  float4 v = velocity[i];
  v.x += acceleration.x * dt;
  v.y += acceleration.y * dt;
  v.z += acceleration.z * dt;
  velocity[i] = v;
  new_position[i] = make_float4(me.x + v.x * dt, me.y + v.y * dt, me.z + v.z * dt, me.w);
}
