// The library's own reductions over tiles: reduce with several operators, inclusive scans, labels.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void k(const int* in, int* sums, int* highest, int* scans, int* shifted) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  const int i = block.group_index().x * block.size() + block.thread_rank();
  const int value = in[i];
  sums[i] = cg::reduce(tile, value, cg::plus<int>());
  highest[i] = cg::reduce(tile, value, cg::greater<int>());
  scans[i] = cg::inclusive_scan(tile, value);
  shifted[i] = tile.shfl(value, (tile.thread_rank() + 3) % tile.size()) + tile.meta_group_rank();
}
