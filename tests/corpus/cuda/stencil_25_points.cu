// Order eight in space, 25 points: finite differences of the wave equation. The column along z lives in
// registers, the plane in shared memory with a halo of four, as in the well-known FDTD3d program.
#define R 4
#define BX 16
#define BY 8
__constant__ float coefficient[R + 1];

extern "C" __global__ void k(const float* in, float* out, int dx, int dy, int dz) {
  __shared__ float tile[BY + 2 * R][BX + 2 * R];
  const int sx = dx + 2 * R, sy = dy + 2 * R, plane = sx * sy;
  const int gx = blockIdx.x * BX + threadIdx.x, gy = blockIdx.y * BY + threadIdx.y;
  const int tx = threadIdx.x + R, ty = threadIdx.y + R;
  const bool valid = gx < dx && gy < dy;
  int input = (gy + R) * sx + gx + R, output = 0;

  float infront[R], behind[R], current;
  if (valid) {
    for (int i = R - 2; i >= 0; --i) {
      behind[i] = in[input];
      input += plane;
    }
    current = in[input];
    output = input;
    input += plane;
    for (int i = 0; i < R; ++i) {
      infront[i] = in[input];
      input += plane;
    }
  }
  for (int z = 0; z < dz; ++z) {
    if (valid) {
      for (int i = R - 1; i > 0; --i) behind[i] = behind[i - 1];
      behind[0] = current;
      current = infront[0];
#pragma unroll
      for (int i = 0; i < R - 1; ++i) infront[i] = infront[i + 1];
      infront[R - 1] = in[input];
      input += plane;
      output += plane;
    }
    __syncthreads();
    if (valid) {
      if (threadIdx.y < R) {
        tile[threadIdx.y][tx] = in[output - R * sx];
        const int last = min(BY, dy - (int)blockIdx.y * BY);
        tile[last + R + threadIdx.y][tx] = in[output + last * sx];
      }
      if (threadIdx.x < R) {
        tile[ty][threadIdx.x] = in[output - R];
        const int last = min(BX, dx - (int)blockIdx.x * BX);
        tile[ty][last + R + threadIdx.x] = in[output + last];
      }
      tile[ty][tx] = current;
    }
    __syncthreads();
    if (valid) {
      float value = coefficient[0] * current;
#pragma unroll
      for (int i = 1; i <= R; ++i)
        value += coefficient[i] * (infront[i - 1] + behind[i - 1] + tile[ty - i][tx] +
                                   tile[ty + i][tx] + tile[ty][tx - i] + tile[ty][tx + i]);
      out[output] = value;
    }
  }
}
