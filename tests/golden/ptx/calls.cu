// Calls, pointers to functions and data, a switch, local arrays, printf and asm scopes.
extern "C" __device__ int printf(const char*, ...);
struct Mixed { char a; short b; double c; int d[3]; };
__device__ int counter = 7;
__device__ float table[4] = {1.f, -2.5f, 3e10f, 0.f};
__device__ const char* names[2] = {"hello", "world"};
__device__ int* inside = &((int*)table)[2];
__constant__ double weights[3] = {1.0, 2.0, -3.5};
typedef int (*Step)(int);
__device__ __noinline__ int up(int x) { return x * counter + 1; }
__device__ __noinline__ int down(int x) { return x - 1; }
__device__ Step steps[2] = {up, down};
__device__ __noinline__ Mixed make(Mixed m, float4 v) { m.c += v.x; m.d[1] = v.y; return m; }
extern "C" __global__ __launch_bounds__(256, 2) void calls(
    bool flag, char letter, short small, double real, Mixed given, long long n, int* out) {
  extern __shared__ double dynamic[];
  __shared__ Mixed kept[10];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int local[8];
  for (int k = 0; k < 8; k++) local[k] = table[(k * i) & 3];
  if (flag) out[i] = steps[letter & 1](i) + (int)real + given.d[i % 3] + small;
  kept[threadIdx.x % 10] = make(given, make_float4(1, 2, local[i & 7], 4));
  __syncthreads();
  dynamic[threadIdx.x] = weights[i % 3] + kept[i % 10].c;
  switch (n) {
    case 0: out[i] *= 3; break;
    case 1: out[i] = names[1][i % 5]; break;
    case 2: out[i] ^= 5; break;
    case 3: out[i] = up(3); break;
    case 4: printf("%d\n", i); break;
    case 5: out[i] = *inside; break;
    case 6: out[i] = __ffs(out[i]); break;
    case 7: __trap();
  }
  asm volatile("{ .reg .b32 t; mov.b32 t, %1; add.u32 %0, t, 3; }" : "=r"(out[i]) : "r"(i));
  asm volatile(
      "{ .reg .b32 t; .reg .pred p; setp.ne.u32 p, %1, 0; @p bra DONE;"
      " mov.b32 t, %1; add.u32 %0, t, 3; DONE: }" : "+r"(out[i + 1]) : "r"((int)n));
  out[i + 2] = dynamic[threadIdx.x ^ 1];
}
