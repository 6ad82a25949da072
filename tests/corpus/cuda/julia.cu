// The Julia set as a picture: a small complex class with operators, one byte quadruple a pixel.
struct Complex {
  float re, im;
  __device__ Complex(float a, float b) : re(a), im(b) {}
  __device__ float norm() const { return re * re + im * im; }
  __device__ Complex operator*(const Complex& o) const {
    return Complex(re * o.re - im * o.im, im * o.re + re * o.im);
  }
  __device__ Complex operator+(const Complex& o) const { return Complex(re + o.re, im + o.im); }
};

__device__ int inside(int x, int y, int size) {
  const float scale = 1.5f;
  const float jx = scale * (size / 2 - x) / (size / 2), jy = scale * (size / 2 - y) / (size / 2);
  const Complex c(-0.8f, 0.156f);
  Complex a(jx, jy);
  for (int i = 0; i < 120; i++) {
    a = a * a + c;
    if (a.norm() > 1000.0f) return i;
  }
  return 120;
}

extern "C" __global__ void k(uchar4* picture, int size) {
  const int x = blockIdx.x, y = threadIdx.x;
  const int n = inside(x, y, size);
  picture[x + y * size] = make_uchar4(n * 2, n == 120 ? 255 : 0, n & 7, 255);
}
