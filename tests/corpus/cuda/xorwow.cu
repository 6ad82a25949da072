// Marsaglia's xorwow with its Weyl sequence, states kept in global memory over launches, and
// unbiased integers below a bound by rejection.
struct State {
  unsigned d, v[5];
};

__device__ unsigned next(State& s) {
  const unsigned t = s.v[0] ^ (s.v[0] >> 2);
#pragma unroll
  for (int i = 0; i < 4; ++i) s.v[i] = s.v[i + 1];
  s.v[4] = (s.v[4] ^ (s.v[4] << 4)) ^ (t ^ (t << 1));
  s.d += 362437;
  return s.v[4] + s.d;
}

extern "C" __global__ void seed(State* states, unsigned long long value) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  State s;
  unsigned long long z = value + 0x9E3779B97F4A7C15ULL * (t + 1);
  for (int i = 0; i < 5; ++i) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    s.v[i] = (unsigned)z | 1u;
  }
  s.d = 6615241;
  states[t] = s;
}

extern "C" __global__ void draw(State* states, unsigned bound, unsigned* out, int each) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  State s = states[t];
  const unsigned limit = 0xffffffffu - (0xffffffffu % bound + 1u) % bound;
  for (int i = 0; i < each; ++i) {
    unsigned v;
    do v = next(s);
    while (v > limit);
    out[t * each + i] = v % bound;
  }
  states[t] = s;
}
