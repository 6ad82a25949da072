// Von Neumann's rejection sampling with `continue`: lanes accept at different turns, each fills its own
// list until it has enough, and counts the turns.
extern "C" __global__ void k(unsigned* states, float* accepted, int* turns, int wanted) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned s = states[t];
  int found = 0, turn = 0;
#pragma unroll 1
  for (;; ++turn) {
    s = s * 1664525u + 1013904223u;
    const float x = (s >> 8) * 0x1p-24f;
    s = s * 1664525u + 1013904223u;
    const float y = (s >> 8) * 0x1p-24f;
    if (y > 4.0f * x * (1.0f - x)) continue;
    accepted[t * wanted + found] = x;
    ++found;
    if (found == wanted) break;
  }
  states[t] = s;
  turns[t] = turn;
}
