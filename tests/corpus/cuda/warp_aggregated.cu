// Atomics aggregated in the warp: one atomic for the active lanes of a branch, one for each distinct
// key by match, and a filter that keeps the lanes' order within a warp.
__device__ int next_place(int* counter) {
  const unsigned active = __activemask();
  unsigned below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  const int leader = __ffs(active) - 1, lane = threadIdx.x & 31;
  int base = 0;
  if (lane == leader) base = atomicAdd(counter, __popc(active));
  base = __shfl_sync(active, base, leader);
  return base + __popc(active & below);
}

extern "C" __global__ void filter(const int* in, int n, int* out, int* counter) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    if (in[i] % 3 == 0) out[next_place(counter)] = in[i];
}

extern "C" __global__ void by_key(const int* keys, const int* values, int* count, int* largest,
                                  int* leaders) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  const int key = keys[i];
  const unsigned peers = __match_any_sync(0xffffffffu, key);
  int top = values[i];
  for (unsigned rest = peers; rest; rest &= rest - 1) {
    const int other = __ffs(rest) - 1;
    const int v = __shfl_sync(peers, values[i], other);
    top = max(top, v);
  }
  if (lane == __ffs(peers) - 1) {
    atomicAdd(count + key, __popc(peers));
    atomicMax(largest + key, top);
    atomicAdd(leaders, 1);
  }
  int all = 0;
  const unsigned same = __match_all_sync(0xffffffffu, key >> 4, &all);
  if (all && lane == 0) atomicAdd(leaders, (int)(same >> 31) * 1000);
}
