"""The CI smoke test: the main job from kernels.yaml to checked results, on a GPU or without one.

Usage: python scripts/smoke.py [--device cpu|cuda|auto]

Prints what it does and exits non-zero on the first kind of failure it meets.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ge2rt
from ge2rt.base.errors import STATUS_TABLE
from ge2rt.device.null import NullDevice

USER_YAML = """
api_version: 1
kernels:
  - name: scale_shift
    op: SCALE_SHIFT
    template: scale_shift.cu.j2
    score: 10
    inputs: [{name: x, dtype: f32, shape: [N]}]
    outputs: [{name: y, dtype: f32, shape: [N]}]
    attrs: {scale: {type: float, default: 2.0}}
    launch: {grid: ["ceildiv(N, 256)"], block: [256]}
    reference: "scale * x + 1"
"""

USER_TEMPLATE = """
extern "C" __global__ void {{ kernel }}({{ params }}) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < {{ N }}) y[i] = {{ scale }}f * x[i] + 1.0f;
}
"""

BROKEN_TEMPLATE = 'extern "C" __global__ void {{ kernel }}({{ params }}) { y[0] = no_such_name; }\n'


class Smoke:
    """One run on one device: buffers, launches and the list of failures."""

    def __init__(self, device: str) -> None:
        self.device = ge2rt.get_device(device)
        self.failures: list[str] = []

    def check(self, what: str, good: bool, detail: str = "") -> None:
        """Print one line; remember a failure."""
        print(f"  {'ok  ' if good else 'FAIL'} {what}{': ' + detail if detail else ''}")
        if not good:
            self.failures.append(what)

    def upload(self, array: np.ndarray) -> int:
        """The address of a device copy."""
        address = self.device.memory.allocate(max(array.nbytes, 1))
        self.device.memory.write(address, array.tobytes())
        return address

    def download(self, address: int, like: np.ndarray) -> np.ndarray:
        """A host copy of device memory."""
        data = self.device.memory.read(address, like.nbytes)
        return np.frombuffer(data, like.dtype).reshape(like.shape)

    def desc(self, *arrays: np.ndarray, **attrs: Any) -> dict[str, Any]:
        """The descs of a call."""
        names = {"float16": "f16", "float32": "f32", "float64": "f64"}
        buffers = [
            {"shape": list(a.shape), "dtype": names[a.dtype.name], "layout": "rowmajor",
             "device": self.device.props.kind}
            for a in arrays
        ]  # fmt: skip
        return {"buffers": buffers, "attrs": attrs} if attrs else {"buffers": buffers}


def handshake(smoke: Smoke) -> None:
    print(f"ge2rt {ge2rt.__version__}, API version {ge2rt.GE2_API_VERSION}")
    print(f"device: {smoke.device.name} ({smoke.device.props.name}, {smoke.device.props.arch})")
    ge2rt.check_api_version(ge2rt.GE2_API_VERSION, strict=True)
    print("kernels:", ", ".join(ge2rt.query_kernels()))
    table = ge2rt.query_capability("GEMM_BIAS_ACT", {}, {})
    print("capability of GEMM_BIAS_ACT:", table)
    expected = {"gemm_bias_act_tc_f16": 40, "gemm_bias_act_f32": 80}
    smoke.check("capability table", expected.items() <= table.items())
    raw = ge2rt.ge_v2_capability_table_raw()
    smoke.check("raw table", raw.get("GEMM_BIAS_ACT__gemm_bias_act_f32") == 80)


def copy(smoke: Smoke) -> None:
    x = np.arange(1024, dtype=np.float32)
    y = np.zeros_like(x)
    source, target = smoke.upload(x), smoke.upload(y)
    code = ge2rt.launch_kernel("copy", [source, target], smoke.desc(x, y), 0)
    smoke.device.synchronize()
    good = code == 0 and np.array_equal(smoke.download(target, y), x)
    smoke.check("copy of 1024 f32", good, f"code {code}")
    if good:
        print("OK: copy smoke passed")


def gemm(smoke: Smoke, name: str, dtype: type, bound: float) -> None:
    rng = np.random.default_rng(1)
    m, n, k = 96, 80, 112
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    bias = rng.standard_normal(n).astype(np.float32)
    d = np.zeros((m, n), dtype)
    pointers = [smoke.upload(x) for x in (a, b, bias, d)]
    code = ge2rt.launch_kernel(name, pointers, smoke.desc(a, b, bias, d, act="relu"), 0)
    smoke.device.synchronize()
    exact = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    error = float(np.abs(smoke.download(pointers[-1], d) - exact).max() / np.abs(exact).max())
    smoke.check(
        f"{name} {m}x{n}x{k}", code == 0 and error < bound, f"code {code}, error {error:.1e}"
    )


def user_kernel(smoke: Smoke, folder: Path) -> None:
    (folder / "scale_shift.cu.j2").write_text(USER_TEMPLATE, encoding="utf-8")
    (folder / "broken.cu.j2").write_text(BROKEN_TEMPLATE, encoding="utf-8")
    broken = USER_YAML.split("kernels:\n")[1].replace("scale_shift", "broken")
    (folder / "my_kernels.yaml").write_text(USER_YAML + broken, encoding="utf-8")
    ge2rt.load_registry(folder / "my_kernels.yaml")
    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    y = np.zeros_like(x)
    source, target = smoke.upload(x), smoke.upload(y)
    code = ge2rt.launch_kernel("scale_shift", [source, target], smoke.desc(x, y, scale=3.0), 0)
    smoke.device.synchronize()
    error = float(np.abs(smoke.download(target, y) - (3 * x + 1)).max())
    smoke.check("kernel from a YAML file", code == 0 and error < 1e-6, f"error {error:.1e}")


def error_codes(smoke: Smoke) -> None:
    x = np.zeros(16, np.float32)
    at, to = smoke.upload(x), smoke.upload(x)
    good = smoke.desc(x, x)
    strange = {"buffers": [{**good["buffers"][0], "dtype": "complex64"}, good["buffers"][1]]}
    other = "cpu" if smoke.device.props.kind == "cuda" else "cuda:99"
    away = {"buffers": [{**b, "device": other} for b in good["buffers"]]}
    half = smoke.desc(np.zeros((4, 4), np.float16), np.zeros((4, 4), np.float16))
    attempts: list[tuple[str, int, Callable[[], int]]] = [
        ("unknown kernel", -1, lambda: ge2rt.launch_kernel("no_such_kernel", [at, to], good, 0)),
        ("null pointer", -1, lambda: ge2rt.launch_kernel("copy", [at, 0], good, 0)),
        ("wrong dtype", -1, lambda: ge2rt.launch_kernel("copy", [at, to], strange, 0)),
        ("missing device", -2, lambda: ge2rt.launch_kernel("copy", [at, to], away, 0)),
        ("not implemented", -3, lambda: unsupported(smoke, half)),
        ("compile error", -4, lambda: ge2rt.launch_kernel("broken", [at, to], good, 0)),
        ("out of memory", -5, lambda: code_of(lambda: smoke.device.memory.allocate(2**60))),
        ("version mismatch", -6, lambda: code_of(lambda: ge2rt.check_api_version(99, strict=True))),
        ("internal error", -7, lambda: internal(at, to, good)),
    ]
    if smoke.device.props.kind == "cuda":
        attempts = [row for row in attempts if row[0] != "missing device"]
    meanings = {int(row.status): row.meaning for row in STATUS_TABLE}
    for what, expected, attempt in attempts:
        code = attempt()
        smoke.check(f"{what} -> {expected}", code == expected, f"code {code}, {meanings[expected]}")


def unsupported(smoke: Smoke, descs: dict[str, Any]) -> int:
    """An op type for which every kernel is turned down."""
    return code_of(lambda: ge2rt.prepare("GEMM_BIAS_ACT", descs, device=smoke.device))


def internal(at: int, to: int, good: dict[str, Any]) -> int:
    """A device from outside that does not keep the contract: it loads nothing."""

    class Broken(NullDevice):
        def load(self, *_: Any, **__: Any) -> Any:
            return None

    ge2rt.register_device("broken", lambda index: Broken())
    away = {"buffers": [{**b, "device": "broken"} for b in good["buffers"]]}
    return ge2rt.launch_kernel("copy", [at, to], away, 0)


def code_of(action: Callable[[], object]) -> int:
    """The status code behind the exception that ``action`` raises."""
    try:
        action()
    except ge2rt.Ge2rtError as fault:
        return int(fault.record.code)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", choices=["cpu", "cuda", "auto"])
    device = parser.parse_args().device
    logging.getLogger("ge2rt").setLevel(logging.CRITICAL)  # the failures below are wanted
    start = time.perf_counter()
    smoke = Smoke(device)
    handshake(smoke)
    copy(smoke)
    gemm(smoke, "gemm_bias_act_f32", np.float32, 1e-5)
    if smoke.device.props.cc >= 8.0:
        gemm(smoke, "gemm_bias_act_tc_f16", np.float16, 2e-3)
    with tempfile.TemporaryDirectory() as folder:
        user_kernel(smoke, Path(folder))
        error_codes(smoke)
    print(f"{time.perf_counter() - start:.1f} s, {len(smoke.failures)} failures")
    return 1 if smoke.failures else 0


if __name__ == "__main__":
    sys.exit(main())
