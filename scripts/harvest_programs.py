"""Programs for ``harvest_ptx.py``: what headers alone do not show."""

from __future__ import annotations

_CG = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
_CUB = "#include <cub/cub.cuh>\n"
_HEAD = 'extern "C" __global__ void k'


def _cub(kind: str, block: str, body: str) -> str:
    return (
        f"#include <{kind}>\n"
        f"{_HEAD}(int *p, int n) {{ typedef {block} B; __shared__ typename B::TempStorage s;\n"
        f"  int i = threadIdx.x, v[4] = {{p[i], p[i + 128], p[i + 256], p[i + 384]}};\n"
        f"  {body}\n"
        "  for (int k = 0; k < 4; ++k) p[i + 128 * k] = v[k]; }"
    )


def _wmma(a: str, b: str, c: str, shape: str, layout: str, extra: str = "") -> str:
    return (
        "#include <mma.h>\nusing namespace nvcuda;\n"
        f"{_HEAD}(const {a} *x, const {b} *y, {c} *z, unsigned ld) {{\n"
        f"  wmma::fragment<wmma::matrix_a, {shape}, {extra or a}, wmma::{layout}> fa;\n"
        f"  wmma::fragment<wmma::matrix_b, {shape}, {extra or b}, wmma::{layout}> fb;\n"
        f"  wmma::fragment<wmma::accumulator, {shape}, {c}> fc;\n"
        "  wmma::load_matrix_sync(fa, x, ld); wmma::load_matrix_sync(fb, y, ld);\n"
        f"  wmma::load_matrix_sync(fc, z, ld, wmma::mem_{'row' if 'row' in layout else 'col'}"
        "_major);\n"
        "  wmma::mma_sync(fc, fa, fb, fc);\n"
        f"  wmma::store_matrix_sync(z, fc, ld, wmma::mem_{'row' if 'row' in layout else 'col'}"
        "_major); }"
    )


PROGRAMS: dict[str, str] = {
    "cg_grid": _CG + _HEAD + """(int *a) { auto g = cg::this_grid();
        a[g.thread_rank()] = 1; g.sync(); a[g.size() - 1 - g.thread_rank()] += 1; }""",
    "cg_tiles": _CG + "#include <cooperative_groups/reduce.h>\n" + _HEAD + """(int *a, float *f) {
        auto b = cg::this_thread_block();
        auto t = cg::tiled_partition<8>(b); auto w = cg::tiled_partition<32>(b);
        auto s = cg::tiled_partition(b, 16);
        int v = a[b.thread_rank()];
        v += t.shfl_down(v, 1) + t.shfl_xor(v, 2) + w.ballot(v > 1) + w.match_any(v) + t.any(v);
        v += cg::reduce(t, v, cg::plus<int>()) + cg::reduce(w, v, cg::bit_xor<int>());
        f[b.thread_rank()] = cg::reduce(w, (float)v, cg::greater<float>());
        auto c = cg::coalesced_threads();
        if (v > 3) { auto d = cg::coalesced_threads(); v += d.shfl(v, 0) + d.thread_rank();
                     v += cg::reduce(d, v, cg::plus<int>()); d.sync(); }
        s.sync(); b.sync(); a[b.thread_rank()] = v + c.size() + s.thread_rank(); }""",
    "cg_labeled": _CG + _HEAD + """(int *a) { auto w = cg::tiled_partition<32>(
        cg::this_thread_block()); auto l = cg::labeled_partition(w, a[threadIdx.x]);
        auto b = cg::binary_partition(w, a[threadIdx.x] > 2);
        a[threadIdx.x] = l.thread_rank() + 100 * b.size(); }""",
    "cg_async": _CG + "#include <cooperative_groups/memcpy_async.h>\n" + _HEAD + """(int *a) {
        __shared__ int s[512]; auto b = cg::this_thread_block();
        cg::memcpy_async(b, s, a, sizeof(int) * 512); cg::wait(b); a[threadIdx.x] = s[511 -
        threadIdx.x]; }""",
    "cg_scan": _CG + "#include <cooperative_groups/scan.h>\n" + _HEAD + """(int *a) {
        auto w = cg::tiled_partition<32>(cg::this_thread_block());
        a[threadIdx.x] = cg::inclusive_scan(w, a[threadIdx.x]) + cg::exclusive_scan(w,
        a[threadIdx.x + 64]); }""",
    "cg_invoke": _CG + _HEAD + """(int *a) { auto b = cg::this_thread_block();
        cg::invoke_one(cg::tiled_partition<32>(b), [&] { a[threadIdx.x] = 1; });
        a[b.dim_threads().x] = cg::invoke_one_broadcast(cg::coalesced_threads(), [&] {
        return a[0]; }); }""",
    "cg_barrier": _CG + _HEAD + """(int *a) { auto b = cg::this_thread_block();
        auto t = b.barrier_arrive(); a[threadIdx.x] += 1; b.barrier_wait(std::move(t));
        auto w = cg::tiled_partition<32>(b); auto u = w.shfl_up(a[0], 1); a[1] = u; }""",
    "cg_cluster": _CG + _HEAD + """(int *a) { auto c = cg::this_cluster(); __shared__ int s[32];
        s[threadIdx.x % 32] = a[threadIdx.x]; c.sync();
        int *o = c.map_shared_rank(s, c.block_rank() ^ 1); a[threadIdx.x] = o[0]; c.sync(); }""",
    "barrier": "#include <cuda/barrier>\n" + _HEAD + """(int *a) {
        __shared__ cuda::barrier<cuda::thread_scope_block> b;
        if (threadIdx.x == 0) init(&b, blockDim.x);
        __syncthreads(); a[threadIdx.x] += 1; b.arrive_and_wait(); a[0] += a[1];
        auto t = b.arrive(); b.wait(std::move(t)); b.arrive_and_drop(); }""",
    "pipeline": "#include <cuda/pipeline>\n" + _CG + _HEAD + """(int *a) { __shared__ int s[256];
        __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
        auto b = cg::this_thread_block(); auto p = cuda::make_pipeline(b, &state);
        p.producer_acquire(); cuda::memcpy_async(b, s, a, cuda::aligned_size_t<16>(1024), p);
        p.producer_commit(); p.consumer_wait(); a[threadIdx.x] = s[255 - threadIdx.x];
        p.consumer_release(); }""",
    "atomic_ref": "#include <cuda/atomic>\n" + _HEAD + """(
        int *a, unsigned long long *b, float *f) {
        cuda::atomic_ref<int, cuda::thread_scope_device> r(*a);
        cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> u(*b);
        cuda::atomic_ref<float, cuda::thread_scope_block> g(*f);
        r.fetch_add(1, cuda::memory_order_acq_rel); r.fetch_min(3); r.fetch_or(4);
        u.fetch_xor(5, cuda::memory_order_release); u.store(7, cuda::memory_order_release);
        g.fetch_add(1.0f, cuda::memory_order_relaxed); g.exchange(2.0f);
        int e = 0; r.compare_exchange_weak(e, 4, cuda::memory_order_acquire);
        *a = r.load(cuda::memory_order_acquire) + (int)u.load(); f[1] = g.load();
        cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device); }""",
    "control": _HEAD + """(int *a, int n) { switch (a[threadIdx.x] & 15) {
        case 0: a[0] = n; break; case 1: a[1] = n * 3; break; case 2: a[2] = n / 5; break;
        case 3: a[3] = n % 7; break; case 4: a[4] = n ^ 9; break; case 5: __trap();
        case 6: a[5] = __popc(n); break; case 7: a[6] = clock(); break;
        case 8: a[7] = (int)clock64(); break; case 9: __nanosleep(20); break;
        case 10: __brkpt(); break; case 11: asm volatile("exit;"); } }""",
    "print": _HEAD + '(int *a) { printf("%d %f\\n", a[0], 1.5); assert(a[1] == 2); }',
    "specials": _HEAD + """(unsigned *a) { unsigned long long l; unsigned v; int k = 0;
        #define S(name) asm volatile("mov.u32 %0, %" name ";" : "=r"(v)); a[k++] = v;
        #define L(name) asm volatile("mov.u64 %0, %" name ";" : "=l"(l)); a[k++] = (unsigned)l;
        S("%laneid") S("%warpid") S("%nwarpid") S("%smid") S("%nsmid") S("%lanemask_eq")
        S("%lanemask_lt") S("%lanemask_le") S("%lanemask_gt") S("%lanemask_ge") S("%clock")
        S("%clock_hi") S("%total_smem_size") S("%dynamic_smem_size") S("%globaltimer_lo")
        S("%globaltimer_hi") L("%clock64") L("%globaltimer") L("%gridid") }""",
    "caches": _HEAD + """(float4 *p, float *q) { int i = threadIdx.x;
        p[i] = __ldcg(p + i + 32); p[i + 64] = __ldcs(p + i); p[i + 96] = __ldlu(p + i);
        p[i + 128] = __ldcv(p + i); __stwb(q + i, 1.0f); __stcg(q + i, 2.0f); __stcs(q + i, 3.0f);
        __stwt(q + i, 4.0f); q[i] = __ldca(q + 7) + __ldg(q + 9); }""",
    "carry": _HEAD + """(unsigned long long *a, unsigned *b) { unsigned __int128 x = a[0], y = a[1];
        x = x * y + a[2]; x -= y << 3; a[3] = (unsigned long long)(x >> 64); a[4] = x;
        a[5] = __umul64hi(a[6], a[7]); a[8] = __mul64hi(a[6], a[7]); b[0] = __umulhi(b[1], b[2]);
        asm("{ add.cc.u32 %0, %1, %2; addc.cc.u32 %0, %0, %1; subc.u32 %0, %0, %2; }"
            : "=r"(b[3]) : "r"(b[4]), "r"(b[5])); }""",
    "locals": _HEAD + """(int *a, int n) { int s[33]; short t[9]; double d[5]; char c[16];
        for (int i = 0; i < 33; ++i) s[i] = a[i]; for (int i = 0; i < 9; ++i) t[i] = a[i + n];
        for (int i = 0; i < 5; ++i) d[i] = a[i]; for (int i = 0; i < 16; ++i) c[i] = a[i];
        a[0] = s[n] + t[n & 7] + (int)d[n & 3] + c[n & 15]; s[n] = 4; a[1] = s[n ^ 3]; }""",
    "vectors": _HEAD + """(char4 *a, short2 *b, double2 *c, uchar2 *d, longlong2 *e, ushort4 *f) {
        int i = threadIdx.x; char4 x = a[i]; x.x += x.y; a[i + 1] = x; short2 y = b[i]; y.x -= y.y;
        b[i + 1] = y; double2 z = c[i]; z.x *= z.y; c[i + 1] = z; uchar2 u = d[i]; u.x ^= u.y;
        d[i + 1] = u; longlong2 l = e[i]; l.x /= l.y; e[i + 1] = l; ushort4 s = f[i]; s.x += s.w;
        f[i + 1] = s; }""",
    "conversions": _HEAD + """(char *p) {
        #define C(A, B, at) *(A *)(p + 16 * at) = (A)*(B *)(p + 16 * at + 8);
        #define R(A, at) C(A, signed char, at) C(A, unsigned char, at + 1) C(A, short, at + 2) \\
          C(A, unsigned short, at + 3) C(A, int, at + 4) C(A, unsigned, at + 5) \\
          C(A, long long, at + 6) C(A, unsigned long long, at + 7) C(A, float, at + 8) \\
          C(A, double, at + 9)
        R(signed char, 0) R(unsigned char, 10) R(short, 20) R(unsigned short, 30) R(int, 40)
        R(unsigned, 50) R(long long, 60) R(unsigned long long, 70) R(float, 80) R(double, 90) }""",
    "integers": _HEAD + """(char *p) {
        #define F(A, at) { A x = *(A *)(p + at), y = *(A *)(p + at + 8), *q = (A *)(p + at + 16); \\
          q[0] = x + y; q[1] = x * y; q[2] = x / y; q[3] = x < y ? x : y; q[4] = x > y ? x : y; \\
          q[5] = -x; q[6] = x < 0 ? -x : x; q[7] = x == y; q[8] = x * 7 + y; q[9] = !x; }
        #define T(A, at) F(A, at) { A x = *(A *)(p + at), y = *(A *)(p + at + 8); \\
          A *q = (A *)(p + at + 256); q[0] = x % y; q[1] = x << (y & 7); q[2] = x >> (y & 7); \\
          q[3] = ~x & y; q[4] = x ? x | y : x ^ y; q[5] = x / 10; q[6] = x % 8; }
        T(signed char, 0) T(unsigned char, 512) T(short, 1024) T(unsigned short, 1536)
        T(int, 2048) T(unsigned, 2560) T(long long, 3072) T(unsigned long long, 3584)
        F(float, 4096) F(double, 4608) }""",
    "pointers": """typedef int (*F)(int); __device__ int f(int x) { return x + 1; }
        __device__ int g(int x) { return x ? g(x - 1) * 2 : 1; } __device__ F t[2] = {f, g};
        extern "C" __global__ void k(int *a) { a[0] = t[a[1] & 1](a[2]); }""",
    "spaces": """__constant__ int c[16]; __device__ int d[16]; extern __shared__ int e[];
        extern "C" __global__ void k(int *a, int n) { int *q = n & 1 ? a : n & 2 ? e : d;
        a[0] = q[n] + c[n]; e[n] = 3; __syncthreads(); a[1] = __isShared(q) + 2 * __isGlobal(q) +
        4 * __isLocal(q) + 8 * __isConstant(q); }""",
    "half_program": "#include <cuda_fp16.h>\n" + _HEAD + """(half2 *a, half *b) {
        half2 x = a[0]; x = __hfma2(x, a[1], a[2]); x = __hmax2(x, a[3]); a[4] = h2exp(x);
        b[0] = hlog(b[1]); b[2] = hsin(b[3]); b[4] = __hdiv(b[5], b[6]); atomicAdd(a + 5, x);
        atomicAdd(b + 20, b[7]); }""",
    "bfloat_atomics": "#include <cuda_bf16.h>\n" + _HEAD + """(
        __nv_bfloat162 *a, __nv_bfloat16 *b) {
        atomicAdd(a, a[1]); atomicAdd(b + 4, b[5]); }""",
    "matrix": _HEAD + """(unsigned *p) { __shared__ unsigned s[512]; unsigned a = s[threadIdx.x];
        unsigned x, y, z, w; unsigned at = (unsigned)__cvta_generic_to_shared(s);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
          : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
          : "=r"(x), "=r"(y) : "r"(at)); p[threadIdx.x] = x ^ y ^ z ^ w ^ a; }""",
    "exchange": _HEAD + """(int *a) { int v = a[threadIdx.x]; unsigned m = __activemask();
        v += __shfl_sync(m, v, 3) + __shfl_up_sync(m, v, 2, 8) + __shfl_down_sync(m, v, 1)
          + __shfl_xor_sync(m, v, 4, 16); v += __all_sync(m, v) + __any_sync(m, v)
          + __ballot_sync(m, v) + __uni_sync(m, v); int p; v += __match_any_sync(m, v);
        v += __match_all_sync(m, v, &p) + p + __syncthreads_count(v) + __syncthreads_and(v)
          + __syncthreads_or(v); __syncwarp(m); __threadfence_block(); __threadfence();
        __threadfence_system(); a[threadIdx.x] = v; }""",
    "cub_reduce": _cub("cub/block/block_reduce.cuh", "cub::BlockReduce<int, 128>",
                       "int t = B(s).Sum(v); if (!i) p[0] = t;"),
    "cub_reduce_raking": _cub(
        "cub/block/block_reduce.cuh", "cub::BlockReduce<int, 128, cub::BLOCK_REDUCE_RAKING>",
        "int t = B(s).Reduce(v[0], [](int a, int b) { return a > b ? a : b; }, n);"
        " if (!i) p[0] = t;"),
    "cub_scan": _cub("cub/block/block_scan.cuh", "cub::BlockScan<int, 128>",
                     "int t; B(s).ExclusiveSum(v, v, t); v[0] += t;"),
    "cub_sort": _cub("cub/block/block_radix_sort.cuh", "cub::BlockRadixSort<int, 128, 4>",
                     "B(s).Sort(v);"),
    "cub_histogram": _cub(
        "cub/block/block_histogram.cuh", "cub::BlockHistogram<int, 128, 4, 64>",
        "__shared__ int h[64]; B(s).Histogram(v, h); __syncthreads(); v[0] = h[i & 63];"),
    "cub_exchange": _cub("cub/block/block_exchange.cuh", "cub::BlockExchange<int, 128, 4>",
                         "B(s).StripedToBlocked(v, v);"),
    "cub_merge": _cub("cub/block/block_merge_sort.cuh", "cub::BlockMergeSort<int, 128, 4>",
                      "B(s).Sort(v, [](int a, int b) { return a < b; });"),
    "cub_warp": _cub("cub/warp/warp_scan.cuh", "cub::WarpScan<int>",
                     "B(s).InclusiveSum(v[0], v[1]);"),
    "cub_warp_reduce": _cub("cub/warp/warp_reduce.cuh", "cub::WarpReduce<int>",
                            "v[0] = B(s).HeadSegmentedSum(v[1], v[2] & 1);"),
    "wmma_half": _wmma("half", "half", "float", "16, 16, 16", "row_major"),
    "wmma_half_col": _wmma("half", "half", "half", "32, 8, 16", "col_major"),
    "wmma_wide": _wmma("half", "half", "float", "8, 32, 16", "col_major"),
    "wmma_byte": _wmma("signed char", "signed char", "int", "16, 16, 16", "row_major"),
    "wmma_ubyte": _wmma("unsigned char", "unsigned char", "int", "8, 32, 16", "col_major"),
    "wmma_bfloat": _wmma("__nv_bfloat16", "__nv_bfloat16", "float", "16, 16, 16", "col_major"),
    "wmma_tf32": _wmma("float", "float", "float", "16, 16, 8", "row_major",
                       "wmma::precision::tf32"),
    "wmma_double": _wmma("double", "double", "double", "8, 8, 4", "row_major"),
}  # fmt: skip

SKIPPED = frozenset(
    ("cg_cluster", "cg_invoke", "wmma_bfloat", "wmma_tf32", "wmma_double", "cg_barrier")
)
"""Programs that not every architecture or toolkit compiles."""
