// Open addressing with linear probing: insertion by atomicCAS on the key, sums by atomicAdd on the
// value, look-up, deletion by marking the value. Keys are mixed by Murmur3's finaliser.
struct Slot {
  unsigned key, value;
};

constexpr unsigned EMPTY = 0xffffffffu;

__device__ __forceinline__ unsigned mix(unsigned k) {
  k ^= k >> 16;
  k *= 0x85ebca6bu;
  k ^= k >> 13;
  k *= 0xc2b2ae35u;
  k ^= k >> 16;
  return k;
}

extern "C" __global__ void insert(Slot* table, unsigned capacity, const unsigned* keys,
                                  const unsigned* values, int n, int* used) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned key = keys[i];
  unsigned at = mix(key) & (capacity - 1);
  while (true) {
    const unsigned before = atomicCAS(&table[at].key, EMPTY, key);
    if (before == EMPTY || before == key) {
      if (before == EMPTY) atomicAdd(used, 1);
      atomicAdd(&table[at].value, values[i]);
      return;
    }
    at = (at + 1) & (capacity - 1);
  }
}

extern "C" __global__ void lookup(const Slot* table, unsigned capacity, const unsigned* keys,
                                  unsigned* found, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned key = keys[i];
  unsigned at = mix(key) & (capacity - 1), result = EMPTY;
  while (true) {
    const Slot slot = table[at];
    if (slot.key == key) {
      result = slot.value;
      break;
    }
    if (slot.key == EMPTY) break;
    at = (at + 1) & (capacity - 1);
  }
  found[i] = result;
}

extern "C" __global__ void erase(Slot* table, unsigned capacity, const unsigned* keys, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned at = mix(keys[i]) & (capacity - 1);
  for (; table[at].key != EMPTY; at = (at + 1) & (capacity - 1))
    if (table[at].key == keys[i]) {
      table[at].value = EMPTY;
      return;
    }
}
