// Breadth-first search by frontiers: each thread expands a vertex, new vertices are claimed by a
// compare-and-swap on their level and go to a block's queue in shared memory, then to the next
// frontier with one atomic a block. The host's loop is a fixed number of launches.
constexpr int QUEUE = 96;

extern "C" __global__ void expand(const int* start, const int* edge, int* level, const int* frontier,
                                  const int* size, int* next, int* next_size, int depth) {
  __shared__ int queue[QUEUE], count, base;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const int n = *size;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const int v = frontier[i];
    for (int e = start[v]; e < start[v + 1]; ++e) {
      const int u = edge[e];
      if (atomicCAS(level + u, -1, depth) != -1) continue;
      const int place = atomicAdd(&count, 1);
      if (place < QUEUE) queue[place] = u;
      else next[atomicAdd(next_size, 1)] = u;
    }
  }
  __syncthreads();
  const int mine = min(count, QUEUE);
  if (threadIdx.x == 0) base = atomicAdd(next_size, mine);
  __syncthreads();
  for (int i = threadIdx.x; i < mine; i += blockDim.x) next[base + i] = queue[i];
}
