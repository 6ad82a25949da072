// Connected components by union-find: parents hooked by atomic minimum, path halving, and a last pass
// that flattens the forest. Works for edges in any order.
__device__ int root(int* parent, int v) {
  volatile int* p = parent;
  int up = p[v];
  while (up != v) {
    const int above = p[up];
    p[v] = above;
    v = up;
    up = above;
  }
  return v;
}

extern "C" __global__ void start(int* parent, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < n) parent[v] = v;
}

extern "C" __global__ void hook(int* parent, const int2* edges, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int a = edges[i].x, b = edges[i].y;
  bool joined = false;
  while (!joined) {
    a = root(parent, a);
    b = root(parent, b);
    if (a < b) {
      const int old = atomicMin(parent + b, a);
      joined = old == b;
      b = old;
    } else if (b < a) {
      const int old = atomicMin(parent + a, b);
      joined = old == a;
      a = old;
    } else {
      joined = true;
    }
  }
}

extern "C" __global__ void flatten(int* parent, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < n) parent[v] = root(parent, v);
}
