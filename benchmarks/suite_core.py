"""Memory-bound and compute-bound kernels, call overhead, compile time."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, faster, interleave, slower

import ge2rt

LARGE = 1 << 24
FRESH_PROCESSES = 5
_HERE = Path(__file__).parent


def _desc(*arrays: np.ndarray, **attrs: Any) -> dict[str, Any]:
    buffers = [
        {"shape": list(a.shape), "dtype": "f32", "layout": "rowmajor", "device": "cpu"}
        for a in arrays
    ]
    return {"buffers": buffers, "attrs": attrs} if attrs else {"buffers": buffers}


def _planned(kernel: str, *arrays: np.ndarray, **attrs: Any) -> Callable[[], int]:
    """A call of a prepared plan on these arrays, checked once to succeed."""
    plan = ge2rt.prepare(kernel, _desc(*arrays, **attrs), device="cpu")
    pointers = [a.ctypes.data for a in arrays]
    if plan(pointers) != 0:
        raise RuntimeError(ge2rt.last_error())
    return lambda: plan(pointers)


def _agree(ours: np.ndarray, exact: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(ours, exact, rtol=tolerance, atol=tolerance)


def axpb() -> list[Row]:
    x = np.random.default_rng(0).standard_normal(LARGE).astype(np.float32)
    b, out, other = np.array(0.5, np.float32), np.empty_like(x), np.empty_like(x)
    ours = _planned("elementwise_binary", x, b, out, op="add", alpha=2.0)
    _agree(out, 2 * x + b, 1e-6)

    def numpy_into() -> None:
        np.multiply(x, 2, other)
        np.add(other, b, other)

    times = interleave(
        {"ge2rt": ours, "memcpy": lambda: np.copyto(other, x), "numpy": numpy_into}, 0.1
    )
    return [slower("2*x+b, 16M f32", times, "memcpy", 1.3)]


def gelu() -> list[Row]:
    x = np.random.default_rng(0).standard_normal(LARGE).astype(np.float32)
    out = np.empty_like(x)
    ours = _planned("elementwise_unary", x, out, op="gelu")

    def numpy_gelu() -> np.ndarray:
        return 0.5 * x * (1 + np.tanh(np.float32(0.7978845608) * (x + 0.044715 * x * x * x)))

    _agree(out, numpy_gelu(), 2e-6)
    times = interleave({"ge2rt": ours, "numpy": numpy_gelu}, 0.1)
    return [faster("gelu-tanh, 16M f32", times, "numpy", 6)]


def softmax() -> list[Row]:
    x = np.random.default_rng(0).standard_normal((4096, 1024)).astype(np.float32)
    out = np.empty_like(x)
    ours = _planned("softmax", x, out)

    def numpy_softmax() -> np.ndarray:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    _agree(out, numpy_softmax(), 1e-6)
    times = interleave({"ge2rt": ours, "numpy": numpy_softmax}, 0.1)
    return [faster("softmax 4096x1024", times, "numpy", 2.5)]


def layernorm() -> list[Row]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4096, 1024)).astype(np.float32)
    g, b = rng.standard_normal((2, 1024)).astype(np.float32)
    out = np.empty_like(x)
    ours = _planned("layernorm", x, g, b, out)

    def numpy_layernorm() -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        variance = (centred * centred).mean(axis=1, keepdims=True)
        return centred / np.sqrt(variance + np.float32(1e-5)) * g + b

    _agree(out, numpy_layernorm(), 1e-5)
    times = interleave({"ge2rt": ours, "numpy": numpy_layernorm}, 0.1)
    return [faster("layernorm 4096x1024", times, "numpy", 2)]


def gemm() -> list[Row]:
    rows = []
    for n in (512, 1024):
        a, b = np.random.default_rng(0).standard_normal((2, n, n)).astype(np.float32)
        out, other = np.empty_like(a), np.empty_like(a)
        ours = _planned("gemm_bias_act_f32", a, b, out)
        _agree(out, a @ b, 1e-3)

        def blas(a: np.ndarray = a, b: np.ndarray = b, other: np.ndarray = other) -> None:
            np.matmul(a, b, out=other)

        times = interleave({"ge2rt": ours, "blas": blas}, 0.1)
        gflops = 2 * n**3 / times["ge2rt"] / 1e9
        rows.append(faster(f"GEMM {n} f32", times, "blas", 0.4, note=f"{gflops:.0f} GFLOP/s"))
    return rows


def overhead() -> list[Row]:
    import torch

    x, y, out = (np.ones(1024, np.float32) for _ in range(3))
    tx, ty, tout = (torch.ones(1024) for _ in range(3))
    descs = _desc(x, y, out, op="add")
    pointers = [a.ctypes.data for a in (x, y, out)]
    plan = ge2rt.prepare("elementwise_binary", descs, device="cpu")
    launch = ge2rt.launch_kernel
    if launch("elementwise_binary", pointers, descs) or plan(pointers) or out[0] != 2:
        raise RuntimeError(ge2rt.last_error())
    times = interleave(
        {
            "launch": lambda: launch("elementwise_binary", pointers, descs, 0),
            "plan": lambda: plan(pointers),
            "torch.add": lambda: torch.add(tx, ty, out=tout),
            "np.add": lambda: np.add(x, y, out),
        }
    )
    peers = {name: times[name] for name in ("torch.add", "np.add")}
    return [
        slower("warm launch_kernel", {"ge2rt": times["launch"], **peers}, "torch.add", 1.1),
        slower("prepared plan", {"ge2rt": times["plan"], **peers}, "torch.add", 0.35),
    ]


_COLD = """
import json, os, sys, time
import numpy as np, ge2rt
ge2rt.load_registry(os.environ["BENCH_REGISTRY"])
ge2rt.warmup("cpu")
x = np.ones(int(os.environ["BENCH_SIZE"]), np.float32)
start = time.perf_counter()
if os.environ["BENCH_KERNEL"] == "shipped":
    y = ge2rt.launch("elementwise_binary", x, x, op="add", alpha=2.0, device="cpu")
else:
    y = ge2rt.launch("bench_axpb", x, x, device="cpu")
spent = time.perf_counter() - start
assert (y == 3).all()
print(json.dumps({"seconds": spent, "cupy": "cupy" in sys.modules}))
"""

_CACHED = _COLD.replace('ge2rt.warmup("cpu")', 'ge2rt.warmup("cpu", compiler=False)')

_NUMBA = """
import json, time
import numba, numpy as np
@numba.njit
def first(x, y):
    for i in range(x.size): y[i] = x[i]
@numba.njit
def axpb(x, b, y):
    for i in range(x.size): y[i] = 2 * x[i] + b[i]
x, y = np.ones((2, 1024), np.float32)
first(x, y)
start = time.perf_counter()
axpb(x, x, y)
print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def _child(code: str, cache: str = "", kernel: str = "shipped", size: int = 1024) -> dict[str, Any]:
    own = {"GE2RT_CACHE_DIR": cache, "BENCH_REGISTRY": str(_HERE / "axpb.yaml"),
           "BENCH_KERNEL": kernel, "BENCH_SIZE": str(size)}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env={**os.environ, **own},
    )  # fmt: skip
    return json.loads(done.stdout)


# What is called for the first time: the shipped `elementwise_binary` as 2*x+b (its template serves
# every rank, stride and dtype), the same at a size that no vector divides, and a user's own kernel.
_COLD_CALLS = (
    ("cold call, small kernel", "shipped", 1024),
    ("cold call, 1000 elements", "shipped", 1000),
    ("cold call, own YAML kernel", "own", 1024),
)


def compile_times() -> list[Row]:
    import numba  # noqa: F401 - the peer must be there before anything is measured

    cold: dict[str, list[float]] = {name: [] for name, _, _ in _COLD_CALLS}
    cached, numba_times, leaks = [], [], 0
    for _ in range(FRESH_PROCESSES):
        for name, kernel, size in _COLD_CALLS:
            with tempfile.TemporaryDirectory() as folder:
                cold[name].append(_child(_COLD, folder, kernel, size)["seconds"])
                answer = _child(_CACHED, folder, kernel, size)
            if name == _COLD_CALLS[0][0]:
                cached.append(answer["seconds"])
            leaks += answer["cupy"]
        numba_times.append(_child(_NUMBA)["seconds"])
    reload_seconds = statistics.median(cached)
    note = "cupy was imported!" if leaks else "cupy was not imported"
    numba_seconds = statistics.median(numba_times)
    return [
        *(slower(name, {"ge2rt": statistics.median(t), "numba": numba_seconds}, "numba", 1.2)
          for name, t in cold.items()),
        Row("cached call, new process", reload_seconds, 0.008, "8 ms", reload_seconds * 1e3, "<=",
            0 if leaks else 8, unit=" ms", note=note),
    ]  # fmt: skip


ROWS: dict[str, Callable[[], list[Row]]] = {
    "2*x+b": axpb,
    "gelu": gelu,
    "softmax": softmax,
    "layernorm": layernorm,
    "gemm": gemm,
    "launch overhead": overhead,
    "compile time": compile_times,
}
