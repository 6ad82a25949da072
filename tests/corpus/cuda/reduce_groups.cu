// Sums with cooperative groups: the block, tiles of several sizes, coalesced groups.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

template <typename Group>
__device__ int sum_of(Group g, int value) {
  for (int d = g.size() / 2; d > 0; d /= 2) value += g.shfl_down(value, d);
  return value;
}

__device__ int sum_shared(cg::thread_group g, int* cell, int value) {
  const int lane = g.thread_rank();
  for (int d = g.size() / 2; d > 0; d /= 2) {
    cell[lane] = value;
    g.sync();
    if (lane < d) value += cell[lane + d];
    g.sync();
  }
  return value;
}

extern "C" __global__ void k(const int* in, int* block_sums, int* tile_sums, int* odd_counts) {
  extern __shared__ int cell[];
  cg::thread_block block = cg::this_thread_block();
  const int i = blockIdx.x * blockDim.x + block.thread_rank();
  const int value = in[i];

  const int total = sum_shared(block, cell, value);
  if (block.thread_rank() == 0) block_sums[blockIdx.x] = total;

  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  const int part = sum_of(tile, value);
  if (tile.thread_rank() == 0) tile_sums[i / 8] = part;

  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  if (value & 1) {
    cg::coalesced_group odd = cg::coalesced_threads();
    if (odd.thread_rank() == 0) odd_counts[i / 32] = odd.size();
  }
  warp.sync();
}
