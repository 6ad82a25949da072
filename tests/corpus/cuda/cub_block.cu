// Block-wide algorithms of the CUB library: radix sort of keys with values, exclusive scan, reduction
// with a custom operator, and a warp reduction.
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

struct Largest {
  __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

extern "C" __global__ void k(const unsigned* keys, const int* values, unsigned* sorted, int* moved,
                             int* scanned, int* totals) {
  using Sort = cub::BlockRadixSort<unsigned, 64, 3, int>;
  using Scan = cub::BlockScan<int, 64>;
  using Reduce = cub::BlockReduce<int, 64>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Scan::TempStorage scan;
    typename Reduce::TempStorage reduce;
  } temporary;
  unsigned key[3];
  int value[3], before[3];
  const int base = (blockIdx.x * 64 + threadIdx.x) * 3;
  for (int i = 0; i < 3; ++i) {
    key[i] = keys[base + i];
    value[i] = values[base + i];
  }
  int total;
  Scan(temporary.scan).ExclusiveSum(value, before, total);
  __syncthreads();
  const int top = Reduce(temporary.reduce).Reduce(value, Largest());
  __syncthreads();
  for (int i = 0; i < 3; ++i) scanned[base + i] = before[i];
  Sort(temporary.sort).Sort(key, value);
  for (int i = 0; i < 3; ++i) {
    sorted[base + i] = key[i];
    moved[base + i] = value[i];
  }
  if (threadIdx.x == 0) {
    totals[2 * blockIdx.x] = total;
    totals[2 * blockIdx.x + 1] = top;
  }
}
