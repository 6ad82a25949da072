// Recursion over a binary search tree in memory: height, in-order sum with weights, and a search.
struct Tree {
  int key, left, right;
};

__device__ int height(const Tree* t, int at) {
  if (at < 0) return 0;
  return 1 + max(height(t, t[at].left), height(t, t[at].right));
}

__device__ long long weigh(const Tree* t, int at, int& order) {
  if (at < 0) return 0;
  long long sum = weigh(t, t[at].left, order);
  sum += (long long)t[at].key * ++order;
  return sum + weigh(t, t[at].right, order);
}

__device__ int find(const Tree* t, int at, int key, int depth) {
  if (at < 0) return -depth;
  if (t[at].key == key) return depth;
  return find(t, key < t[at].key ? t[at].left : t[at].right, key, depth + 1);
}

extern "C" __global__ void k(const Tree* t, const int* roots, const int* keys, int* heights,
                             long long* weights, int* depths) {
  const int i = threadIdx.x;
  int order = 0;
  heights[i] = height(t, roots[i]);
  weights[i] = weigh(t, roots[i], order);
  depths[i] = find(t, roots[i], keys[i], 0);
}
