// The largest element of each row and its first place: pairs packed into one 64-bit key whose order
// is that of the floats, joined by a 64-bit shuffle and an atomic maximum.
__device__ unsigned long long key_of(float value, unsigned place) {
  unsigned bits = __float_as_uint(value);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return ((unsigned long long)bits << 32) | (0xffffffffu - place);
}

__device__ float value_of(unsigned long long key) {
  unsigned bits = (unsigned)(key >> 32);
  bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
  return __uint_as_float(bits);
}

extern "C" __global__ void k(const float* rows, int columns, float* best, int* place) {
  __shared__ unsigned long long top;
  if (threadIdx.x == 0) top = 0;
  __syncthreads();
  unsigned long long mine = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const unsigned long long key = key_of(rows[blockIdx.x * columns + i], i);
    mine = key > mine ? key : mine;
  }
  for (int d = 16; d; d >>= 1) {
    const unsigned long long other = __shfl_xor_sync(~0u, mine, d);
    mine = other > mine ? other : mine;
  }
  if ((threadIdx.x & 31) == 0) atomicMax(&top, mine);
  __syncthreads();
  if (threadIdx.x == 0) {
    best[blockIdx.x] = value_of(top);
    place[blockIdx.x] = (int)(0xffffffffu - (unsigned)top);
  }
}
