// C = A B for halves on tensor cores: m16n8k16 with float accumulators, ldmatrix from swizzled shared
// memory, and three stages of cp.async in flight. 64x64 tiles, four warps of 32x32.
#include <cuda_fp16.h>

constexpr int BM = 64, BN = 64, BK = 32, STAGES = 3, THREADS = 128;

__device__ __forceinline__ unsigned address(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void copy16(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

// eight halves a chunk; the chunk's place is mixed with the row, so that ldmatrix has no conflicts
template <int Chunks>
__device__ __forceinline__ int place(int row, int chunk) {
  return (row * Chunks + (chunk ^ (row / (8 / Chunks ? 8 / Chunks : 1) % Chunks))) * 8;
}

__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void hgemm(const __half* a, const __half* b, __half* c, int m, int n, int k) {
  extern __shared__ __align__(128) __half memory[];
  __half* as = memory;                      // STAGES x BM x BK
  __half* bs = memory + STAGES * BM * BK;   // STAGES x BK x BN
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int wm = warp / 2 * 32, wn = warp % 2 * 32;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

  auto load = [&](int stage, int tile) {
    for (int i = t; i < BM * BK / 8; i += THREADS) {
      const int r = i / 4, chunk = i % 4;
      copy16(address(as + stage * BM * BK + place<4>(r, chunk)),
             a + (size_t)(row0 + r) * k + tile * BK + chunk * 8);
    }
    for (int i = t; i < BK * BN / 8; i += THREADS) {
      const int r = i / 8, chunk = i % 8;
      copy16(address(bs + stage * BK * BN + place<8>(r, chunk)),
             b + (size_t)(tile * BK + r) * n + col0 + chunk * 8);
    }
  };

  float acc[2][4][4] = {};
  const int tiles = k / BK;
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < tiles) load(s, s);
    asm volatile("cp.async.commit_group;");
  }
  for (int tile = 0; tile < tiles; ++tile) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    if (tile + STAGES - 1 < tiles) load((tile + STAGES - 1) % STAGES, tile + STAGES - 1);
    asm volatile("cp.async.commit_group;");
    const __half* at = as + tile % STAGES * BM * BK;
    const __half* bt = bs + tile % STAGES * BK * BN;
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      unsigned fa[2][4], fb[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const unsigned from = address(at + place<4>(wm + i * 16 + lane % 16, kk / 8 + lane / 16));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                     : "r"(from));
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const unsigned from = address(bt + place<8>(kk + lane % 16, wn / 8 + j * 2 + lane / 16));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j][2]), "=r"(fb[j][3])
                     : "r"(from));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma(acc[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = row0 + wm + i * 16 + lane / 4, col = col0 + wn + j * 8 + lane % 4 * 2;
      *reinterpret_cast<__half2*>(c + (size_t)r * n + col) = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
      *reinterpret_cast<__half2*>(c + (size_t)(r + 8) * n + col) =
          __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
    }
}
