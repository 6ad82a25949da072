// Bilinear resize of RGB bytes (uchar3) with fixed-point weights of 11 bits, corners not aligned.
extern "C" __global__ void k(const uchar3* in, int w, int h, uchar3* out, int ow, int oh) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= ow || y >= oh) return;
  const float sx = fmaxf((x + 0.5f) * ((float)w / ow) - 0.5f, 0.0f);
  const float sy = fmaxf((y + 0.5f) * ((float)h / oh) - 0.5f, 0.0f);
  const int x0 = min((int)floorf(sx), w - 1), y0 = min((int)floorf(sy), h - 1);
  const int x1 = min(x0 + 1, w - 1), y1 = min(y0 + 1, h - 1);
  const int wx = __float2int_rn((sx - x0) * 2048.0f), wy = __float2int_rn((sy - y0) * 2048.0f);
  const uchar3 a = in[y0 * w + x0], b = in[y0 * w + x1], c = in[y1 * w + x0], d = in[y1 * w + x1];
  auto mix = [&](int p, int q, int r, int s) {
    const int top = p * (2048 - wx) + q * wx, bottom = r * (2048 - wx) + s * wx;
    const long long sum = (long long)top * (2048 - wy) + (long long)bottom * wy;
    return (unsigned char)((sum + (1 << 21)) >> 22);
  };
  out[y * ow + x] = make_uchar3(mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y),
                                mix(a.z, b.z, c.z, d.z));
}
