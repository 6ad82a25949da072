// Philox 4x32 with ten rounds, counter based: raw words, uniforms and normals by Box and Muller.
struct Philox {
  uint4 counter;
  uint2 key;

  __device__ Philox(unsigned long long seed, unsigned long long offset, unsigned stream)
      : counter(make_uint4((unsigned)offset, (unsigned)(offset >> 32), stream, 0)),
        key(make_uint2((unsigned)seed, (unsigned)(seed >> 32))) {}

  __device__ static uint4 round(uint4 c, uint2 k) {
    const unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
    const unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
    return make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
  }

  __device__ uint4 operator()() {
    uint4 c = counter;
    uint2 k = key;
#pragma unroll
    for (int i = 0; i < 10; ++i) {
      c = round(c, k);
      k.x += 0x9E3779B9u;
      k.y += 0xBB67AE85u;
    }
    if (++counter.x == 0) ++counter.y;
    return c;
  }
};

__device__ float uniform(unsigned v) { return v * 2.3283064e-10f + 2.3283064e-10f / 2.0f; }

extern "C" __global__ void k(unsigned long long seed, uint4* words, float2* normals, int each) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  Philox engine(seed, 0xfffffffeULL, t);
  for (int i = 0; i < each; ++i) {
    const uint4 v = engine();
    words[t * each + i] = v;
    const float radius = sqrtf(-2.0f * logf(uniform(v.x)));
    float s, c;
    sincospif(2.0f * uniform(v.y), &s, &c);
    normals[t * each + i] = make_float2(radius * s, radius * c);
  }
}
