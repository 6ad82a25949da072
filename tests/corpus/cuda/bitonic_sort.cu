// Bitonic sort of key-value pairs in shared memory, ascending in even blocks, descending in odd ones;
// then one merge of the two runs through global memory steps.
__device__ inline void comparator(unsigned& ka, unsigned& va, unsigned& kb, unsigned& vb,
                                  unsigned up) {
  if ((ka > kb) == up) {
    unsigned t = ka; ka = kb; kb = t;
    t = va; va = vb; vb = t;
  }
}

extern "C" __global__ void sort_blocks(unsigned* keys, unsigned* values) {
  constexpr unsigned N = 256;
  __shared__ unsigned k[N], v[N];
  const unsigned t = threadIdx.x, base = blockIdx.x * N;
  k[t] = keys[base + t];
  v[t] = values[base + t];
  k[t + N / 2] = keys[base + t + N / 2];
  v[t + N / 2] = values[base + t + N / 2];
  const unsigned up = (blockIdx.x + 1) & 1;

  for (unsigned size = 2; size < N; size <<= 1) {
    const unsigned direction = up ^ ((t & (size / 2)) != 0);
    for (unsigned stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      const unsigned pos = 2 * t - (t & (stride - 1));
      comparator(k[pos], v[pos], k[pos + stride], v[pos + stride], direction);
    }
  }
  for (unsigned stride = N / 2; stride > 0; stride >>= 1) {
    __syncthreads();
    const unsigned pos = 2 * t - (t & (stride - 1));
    comparator(k[pos], v[pos], k[pos + stride], v[pos + stride], up);
  }
  __syncthreads();
  keys[base + t] = k[t];
  values[base + t] = v[t];
  keys[base + t + N / 2] = k[t + N / 2];
  values[base + t + N / 2] = v[t + N / 2];
}

extern "C" __global__ void merge_global(unsigned* keys, unsigned* values, unsigned size,
                                        unsigned stride) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned direction = ((i & (size / 2 - 1)) & (size / 2)) == 0;
  const unsigned pos = 2 * i - (i & (stride - 1));
  unsigned ka = keys[pos], va = values[pos], kb = keys[pos + stride], vb = values[pos + stride];
  comparator(ka, va, kb, vb, direction);
  keys[pos] = ka; values[pos] = va;
  keys[pos + stride] = kb; values[pos + stride] = vb;
}
