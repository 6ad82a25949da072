"""CUDA C++ to PTX through NVRTC alone, kept for the session; needs no GPU."""

from __future__ import annotations

import functools
import site
import sys
from pathlib import Path


@functools.cache
def compile_ptx(source: str, arch: str = "compute_80", options: tuple[str, ...] = ()) -> str:
    """PTX text of ``source``; raises NVRTC's own error with the log."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "program.cu", [], [])
    flags = [f"-arch={arch}", "-std=c++17", *options, *(f"-I{path}" for path in include_dirs())]
    try:
        nvrtc.compileProgram(program, flags)
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"{error}\n{nvrtc.getProgramLog(program)}") from error
    text = nvrtc.getPTX(program)
    nvrtc.destroyProgram(program)
    return text.decode() if isinstance(text, bytes) else str(text)


def include_dirs() -> list[Path]:
    """Folders with ``cuda_fp16.h`` and its kin, from the runtime wheels."""
    roots = [Path(p) for p in {*site.getsitepackages(), *sys.path} if p]
    tails = ("nvidia/cuda_runtime/include", "nvidia/cu13/include")
    found = (root / tail for root in roots for tail in tails)
    return sorted({path for path in found if (path / "cuda_fp16.h").exists()})
