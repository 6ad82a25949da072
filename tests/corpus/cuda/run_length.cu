// Run-length encoding by one block: heads of runs, a scan for their numbers, then the lengths as
// differences of neighbouring heads.
extern "C" __global__ void k(const unsigned char* in, int n, unsigned char* values, int* lengths,
                             int* runs) {
  extern __shared__ int number[];
  int* head_at = number + blockDim.x;
  const int t = threadIdx.x;
  const int head = t < n && (t == 0 || in[t] != in[t - 1]);
  number[t] = head;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d <<= 1) {
    const int other = t >= d ? number[t - d] : 0;
    __syncthreads();
    number[t] += other;
    __syncthreads();
  }
  const int total = number[blockDim.x - 1];
  if (head) head_at[number[t] - 1] = t;
  __syncthreads();
  if (t < total) {
    const int end = t + 1 < total ? head_at[t + 1] : n;
    values[t] = in[head_at[t]];
    lengths[t] = end - head_at[t];
  }
  if (t == 0) *runs = total;
}
