// A lock around a linked list: threads push nodes to buckets under a lock taken by exchange, in the form
// that people write for lanes of one warp (the work inside the loop), and a ticket lock for blocks.
struct Node {
  int value, next;
};

__device__ void push(int* lock, int* head, Node* nodes, int node) {
  bool done = false;
  while (!done) {
    if (atomicExch(lock, 1) == 0) {
      nodes[node].next = *(volatile int*)head;
      *(volatile int*)head = node;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

extern "C" __global__ void fill(const int* values, Node* nodes, int* heads, int* locks, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int bucket = values[i] & 3;
  nodes[i].value = values[i];
  push(locks + bucket, heads + bucket, nodes, i);
}

extern "C" __global__ void count(const Node* nodes, const int* heads, int* lengths, int* sums) {
  int length = 0, sum = 0;
  for (int at = heads[threadIdx.x]; at >= 0; at = nodes[at].next) {
    ++length;
    sum += nodes[at].value;
  }
  lengths[threadIdx.x] = length;
  sums[threadIdx.x] = sum;
}

extern "C" __global__ void tickets(unsigned* lock, int* shared, int rounds) {
  if (threadIdx.x != 0) return;
  for (int r = 0; r < rounds; ++r) {
    const unsigned mine = atomicAdd(lock, 1u);
    while (*(volatile unsigned*)(lock + 1) != mine) {
    }
    __threadfence();
    const int old = *(volatile int*)shared;
    *(volatile int*)shared = old * 3 + 1;
    __threadfence();
    *(volatile unsigned*)(lock + 1) = mine + 1;
  }
}
