// Merges two sorted arrays: each thread finds its piece on the merge path by a binary search along
// its diagonal, then merges a fixed number of elements one after another. Stable.
template <typename T>
__device__ int diagonal(const T* a, int na, const T* b, int nb, int d) {
  int low = d > nb ? d - nb : 0, high = d < na ? d : na;
  while (low < high) {
    const int mid = (low + high) >> 1;
    if (a[mid] <= b[d - 1 - mid]) low = mid + 1;
    else high = mid;
  }
  return low;
}

template <typename T, int Items>
__global__ void merge(const T* a, int na, const T* b, int nb, T* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  const int d = t * Items, n = na + nb;
  if (d >= n) return;
  int i = diagonal(a, na, b, nb, d), j = d - i;
#pragma unroll
  for (int step = 0; step < Items; ++step) {
    if (d + step >= n) break;
    const bool first = j >= nb || (i < na && a[i] <= b[j]);
    out[d + step] = first ? a[i++] : b[j++];
  }
}
