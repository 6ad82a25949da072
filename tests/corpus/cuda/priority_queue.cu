// Dijkstra's shortest paths on one small graph a thread, with a binary heap of 64-bit entries in local
// memory (distance above, vertex below) and lazy deletion.
template <int Capacity>
class Heap {
 public:
  __device__ bool empty() const { return size_ == 0; }

  __device__ void push(unsigned long long entry) {
    int at = size_++;
    while (at > 0) {
      const int up = (at - 1) / 2;
      if (items_[up] <= entry) break;
      items_[at] = items_[up];
      at = up;
    }
    items_[at] = entry;
  }

  __device__ unsigned long long pop() {
    const unsigned long long top = items_[0], last = items_[--size_];
    int at = 0;
    while (true) {
      int down = 2 * at + 1;
      if (down >= size_) break;
      if (down + 1 < size_ && items_[down + 1] < items_[down]) ++down;
      if (items_[down] >= last) break;
      items_[at] = items_[down];
      at = down;
    }
    items_[at] = last;
    return top;
  }

 private:
  unsigned long long items_[Capacity];
  int size_ = 0;
};

extern "C" __global__ void k(const unsigned char* weights, unsigned* distances, int graphs) {
  constexpr int V = 12;
  const int g = blockIdx.x * blockDim.x + threadIdx.x;
  if (g >= graphs) return;
  const unsigned char* w = weights + g * V * V;
  unsigned best[V];
  for (int v = 0; v < V; ++v) best[v] = 0xffffffffu;
  Heap<V * V> heap;
  best[0] = 0;
  heap.push(0);
  while (!heap.empty()) {
    const unsigned long long entry = heap.pop();
    const unsigned d = (unsigned)(entry >> 32), v = (unsigned)entry;
    if (d != best[v]) continue;
    for (int u = 0; u < V; ++u) {
      const unsigned step = w[v * V + u];
      if (step && d + step < best[u]) {
        best[u] = d + step;
        heap.push((unsigned long long)best[u] << 32 | u);
      }
    }
  }
  for (int v = 0; v < V; ++v) distances[g * V + v] = best[v];
}
