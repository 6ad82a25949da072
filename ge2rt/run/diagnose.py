"""What was found on this machine, row by row, with the fix for each thing missing.

``ge2rt doctor`` prints these rows; ``docs/troubleshooting.md`` has a row for each of them.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ge2rt.base import switches
from ge2rt.base.errors import Ge2rtError
from ge2rt.base.paths import cache_dir
from ge2rt.spec.suggest import did_you_mean

_HEADERS = ("cuda_fp16.h", "cuda_bf16.h", "nv/target")


@dataclass(frozen=True)
class Finding:
    """One row. ``needed`` rows make ``ge2rt doctor`` fail when they are not ``ok``."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = True


def _python() -> Finding:
    good = sys.version_info >= (3, 10)
    found = f"{platform.python_version()} on {platform.platform(terse=True)}"
    return Finding("python", good, found, "use Python 3.10 to 3.13")


def _nvrtc() -> Finding:
    from ge2rt.build import headers, nvrtc  # late, as in all probes: each loads only what it asks

    try:
        nvrtc.compiler()
    except Ge2rtError as fault:
        fix = 'pip install "ge2rt[cuda12]" (or "ge2rt[cuda13]")'
        return Finding("nvrtc", False, fault.record.message, fix)
    return Finding("nvrtc", True, f"{nvrtc.version()}, {headers.toolkit().library or 'by CuPy'}")


def _headers() -> Finding:
    from ge2rt.build import headers

    folders = headers.toolkit().include_dirs
    missing = [n for n in _HEADERS if not any((Path(f) / n).exists() for f in folders)]
    if missing:
        wheels = dict.fromkeys(headers.wheel_of(name) for name in missing)
        return Finding(
            "headers", False, f"missing {', '.join(missing)}", f"pip install {' '.join(wheels)}"
        )
    used = dict.fromkeys(f for name in _HEADERS for f in folders if (Path(f) / name).exists())
    return Finding("headers", True, f"{', '.join(_HEADERS)} in {', '.join(map(str, used))}")


def _cupy() -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    for package in ("cupy-cuda12x", "cupy-cuda13x", "cupy"):
        try:
            return Finding("cupy", True, f"{package} {version(package)}", needed=False)
        except PackageNotFoundError:
            continue
    return Finding(
        "cupy", False, "not installed", 'pip install "ge2rt[cuda12]"; only the GPU needs it',
        needed=False,
    )  # fmt: skip


def _driver() -> Finding:
    from ge2rt.device.registry import driver_version, gpu_count

    version, count = driver_version(), gpu_count()
    if not version:
        return Finding(
            "driver", False, "no NVIDIA driver: kernels run on the cpu device",
            "only a GPU needs it; GE2RT_EMULATE_CUDA=1 runs cuda calls on the CPU", needed=False,
        )  # fmt: skip
    return Finding(
        "driver", count > 0, f"CUDA {version // 1000}.{version % 1000 // 10}, GPUs: {count}",
        "make a GPU visible (CUDA_VISIBLE_DEVICES, the container's --gpus)", needed=False,
    )  # fmt: skip


def _device() -> Finding:
    from ge2rt.device.registry import get_device

    try:
        device = get_device()
    except Ge2rtError as fault:
        record = fault.record
        step = record.next_step or f"GE2RT_DEVICE can be {record.expected}, not {record.got}"
        return Finding("device", False, record.message, step)
    return Finding("device", True, f"{device.name}: {device.props.name}, {device.props.arch}")


def _llvm() -> Finding:
    from ge2rt.device.objects import host_target, llvm_version

    try:
        return Finding("llvm", True, f"llvmlite {llvm_version()}, host CPU {host_target().cpu}")
    except (ImportError, OSError) as fault:
        return Finding("llvm", False, str(fault), "pip install --force-reinstall llvmlite")
    except Ge2rtError as fault:
        return Finding("llvm", False, str(fault), fault.record.next_step)


def _cache() -> Finding:
    folder = cache_dir()
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    good = os.access(existing, os.W_OK) and existing.is_dir()
    return Finding(
        "cache", good, f"{folder}{'' if good else ' (cannot be written: memory only)'}",
        "set GE2RT_CACHE_DIR to a folder you may write", needed=False,
    )  # fmt: skip


def _switches() -> Finding:
    given = switches.given()
    unknown = sorted(given - set(switches.TABLE))
    try:
        shown = ", ".join(f"{n}={switches.get(n)}" for n in sorted(given - set(unknown)))
    except Ge2rtError as fault:
        return Finding("switches", False, str(fault), fault.record.next_step)
    if unknown:
        near = " ".join(did_you_mean(name, switches.TABLE) for name in unknown).strip()
        return Finding(
            "switches", False, f"unknown: {', '.join(unknown)}",
            near or f"known: {', '.join(switches.TABLE)}", needed=False,
        )  # fmt: skip
    return Finding("switches", True, shown or "none set")


def _registry() -> Finding:
    from ge2rt.spec.registry import default_registry

    try:
        return Finding("registry", True, f"{len(default_registry().names())} kernels")
    except Ge2rtError as fault:
        return Finding(
            "registry", False, fault.record.message, "correct the file, see `ge2rt check`"
        )


def _compile() -> Finding:
    from ge2rt.build.compile import compile_text

    code = 'extern "C" __global__ void probe(float* x) { x[threadIdx.x] += 1.0f; }\n'
    try:
        compile_text(code, arch="sm_80", kind="cubin")
    except Ge2rtError as fault:
        return Finding("compile", False, fault.record.message, fault.record.next_step)
    return Finding("compile", True, "a small kernel compiles to a cubin")


def _run() -> Finding:
    import numpy as np

    from ge2rt.device.registry import get_device
    from ge2rt.run.launch import prepare

    try:
        device = get_device("cpu")
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        desc = {"shape": [64], "dtype": "f32", "device": "cpu"}
        plan = prepare("copy", {"buffers": [desc, desc]}, device=device)
        plan.launch([x.ctypes.data, y.ctypes.data])
    except Ge2rtError as fault:
        return Finding("run", False, fault.record.message, fault.record.next_step)
    return Finding("run", bool((x == y).all()), "the copy kernel runs on the cpu device")


PROBES: tuple[Callable[[], Finding], ...] = (
    _python, _nvrtc, _headers, _llvm, _cupy, _driver, _device, _cache, _switches, _registry,
    _compile, _run,
)  # fmt: skip


def findings() -> Iterator[Finding]:
    """All rows, in order, each as soon as it is known."""
    return (probe() for probe in PROBES)
