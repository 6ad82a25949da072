// Rows gathered from a table, and the backward pass: gradients scattered with atomics, in float for a
// float table and through a compare-and-swap loop on 16-bit words for a half table.
#include <cuda_fp16.h>

extern "C" __global__ void gather(const float4* table, const int* ids, float4* out, int quads,
                                  int rows) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * quads) return;
  const int id = ids[i / quads];
  out[i] = id >= 0 ? table[id * quads + i % quads] : make_float4(0, 0, 0, 0);
}

__device__ void add_half(__half* where, __half value) {
  unsigned short* word = reinterpret_cast<unsigned short*>(where);
  unsigned short seen = *word, assumed;
  do {
    assumed = seen;
    const __half sum = __hadd(__ushort_as_half(assumed), value);
    seen = atomicCAS(word, assumed, __half_as_ushort(sum));
  } while (seen != assumed);
}

extern "C" __global__ void scatter(const float* grad, const int* ids, float* table, __half* halves,
                                   int width, int rows) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * width;
       i += gridDim.x * blockDim.x) {
    const int id = ids[i / width];
    if (id < 0) continue;
    atomicAdd(table + id * width + i % width, grad[i]);
    add_half(halves + id * width + i % width, __float2half(grad[i]));
  }
}
