// 4x4 sudoku by backtracking, one puzzle a thread: candidate sets as bits, an explicit trail, and the
// count of all solutions; the first solution is kept. A second kernel counts the ways to place queens.
struct Board {
  unsigned char cell[16];
  unsigned short row[4], column[4], box[4];

  __device__ void put(int at, int digit) {
    cell[at] = digit;
    const unsigned short bit = 1 << digit;
    row[at / 4] ^= bit;
    column[at % 4] ^= bit;
    box[at / 8 * 2 + at % 4 / 2] ^= bit;
  }

  __device__ unsigned allowed(int at) const {
    return ~(row[at / 4] | column[at % 4] | box[at / 8 * 2 + at % 4 / 2]) & 0x1eu;
  }
};

extern "C" __global__ void k(const unsigned char* puzzles, unsigned char* solved, int* solutions,
                             int n) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  Board b = {};
  int open[16], count = 0;
  for (int i = 0; i < 16; ++i) {
    const int digit = puzzles[t * 16 + i];
    if (digit) b.put(i, digit);
    else open[count++] = i;
  }
  unsigned left[17];
  int depth = 0, found = 0;
  if (count) left[0] = b.allowed(open[0]);
  while (depth >= 0) {
    if (depth == count) {
      if (found++ == 0)
        for (int i = 0; i < 16; ++i) solved[t * 16 + i] = b.cell[i];
      if (--depth >= 0) b.put(open[depth], b.cell[open[depth]]);
      continue;
    }
    if (left[depth] == 0) {
      if (--depth >= 0) b.put(open[depth], b.cell[open[depth]]);
      continue;
    }
    const int digit = __ffs(left[depth]) - 1;
    left[depth] &= left[depth] - 1;
    b.put(open[depth], digit);
    ++depth;
    if (depth < count) left[depth] = b.allowed(open[depth]);
  }
  solutions[t] = found;
}

extern "C" __global__ void queens(int n, unsigned long long* ways) {
  const unsigned all = (1u << n) - 1;
  const int first = threadIdx.x;
  if (first >= n) return;
  unsigned columns[16], left[16], right[16], open[16];
  int depth = 1, mine = 0;
  columns[1] = 1u << first;
  left[1] = columns[1] << 1;
  right[1] = columns[1] >> 1;
  open[1] = all & ~(columns[1] | left[1] | right[1]);
  while (depth > 0) {
    const unsigned bit = open[depth] & -open[depth];
    if (!bit) {
      --depth;
      continue;
    }
    open[depth] ^= bit;
    if (depth + 1 == n) {
      ++mine;
      continue;
    }
    columns[depth + 1] = columns[depth] | bit;
    left[depth + 1] = (left[depth] | bit) << 1;
    right[depth + 1] = (right[depth] | bit) >> 1;
    ++depth;
    open[depth] = all & ~(columns[depth] | left[depth] | right[depth]);
  }
  atomicAdd(ways, (unsigned long long)mine);
}
