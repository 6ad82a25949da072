// Mean and variance in one pass by Welford's update; partial results are merged by Chan's formula.
template <typename T>
struct Moments {
  T count, mean, m2;

  __device__ void add(T x) {
    count += T(1);
    const T delta = x - mean;
    mean += delta / count;
    m2 += delta * (x - mean);
  }

  __device__ void merge(const Moments& o) {
    if (o.count == T(0)) return;
    const T total = count + o.count, delta = o.mean - mean;
    mean += delta * o.count / total;
    m2 += o.m2 + delta * delta * count * o.count / total;
    count = total;
  }
};

template <typename T>
__device__ Moments<T> shuffled(const Moments<T>& m, int d) {
  return {__shfl_down_sync(~0u, m.count, d), __shfl_down_sync(~0u, m.mean, d),
          __shfl_down_sync(~0u, m.m2, d)};
}

template <typename T, int Warps>
__global__ void moments(const T* in, int n, T* mean, T* variance) {
  __shared__ Moments<T> part[Warps];
  Moments<T> m = {};
  const T* row = in + (size_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m.add(row[i]);
  for (int d = 16; d > 0; d >>= 1) m.merge(shuffled(m, d));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < Warps; ++w) m.merge(part[w]);
    mean[blockIdx.x] = m.mean;
    variance[blockIdx.x] = m.m2 / m.count;
  }
}
