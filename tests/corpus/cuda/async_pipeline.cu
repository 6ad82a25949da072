// Asynchronous copies counted by an mbarrier in shared memory: tiles come by cp.async, whose arrival is
// tied to the barrier, and threads wait by parity; double buffered.
__device__ __forceinline__ unsigned where(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void k(const float4* in, float4* out, int tiles) {
  __shared__ __align__(16) float4 tile[2][64];
  __shared__ __align__(8) unsigned long long bar[2];
  const int t = threadIdx.x;
  if (t < 2) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(where(bar + t)) : "memory");
  __syncthreads();

  auto load = [&](int i) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(where(&tile[i & 1][t])),
                 "l"(in + (blockIdx.x * tiles + i) * 64 + t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(where(bar + (i & 1))) : "memory");
  };
  load(0);
  float4 sum = make_float4(0, 0, 0, 0);
  for (int i = 0; i < tiles; ++i) {
    if (i + 1 < tiles) load(i + 1);
    asm volatile(
        "{\n .reg .pred done;\nagain:\n mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
        " @!done bra again;\n}" ::"r"(where(bar + (i & 1))), "r"(i >> 1 & 1) : "memory");
    const float4 v = tile[i & 1][t ^ 5];
    sum.x += v.x;
    sum.y += v.y * 2.0f;
    sum.z = fmaxf(sum.z, v.z);
    sum.w -= v.w;
    __syncthreads();
  }
  out[blockIdx.x * 64 + t] = sum;
}
