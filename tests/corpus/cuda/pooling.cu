// Pooling over NCHW: maximum with the place of the maximum, and average without the padding, chosen
// by a template policy.
struct Maximum {
  float value = -3.402823466e38f;
  int place = -1;
  __device__ void add(float v, int p) {
    if (v > value) {
      value = v;
      place = p;
    }
  }
  __device__ float result() const { return value; }
};

struct Average {
  float sum = 0.0f;
  int place = 0;
  __device__ void add(float v, int) {
    sum += v;
    ++place;
  }
  __device__ float result() const { return sum / place; }
};

struct Window {
  int size, stride, pad;
};

template <class Policy>
__global__ void pool(const float* __restrict__ in, int h, int w, Window win, float* out, int* places,
                     int oh, int ow, int total) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += blockDim.x * gridDim.x) {
    const int x = i % ow, y = i / ow % oh, plane = i / (ow * oh);
    Policy acc;
    const int y0 = y * win.stride - win.pad, x0 = x * win.stride - win.pad;
    for (int yy = max(y0, 0); yy < min(y0 + win.size, h); ++yy)
      for (int xx = max(x0, 0); xx < min(x0 + win.size, w); ++xx)
        acc.add(in[(plane * h + yy) * w + xx], yy * w + xx);
    out[i] = acc.result();
    places[i] = acc.place;
  }
}
