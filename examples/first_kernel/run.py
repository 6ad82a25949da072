"""Load a kernels file, run its kernel on arrays (a strided one too), compare with NumPy."""

from pathlib import Path

import numpy as np

import ge2rt

ge2rt.load_registry(Path(__file__).parent / "my_kernels.yaml")
x = np.arange(20, dtype=np.float32)[::2]
y = ge2rt.launch("saxpy", x, np.ones(10, np.float32), a=3.0)
np.testing.assert_allclose(y, 3 * x + 1)
print("saxpy:", y)
