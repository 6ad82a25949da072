// One LSTM cell, element-wise part after the matrix products: gates in the order i, f, g, o, packed
// states, sigmoid by tanh, all in float with optional peepholes chosen at compile time.
__device__ __forceinline__ float sigmoid(float x) { return 0.5f * tanhf(0.5f * x) + 0.5f; }

template <bool Peephole>
__global__ void cell(const float* __restrict__ gates, const float* __restrict__ bias,
                     const float* __restrict__ peep, const float* __restrict__ c_in, float* c_out,
                     float* h_out, int hidden, int batch) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= hidden * batch) return;
  const int b = i / hidden, j = i - b * hidden;
  float g[4];
#pragma unroll
  for (int p = 0; p < 4; ++p) g[p] = gates[(b * 4 + p) * hidden + j] + bias[p * hidden + j];
  const float c = c_in[i];
  if (Peephole) {
    g[0] += peep[j] * c;
    g[1] += peep[hidden + j] * c;
  }
  const float next = sigmoid(g[1]) * c + sigmoid(g[0]) * tanhf(g[2]);
  if (Peephole) g[3] += peep[2 * hidden + j] * next;
  c_out[i] = next;
  h_out[i] = sigmoid(g[3]) * tanhf(next);
}
