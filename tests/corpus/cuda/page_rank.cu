// PageRank: a warp pushes the rank of a page along its links with atomics, dangling pages give to all
// by a block reduction, then damping.
extern "C" __global__ void push(const int* start, const int* link, const float* rank, float* next,
                                float* dangling, int pages) {
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  const int warps = gridDim.x * blockDim.x >> 5;
  float lost = 0.0f;
  for (int page = warp; page < pages; page += warps) {
    const int first = start[page], last = start[page + 1];
    if (first == last) {
      if (lane == 0) lost += rank[page];
      continue;
    }
    const float share = rank[page] / (last - first);
    for (int e = first + lane; e < last; e += 32) atomicAdd(next + link[e], share);
  }
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();
  if (lost != 0.0f) atomicAdd(&sum, lost);
  __syncthreads();
  if (threadIdx.x == 0 && sum != 0.0f) atomicAdd(dangling, sum);
}

extern "C" __global__ void damp(float* rank, float* next, float* dangling, int pages, float d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pages) {
    rank[i] = (1.0f - d) / pages + d * (next[i] + *dangling / pages);
    next[i] = 0.0f;
  }
}

extern "C" __global__ void clear(float* dangling) { *dangling = 0.0f; }
