// Each thread sorts its own row by quicksort with an explicit stack and insertion sort below eight.
struct Range {
  short low, high;
};

__device__ void insertion(int* a, int low, int high) {
  for (int i = low + 1; i <= high; ++i) {
    const int x = a[i];
    int j = i - 1;
    for (; j >= low && a[j] > x; --j) a[j + 1] = a[j];
    a[j + 1] = x;
  }
}

__device__ int partition(int* a, int low, int high) {
  const int mid = (low + high) / 2;
  if (a[mid] < a[low]) { int t = a[mid]; a[mid] = a[low]; a[low] = t; }
  if (a[high] < a[low]) { int t = a[high]; a[high] = a[low]; a[low] = t; }
  if (a[mid] < a[high]) { int t = a[mid]; a[mid] = a[high]; a[high] = t; }
  const int pivot = a[high];
  int i = low - 1;
  for (int j = low; j < high; ++j) {
    if (a[j] <= pivot) {
      ++i;
      const int t = a[i];
      a[i] = a[j];
      a[j] = t;
    }
  }
  a[high] = a[i + 1];
  a[i + 1] = pivot;
  return i + 1;
}

extern "C" __global__ void k(int* rows, int n, int* deepest) {
  int* a = rows + (blockIdx.x * blockDim.x + threadIdx.x) * n;
  Range stack[16];
  int depth = 0, most = 0;
  stack[depth++] = {0, (short)(n - 1)};
  while (depth > 0) {
    Range r = stack[--depth];
    while (r.high - r.low >= 8) {
      const int p = partition(a, r.low, r.high);
      const Range left = {r.low, (short)(p - 1)}, right = {(short)(p + 1), r.high};
      const bool left_is_small = left.high - left.low < right.high - right.low;
      stack[depth++] = left_is_small ? right : left;
      most = max(most, depth);
      r = left_is_small ? left : right;
    }
    insertion(a, r.low, r.high);
  }
  atomicMax(deepest, most);
}
