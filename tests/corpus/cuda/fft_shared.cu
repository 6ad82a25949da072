// Radix-2 FFT of 256 points in shared memory: bit-reversed loading, butterflies with twiddles from
// sincospif, forward and inverse by a template argument.
struct Complex {
  float x, y;
};

__device__ Complex operator+(Complex a, Complex b) { return {a.x + b.x, a.y + b.y}; }
__device__ Complex operator-(Complex a, Complex b) { return {a.x - b.x, a.y - b.y}; }
__device__ Complex operator*(Complex a, Complex b) {
  return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}

template <int LogN, int Sign>
__global__ void fft(const Complex* in, Complex* out, float scale) {
  constexpr int N = 1 << LogN;
  __shared__ Complex cell[N];
  const int base = blockIdx.x * N;
  for (int i = threadIdx.x; i < N; i += blockDim.x) cell[__brev(i) >> (32 - LogN)] = in[base + i];
  __syncthreads();
#pragma unroll
  for (int stage = 0; stage < LogN; ++stage) {
    const int half = 1 << stage;
    for (int b = threadIdx.x; b < N / 2; b += blockDim.x) {
      const int offset = b & (half - 1), at = ((b >> stage) << (stage + 1)) + offset;
      Complex w;
      sincospif(Sign * (float)offset / half, &w.y, &w.x);
      const Complex u = cell[at], v = w * cell[at + half];
      cell[at] = u + v;
      cell[at + half] = u - v;
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < N; i += blockDim.x)
    out[base + i] = {cell[i].x * scale, cell[i].y * scale};
}
