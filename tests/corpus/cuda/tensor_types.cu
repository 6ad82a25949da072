// Matrix products on tensor cores in other types than half: bfloat16 and int8 tiles of 16x8, and double
// precision tiles of 8x8, each warp one tile, fragments loaded by hand.
__device__ __forceinline__ unsigned pair(const unsigned short* p) { return *reinterpret_cast<const unsigned*>(p); }

extern "C" __global__ void bfloat(const unsigned short* a, const unsigned short* bt, float* c, int n,
                                  int k) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  a += blockIdx.y * 16 * k;
  bt += blockIdx.x * 8 * k;
  float d[4] = {};
  for (int at = 0; at < k; at += 16) {
    const unsigned a0 = pair(a + g * k + at + 2 * t), a1 = pair(a + (g + 8) * k + at + 2 * t),
                   a2 = pair(a + g * k + at + 2 * t + 8), a3 = pair(a + (g + 8) * k + at + 2 * t + 8),
                   b0 = pair(bt + g * k + at + 2 * t), b1 = pair(bt + g * k + at + 2 * t + 8);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
  float* out = c + (blockIdx.y * 16 + g) * n + blockIdx.x * 8 + 2 * t;
  out[0] = d[0];
  out[1] = d[1];
  out[8 * n] = d[2];
  out[8 * n + 1] = d[3];
}

extern "C" __global__ void bytes(const signed char* a, const signed char* bt, int* c, int n, int k) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const int* aw = reinterpret_cast<const int*>(a + blockIdx.y * 16 * k);
  const int* bw = reinterpret_cast<const int*>(bt + blockIdx.x * 8 * k);
  const int pitch = k / 4;
  int d[4] = {};
  for (int at = 0; at < pitch; at += 8)
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(aw[g * pitch + at + t]), "r"(aw[(g + 8) * pitch + at + t]),
          "r"(aw[g * pitch + at + t + 4]), "r"(aw[(g + 8) * pitch + at + t + 4]),
          "r"(bw[g * pitch + at + t]), "r"(bw[g * pitch + at + t + 4]));
  int* out = c + (blockIdx.y * 16 + g) * n + blockIdx.x * 8 + 2 * t;
  out[0] = d[0];
  out[1] = d[1];
  out[8 * n] = d[2];
  out[8 * n + 1] = d[3];
}

extern "C" __global__ void doubles(const double* a, const double* b, double* c, int n, int k) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  double d0 = 0, d1 = 0;
  for (int at = 0; at < k; at += 4)
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(d0), "+d"(d1)
        : "d"(a[(blockIdx.y * 8 + g) * k + at + t]), "d"(b[(at + t) * n + blockIdx.x * 8 + g]));
  double* out = c + (blockIdx.y * 8 + g) * n + blockIdx.x * 8 + 2 * t;
  out[0] = d0;
  out[1] = d1;
}
