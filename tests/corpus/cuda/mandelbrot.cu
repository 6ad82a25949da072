// Escape times of the Mandelbrot set in single and double precision, four samples a pixel, with the
// test for the main cardioid in front.
template <typename T>
__device__ int escape(T cx, T cy, int most) {
  const T q = (cx - T(0.25)) * (cx - T(0.25)) + cy * cy;
  if (q * (q + (cx - T(0.25))) < T(0.25) * cy * cy * T(0.999)) return most;
  T x = 0, y = 0, xx = 0, yy = 0;
  int i = 0;
  while (i < most && xx + yy < T(4)) {
    y = T(2) * x * y + cy;
    x = xx - yy + cx;
    xx = x * x;
    yy = y * y;
    ++i;
  }
  return i;
}

template <typename T>
__global__ void mandelbrot(int* out, int w, int h, T x0, T y0, T step, int most) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int sum = 0;
  for (int s = 0; s < 4; ++s) {
    const T cx = x0 + step * (x + T(0.5) * (s & 1)), cy = y0 + step * (y + T(0.5) * (s >> 1));
    sum += escape<T>(cx, cy, most);
  }
  out[y * w + x] = sum;
}
