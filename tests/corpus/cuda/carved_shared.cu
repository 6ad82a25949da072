// One piece of dynamic shared memory carved into arrays of different types by casts, with alignment
// done by hand, used for a small bucket sort of records.
struct Record {
  unsigned char key;
  short weight;
  float value;
};

template <class T>
__device__ T* carve(unsigned char*& at, int count) {
  at = (unsigned char*)(((size_t)at + alignof(T) - 1) / alignof(T) * alignof(T));
  T* found = reinterpret_cast<T*>(at);
  at += sizeof(T) * count;
  return found;
}

extern "C" __global__ void k(const Record* in, Record* out, double* sums, int n) {
  extern __shared__ unsigned char raw[];
  unsigned char* at = raw + 1;  // on purpose odd
  int* start = carve<int>(at, 17);
  unsigned char* seen = carve<unsigned char>(at, 16);
  double* sum = carve<double>(at, 16);
  short* place = carve<short>(at, n);
  Record* sorted = carve<Record>(at, n);
  const int t = threadIdx.x;

  if (t < 17) start[t] = 0;
  if (t < 16) {
    seen[t] = 0;
    sum[t] = 0.0;
  }
  __syncthreads();
  for (int i = t; i < n; i += blockDim.x) {
    place[i] = (short)atomicAdd(start + 1 + (in[i].key & 15), 1);
    seen[in[i].key & 15] = 1;
  }
  __syncthreads();
  if (t == 0)
    for (int b = 0; b < 16; ++b) start[b + 1] += start[b];
  __syncthreads();
  for (int i = t; i < n; i += blockDim.x) sorted[start[in[i].key & 15] + place[i]] = in[i];
  __syncthreads();
  if (t < 16 && seen[t])
    for (int i = start[t]; i < start[t + 1]; ++i) sum[t] += (double)sorted[i].weight * sorted[i].value;
  __syncthreads();
  for (int i = t; i < n; i += blockDim.x) out[i] = sorted[i];
  if (t < 16) sums[t] = sum[t];
}
