"""Run a CUDA file with no GPU: a matrix product and the histogram of its values."""

from pathlib import Path

import numpy as np

import ge2rt

M, N, K, TILE, BINS = 100, 120, 70, 16, 64

module = ge2rt.RawModule(
    path=Path(__file__).parent / "kernels.cu", name_expressions=["histogram<float>"]
)
matmul = module.get_function("matmul")
histogram = module.get_function("histogram<float>")
module.get_global("scale").set(np.float32(0.5))

rng = np.random.default_rng(0)
a = rng.standard_normal((M, K)).astype(np.float32)
b = rng.standard_normal((K, N)).astype(np.float32)
c = np.empty((M, N), np.float32)
grid = (-(-N // TILE), -(-M // TILE))
matmul(grid, (TILE, TILE), (a, b, c, M, N, K))
np.testing.assert_allclose(c, 0.5 * (a @ b), rtol=1e-4, atol=1e-4)

bins = np.zeros(BINS, np.uint32)
histogram((4,), (128,), (c, c.size, -20.0, 20.0, bins))
inside = (c >= -20) & (c < 20)
assert bins.sum() == c.size
assert abs(int(bins.argmax()) - BINS // 2) <= 4
print(f"{matmul}: largest {np.abs(c).max():.2f}")
print(f"histogram: {inside.mean():.0%} of the values inside, {bins.max()} in the fullest bin")
