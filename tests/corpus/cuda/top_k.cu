// The K largest of each row, in order: each lane keeps a sorted list in registers, then the warp takes
// the best head K times.
template <int K>
struct Best {
  float value[K];
  int place[K];

  __device__ Best() {
#pragma unroll
    for (int j = 0; j < K; ++j) {
      value[j] = -3.4e38f;
      place[j] = 0x7fffffff;
    }
  }

  __device__ static bool ahead(float a, int i, float b, int j) { return a > b || (a == b && i < j); }

  __device__ void offer(float v, int p) {
#pragma unroll
    for (int j = 0; j < K; ++j) {
      if (ahead(v, p, value[j], place[j])) {
        const float ov = value[j];
        const int op = place[j];
        value[j] = v;
        place[j] = p;
        v = ov;
        p = op;
      }
    }
  }

  __device__ void drop() {
#pragma unroll
    for (int j = 0; j + 1 < K; ++j) {
      value[j] = value[j + 1];
      place[j] = place[j + 1];
    }
    value[K - 1] = -3.4e38f;
    place[K - 1] = 0x7fffffff;
  }
};

template <int K>
__global__ void top(const float* rows, int columns, float* values, int* places) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  Best<K> best;
  for (int i = lane; i < columns; i += 32) best.offer(rows[row * columns + i], i);
  for (int j = 0; j < K; ++j) {
    float v = best.value[0];
    int p = best.place[0];
    for (int d = 16; d; d >>= 1) {
      const float ov = __shfl_xor_sync(~0u, v, d);
      const int op = __shfl_xor_sync(~0u, p, d);
      if (Best<K>::ahead(ov, op, v, p)) {
        v = ov;
        p = op;
      }
    }
    if (lane == 0) {
      values[row * K + j] = v;
      places[row * K + j] = p;
    }
    if (best.place[0] == p) best.drop();
  }
}
