// The standard library for devices: atomic references with orders and scopes, a bounded queue with
// sequence numbers, std::array and std::tuple-like types.
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/limits>

using Counter = cuda::atomic_ref<int, cuda::thread_scope_device>;

extern "C" __global__ void k(const int* in, int* counters, long long* low, int* slots, int* sequence,
                             int n) {
  cuda::std::array<int, 4> parts{};
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    parts[in[i] & 3] += 1;
    cuda::atomic_ref<long long, cuda::thread_scope_device>(*low).fetch_min(in[i], cuda::memory_order_relaxed);
  }
  for (int p = 0; p < 4; ++p)
    if (parts[p]) Counter(counters[p]).fetch_add(parts[p], cuda::memory_order_acq_rel);
  Counter(counters[4]).fetch_max(parts[0] < cuda::std::numeric_limits<int>::max() ? parts[0] : 0);
  Counter(counters[5]).fetch_xor(in[threadIdx.x], cuda::memory_order_relaxed);

  int expected = -1;  // claim a free slot
  for (int at = threadIdx.x % 8;; at = (at + 1) % 512) {
    expected = -1;
    if (Counter(slots[at]).compare_exchange_strong(expected, in[blockIdx.x * blockDim.x + threadIdx.x])) {
      Counter(sequence[0]).fetch_add(at, cuda::memory_order_release);
      break;
    }
  }
}
