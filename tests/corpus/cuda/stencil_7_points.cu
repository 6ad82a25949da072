// Seven points in three dimensions, in double precision; a thread walks along z and keeps the three
// planes that it needs in registers.
extern "C" __global__ void k(const double* in, double* out, int nx, int ny, int nz, double a,
                             double b) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
  const int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= nx - 1 || y >= ny - 1) return;
  const int plane = nx * ny;
  int at = y * nx + x;
  double below = in[at], here = in[at + plane];
  for (int z = 1; z < nz - 1; ++z) {
    at += plane;
    const double above = in[at + plane];
    const double sides = in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx];
    out[at] = a * here + b * (below + above + sides);
    below = here;
    here = above;
  }
}
