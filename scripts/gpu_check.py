"""Everything that wants a GPU: all cases on it, both devices compared, timings, one JSON file.

Usage: python scripts/gpu_check.py [--full] [--kernel NAME] [--json FILE]

On a machine without a GPU it says so, checks the GPU code statically (``scripts/static_check.py``)
and exits with 0 if that is right.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import static_check

import ge2rt
from ge2rt.base.errors import Ge2rtError
from ge2rt.device.api import Device
from ge2rt.device.registry import driver_version, get_device, gpu_count
from ge2rt.run.case_arrays import CaseArrays, make_arrays
from ge2rt.run.cases import Case, cases_for
from ge2rt.run.check import execute
from ge2rt.run.select import explain
from ge2rt.spec.match import match
from ge2rt.spec.model import Refusal, Tolerance
from ge2rt.spec.registry import default_registry

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
ROUNDS = 9


@dataclass(frozen=True)
class Compared:
    """One case on both devices."""

    case: str
    faults: tuple[str, ...] = ()
    turned_down: str = ""
    equal: bool = False  # bit for bit
    difference: float = 0.0  # largest absolute


def compare(case: Case, gpu: Device, cpu: Device) -> Compared:
    """Run a case on both devices; compare each with the reference, and both with each other."""
    arrays = {device.name: make_arrays(case) for device in (gpu, cpu)}
    for device in (gpu, cpu):
        bound = match(case.kernel, arrays[device.name].descs, case.attrs, device.props)
        if isinstance(bound, Refusal):
            return Compared(str(case), turned_down=f"{device.name}: {explain(bound)}")
    faults: list[str] = []
    for device in (gpu, cpu):
        try:
            execute(arrays[device.name], device)
        except Ge2rtError as fault:
            return Compared(str(case), (f"{device.name}: {fault}",))
        faults += [f"{device.name}: {text}" for text in arrays[device.name].faults()]
    equal, difference, apart = _between(arrays[gpu.name], arrays[cpu.name])
    return Compared(str(case), (*faults, *apart), "", equal, difference)


def _between(first: CaseArrays, second: CaseArrays) -> tuple[bool, float, list[str]]:
    """Whether outputs are equal bit for bit, how far apart they are, and where too far."""
    equal, most, apart = True, 0.0, []
    for spec in first.case.kernel.outputs:
        if spec.name not in first.buffers:
            continue
        a, b = first.buffers[spec.name].view, second.buffers[spec.name].view
        equal = equal and a.tobytes() == b.tobytes()
        if a.dtype.kind in "biu" or not a.size:
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            far = np.abs(x - y)
        most = max(most, float(np.nanmax(far, initial=0.0, where=np.isfinite(far))))
        allowed = first.case.kernel.tolerance.get(first.case.dtype(spec), Tolerance(1e-3, 1e-3))
        if not np.allclose(x, y, 2 * allowed.rtol, 2 * allowed.atol, equal_nan=True):
            apart.append(f"{spec.name}: the devices differ by {most:.3g}")
    return equal, most, apart


def check_cases(gpu: Device, names: list[str], full: bool) -> list[Compared]:
    """All cases of all kernels, with a line a kernel and one a fault."""
    cpu, everything = get_device("cpu"), []
    for name in names:
        start = time.perf_counter()
        results = [compare(c, gpu, cpu) for c in cases_for(default_registry().get(name), full)]
        good = sum(1 for r in results if not r.faults and not r.turned_down)
        equal = sum(1 for r in results if r.equal)
        print(f"  {name:<24} {good:>4} of {len(results):>4} good, {equal:>4} equal bit for bit, "
              f"{time.perf_counter() - start:.1f} s")  # fmt: skip
        for result in results:
            for fault in result.faults:
                print(f"    FAIL {result.case}: {fault}")
        everything += results
    return everything


@dataclass(frozen=True)
class Bench:
    """A timed call. ``peer`` is ``copy`` (device memory copy of as many bytes) or ``cublas``."""

    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    peer: str
    bar: float  # of the peer's speed
    attrs: Mapping[str, Any] = field(default_factory=dict)


_GEMMS = ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192, 1024, 4096), (1000, 777, 333))
BENCHES = (
    *(Bench("gemm_bias_act_f32", ((m, k), (k, n)), "f32", "cublas", 0.85) for m, n, k in _GEMMS),
    *(Bench("gemm_bias_act_tc_f16", ((m, k), (k, n)), "f16", "cublas", 0.8) for m, n, k in _GEMMS),
    *(Bench("copy", (s,), d, "copy", 0.85)
      for s in ((1 << 20,), (1 << 26,), (8192, 8192)) for d in ("f32", "f16")),
    *(Bench("elementwise_unary", ((n,),), "f32", "copy", 0.85, {"op": "gelu"})
      for n in (1 << 20, 1 << 24, 1 << 26)),
    *(Bench("elementwise_binary", ((n,), (n,)), "f32", "copy", 0.85, {"op": "add"})
      for n in (1 << 24, 1 << 26)),
    *(Bench("reduce", (s,), "f32", "copy", 0.85, {"op": "sum", **a})
      for s, a in (((1 << 26,), {}), ((8192, 8192), {"axes": [1]}), ((8192, 8192), {"axes": [0]}))),
    *(Bench(name, ((rows, columns),), "f32", "copy", 0.85)
      for name in ("softmax", "layernorm", "rmsnorm")
      for rows, columns in ((4096, 1024), (32768, 1024), (8192, 8192))),
)  # fmt: skip


def run_bench(bench: Bench, gpu: Device, cupy: Any) -> dict[str, Any]:
    """Median seconds of ours and of the peer, taken in turns, by GPU events."""
    dtype = {"f32": np.float32, "f16": np.float16}[bench.dtype]
    inputs = [cupy.random.random(shape, dtype=np.float32).astype(dtype) for shape in bench.shapes]
    out = ge2rt.launch(bench.kernel, *inputs, **bench.attrs)
    arrays = [*inputs, out]
    names = {"float32": "f32", "float16": "f16"}
    descs = {
        "buffers": [
            {"shape": a.shape, "dtype": names[a.dtype.name], "device": gpu.name} for a in arrays
        ],
        "attrs": dict(bench.attrs),
    }
    plan, pointers = ge2rt.prepare(bench.kernel, descs), [a.data.ptr for a in arrays]
    moved = sum(a.nbytes for a in arrays)
    actions = {"ge2rt": lambda: plan(pointers), bench.peer: _peer(bench, inputs, out, moved, cupy)}
    times = _interleave(actions, gpu)
    ratio = times[bench.peer] / times["ge2rt"]
    product = bench.peer == "cublas"
    flops = 2 * out.size * inputs[0].shape[1] if product else 0
    return {
        **asdict(bench), "seconds": times["ge2rt"], "peer_seconds": times[bench.peer],
        "ratio": ratio, "met": ratio >= bench.bar, "gbytes_per_s": moved / times["ge2rt"] / 1e9,
        "tflops": flops / times["ge2rt"] / 1e12,
    }  # fmt: skip


def _peer(bench: Bench, inputs: list[Any], out: Any, moved: int, cupy: Any) -> Callable[[], object]:
    if bench.peer == "cublas":
        return lambda: cupy.matmul(inputs[0], inputs[1], out=out)
    # a copy reads and writes: half as many bytes make the same traffic
    source, target = cupy.empty(moved // 2, np.uint8), cupy.empty(moved // 2, np.uint8)
    return lambda: cupy.copyto(target, source)


def _interleave(actions: Mapping[str, Callable[[], object]], gpu: Device) -> dict[str, float]:
    counts = {}
    for name, action in actions.items():
        action()
        once = max(_time(action, 3, gpu), 1e-6)
        counts[name] = min(max(int(0.02 / once), 3), 2000)
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(ROUNDS):
        for name, action in actions.items():
            times[name].append(_time(action, counts[name], gpu))
    return {name: statistics.median(values) for name, values in times.items()}


def _time(action: Callable[[], object], count: int, gpu: Device) -> float:
    start = gpu.record_event(0)
    for _ in range(count):
        action()
    return gpu.elapsed_ms(start, gpu.record_event(0)) / 1e3 / count


def run_benches(gpu: Device, names: list[str]) -> list[dict[str, Any]]:
    """All timings as a table."""
    import cupy

    rows = []
    for bench in (b for b in BENCHES if b.kernel in names):
        row = run_bench(bench, gpu, cupy)
        rows.append(row)
        call = ", ".join("x".join(map(str, shape)) for shape in bench.shapes)
        tera, giga = row["tflops"], row["gbytes_per_s"]
        rate = f"{tera:7.1f} TF/s" if tera else f"{giga:7.0f} GB/s"
        print(
            f"  {bench.kernel:<22} {bench.dtype} {call:<24} {row['seconds'] * 1e6:>9.1f} us {rate}"
            f"  {row['ratio']:.2f}x {bench.peer}, bar {bench.bar}{'' if row['met'] else ' MISSED'}"
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the whole grid of cases")
    parser.add_argument("--kernel", action="append", default=[], help="only these kernels")
    parser.add_argument("--json", type=Path, default=RESULTS / "gpu_check.json")
    given = parser.parse_args()
    names = given.kernel or default_registry().names()
    result: dict[str, Any] = {
        "ge2rt": ge2rt.__version__, "python": platform.python_version(),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "gpu": None,
    }  # fmt: skip
    faults = 0
    if gpu_count():
        gpu = get_device("cuda")
        result |= {"gpu": asdict(gpu.props), "driver": driver_version()}
        print(f"{gpu.props.name}, {gpu.props.arch}, driver for CUDA {driver_version()}")
        compared = check_cases(gpu, names, given.full)
        faults += sum(1 for c in compared if c.faults)
        result["cases"] = [asdict(c) for c in compared]
        result["timings"] = run_benches(gpu, names)
    else:
        print("no GPU here: nothing is run, the code for GPUs is checked statically")
    rows, bad = static_check.report(static_check.ARCHES)
    result["static"] = rows
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(result, indent=1, default=str) + "\n", encoding="utf-8")
    print(f"{faults + bad} faults; {given.json}")
    return 1 if faults + bad else 0


if __name__ == "__main__":
    sys.exit(main())
