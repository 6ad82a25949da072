"""The CPU device against its bars: reductions, rows, GEMM, the pool, tiers, and the simulator."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import suite_core
from harness import ROUNDS, Row, faster, interleave, repeats, seconds_each
from suite_core import LARGE, _planned

from ge2rt.build.compile import compile_text
from ge2rt.device.api import LaunchShape
from ge2rt.device.registry import get_device

TREE = """
extern "C" __global__ void tree(const float* x, float* out) {
  __shared__ float s[256];
  const int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}
"""

SPIN = """
extern "C" __global__ void spin(float* x, int rounds) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float v = x[i];
  for (int k = 0; k < rounds; ++k) v = fmaf(v, 0.999f, 0.001f);
  x[i] = v;
}
"""

AXPB = """
extern "C" __global__ void axpb(const float* x, float* y, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i] + 1.0f;
}
"""


def _launcher(code: str, entry: str, grid: int, block: int) -> Callable[..., None]:
    """A function that launches ``entry`` with arrays and Python ints."""
    device = get_device("cpu")
    ptx = compile_text(code, arch="sm_80").data
    launcher = device.load(ptx, "ptx", entry).function(entry).launcher(
        LaunchShape((grid, 1, 1), (block, 1, 1))
    )  # fmt: skip
    device.settle()

    def launch(*args: Any) -> None:
        packed = b"".join(
            (a.ctypes.data if isinstance(a, np.ndarray) else a).to_bytes(
                8 if isinstance(a, np.ndarray) else 4, "little"
            )
            for a in args
        )
        launcher(packed)

    return launch


def reduce_sum() -> list[Row]:
    x = np.random.default_rng(0).random(LARGE, np.float32)
    out = np.empty((), np.float32)
    ours = _planned("reduce", x, out, op="sum")
    np.testing.assert_allclose(out, x.sum(dtype=np.float64), rtol=1e-5)
    times = interleave({"ge2rt": ours, "np.sum": lambda: np.sum(x)}, 0.1)
    return [faster("reduce sum, 16M f32", times, "np.sum", 1)]


def tree() -> list[Row]:
    x = np.random.default_rng(0).random(LARGE, np.float32)
    partial = np.empty(LARGE // 256, np.float32)
    launch = _launcher(TREE, "tree", LARGE // 256, 256)

    def ours() -> float:
        launch(x, partial)
        return float(partial.sum())

    np.testing.assert_allclose(ours(), x.sum(dtype=np.float64), rtol=1e-5)
    times = interleave({"ge2rt": ours, "np.sum": lambda: np.sum(x)}, 0.1)
    return [faster("pure tree, 16M f32", times, "np.sum", 0.8)]


def pool() -> list[Row]:
    """The same launches with one thread and with two, which take turns in one process."""
    workers = get_device("cpu").pool
    before = workers.threads
    x = np.ones(32 * 256, np.float32)
    people = {"ge2rt": 2, "one thread": 1}
    launchers = {name: _launcher(SPIN, "spin", 32, 256) for name in people}

    def seconds(name: str, rounds: int) -> float:
        """Seconds of one launch, over some 50 ms of them."""
        workers.set_threads(people[name])

        def launch() -> None:
            launchers[name](x, rounds)

        return seconds_each(launch, repeats(launch, 0.05))

    def alone(rounds: int) -> float:
        return statistics.median(seconds("one thread", rounds) for _ in range(3))

    rows = []
    try:
        for target, what, bar in ((30e-6, "30 us", 0.95), (1e-3, "1 ms", 1.7)):
            few, many = alone(100), alone(1100)  # a launch has a part that no round takes
            rounds = max(round((target - few) / (many - few) * 1000) + 100, 1)
            found: dict[str, list[float]] = {name: [] for name in people}
            for _ in range(ROUNDS):
                for name in people:
                    found[name].append(seconds(name, rounds))
            times = {name: statistics.median(values) for name, values in found.items()}
            rows.append(faster(f"pool, kernel of {what}", times, "one thread", bar))
    finally:
        workers.set_threads(before)
    return rows


_CUDASIM = """
import json, time
import numpy as np
from numba import cuda
@cuda.jit
def axpb(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2.0 * x[i] + 1.0
n = 4096
x, y = np.ones((2, n), np.float32)
axpb[n // 256, 256](x, y, n)
spent = []
for _ in range(5):
    start = time.perf_counter()
    axpb[n // 256, 256](x, y, n)
    spent.append(time.perf_counter() - start)
assert (y == 3).all()
print(json.dumps(sorted(spent)[2]))
"""


def simulator() -> list[Row]:
    import numba  # noqa: F401 - the peer must be there

    n = 4096
    x, y = np.ones((2, n), np.float32)
    launch = _launcher(AXPB, "axpb", n // 256, 256)
    times = interleave({"ge2rt": lambda: launch(x, y, n)})
    done = subprocess.run(
        [sys.executable, "-c", _CUDASIM], check=True, capture_output=True, text=True,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
    )  # fmt: skip
    times["CUDASIM"] = json.loads(done.stdout)
    return [faster("2*x+1, 4,096 f32", times, "CUDASIM", 1000)]


def _long_source(loops: int, statements: int = 50) -> str:
    """A kernel of many loops, each of straight code over four values."""
    body = []
    for loop in range(loops):
        body.append("#pragma unroll 1\n  for (int r = 0; r < rounds; ++r) {")
        for k in range(statements):
            d, e, f = ("abcd"[(k + j) % 4] for j in range(3))
            body.append(f"    {d} = {e} * {f} + x[i + {loop + k}];")
        body.append("  }")
    return (
        'extern "C" __global__ void longer(float* x, int rounds) {\n  const int i = threadIdx.x;\n'
        "  float a = x[i], b = 1.0f, c = 0.5f, d = 0.25f;\n  " + "\n".join(body)
        + "\n  x[i] = a + b + c + d;\n}\n"
    )  # fmt: skip


_TIERS = """
import json, sys, time
import ge2rt
from ge2rt.device.api import LaunchShape
ge2rt.warmup("cpu", compiler=False)
device = ge2rt.get_device("cpu")
ptx = open({ptx!r}, "rb").read()
start = time.perf_counter()
device.load(ptx, "ptx", "longer").function("longer").launcher(LaunchShape((1, 1, 1), (256, 1, 1)))
first = time.perf_counter() - start
device.settle()
print(json.dumps([first, time.perf_counter() - start]))
"""


def tiers() -> list[Row]:
    ptx = compile_text(_long_source(57), arch="sm_80").data
    count = sum(1 for line in ptx.decode().splitlines() if line.strip().endswith(";"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "longer.ptx")
        with open(path, "wb") as file:
            file.write(ptx)
        firsts, fulls, cached = [], [], []
        for _ in range(3):
            cache = tempfile.mkdtemp(dir=folder)
            for target in (firsts, cached):
                first, full = _child(_TIERS.format(ptx=path), cache)
                target.append(first)
                if target is firsts:
                    fulls.append(full)
    quick, full, again = (statistics.median(v) for v in (firsts, fulls, cached))
    return [
        Row(f"PTX of {count} instructions, first tier", quick, 1.0, "1 s", quick, "<=", 1.0,
            unit=" s", note=f"full tier {full:.2f} s"),
        Row("the same from the cache", again, 0.01, "10 ms", again * 1e3, "<=", 10, unit=" ms"),
    ]  # fmt: skip


def _child(code: str, cache: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env={**os.environ, "GE2RT_CACHE_DIR": cache},
    )  # fmt: skip
    return json.loads(done.stdout)


def _barred(rows: Callable[[], list[Row]], bar: float) -> Callable[[], list[Row]]:
    """The rows of the core suite against this suite's bar."""
    return lambda: [Row(**{**vars(row), "bar": bar}) for row in rows()]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "2*x+b": suite_core.axpb,
    "gelu": suite_core.gelu,
    "softmax": suite_core.softmax,
    "layernorm": _barred(suite_core.layernorm, 4),
    "gemm": _barred(suite_core.gemm, 0.5),
    "reduce": reduce_sum,
    "tree": tree,
    "pool": pool,
    "simulator": simulator,
    "tiers": tiers,
}
