// Grid-stride sums of integers into one cell by atomics, and the last block to finish (a ticket)
// scales the total and resets the ticket, so that the kernel may be launched again.
__device__ unsigned int finished = 0;

extern "C" __global__ void k(const int* in, long long n, unsigned long long* total, double* mean) {
  __shared__ unsigned long long block_sum;
  __shared__ bool last;
  if (threadIdx.x == 0) block_sum = 0;
  __syncthreads();

  long long mine = 0;
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step)
    mine += in[i];
  atomicAdd(&block_sum, (unsigned long long)mine);
  __syncthreads();

  if (threadIdx.x == 0) {
    atomicAdd(total, block_sum);
    __threadfence();
    last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    const long long sum = (long long)atomicAdd(total, 0ULL);
    *mean = (double)sum / (double)n;
  }
}
