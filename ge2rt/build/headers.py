"""CUDA's headers and libraries as pip installs them, found by file names alone.

Wheels of CUDA 12 have a folder each (``nvidia/cuda_runtime/include``), those of CUDA 13 share one
(``nvidia/cu13/include``). ``CUDA_HOME`` or ``CUDA_PATH`` is the fallback.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from functools import cache

_DIST = re.compile(r"((?:nvidia_|cupy_)[a-z0-9_]+)-([0-9][^-]*)\.dist-info", re.IGNORECASE)
_STANDARD_HOME = "/usr/local/cuda"
_HEADER_FOLDERS = ("cuda_runtime", "cuda_cccl", "cuda_nvcc", "cuda_crt", "curand")

# Header (or its folder) -> wheel for CUDA 12, wheel for CUDA 13.
_WHEEL_OF: tuple[tuple[str, str, str], ...] = (
    (r"(crt/.*|mma\.h)", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-crt"),
    (r"(cuda/.*|nv/.*|cub/.*|thrust/.*)", "nvidia-cuda-cccl-cu12", "nvidia-cuda-cccl"),
    (r"curand.*", "nvidia-curand-cu12", "nvidia-curand"),
    (r"cublas.*", "nvidia-cublas-cu12", "nvidia-cublas"),
    (r"(cuda.*|cooperative_groups.*|vector_.*|device_.*|sm_.*|texture_.*|surface_.*)\.h(pp)?",
     "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime"),
)  # fmt: skip


@dataclass(frozen=True)
class Toolkit:
    """What is installed for one CUDA major version. ``versions``: wheel -> version."""

    major: int
    include_dirs: tuple[str, ...]
    library: str  # path of the NVRTC library, "" if there is none
    nvrtc: str  # its version as the wheel says it, "" if unknown
    versions: tuple[tuple[str, str], ...]

    @property
    def fingerprint(self) -> str:
        """Names and versions of all that a compilation reads."""
        return " ".join(f"{n}=={v}" for n, v in self.versions) or f"cuda{self.major} {self.library}"


@cache
def toolkit() -> Toolkit:
    """The CUDA installation to compile with; an empty one (major 0) where there is none.

    Of several, the one CuPy was built for, else the newest. Forget it by ``toolkit.cache_clear()``.
    """
    found = [t for root in _nvidia_folders() for t in _wheels_in(root)]
    found += _from_home()
    if not found:
        return Toolkit(0, (), "", "", ())
    wanted = _cupy_major() if len(found) > 1 else 0
    return max(found, key=lambda t: (bool(t.library), t.major == wanted, t.major))


def _nvidia_folders() -> list[str]:
    paths = [os.path.join(p, "nvidia") for p in sys.path if p]
    return [p for p in dict.fromkeys(paths) if os.path.isdir(p)]


def _installed(site: str) -> dict[str, str]:
    matches = (_DIST.fullmatch(name) for name in os.listdir(site))
    return {m.group(1).lower().replace("_", "-"): m.group(2) for m in matches if m}


def _cupy_major() -> int:
    for root in _nvidia_folders():
        for name in _installed(os.path.dirname(root)):
            if match := re.fullmatch(r"cupy-cuda(\d+)x", name):
                return int(match.group(1))
    return 0


def _wheels_in(root: str) -> list[Toolkit]:
    installed = _installed(os.path.dirname(root))
    result = []
    cu12 = [os.path.join(root, name) for name in _HEADER_FOLDERS]
    if library := _library(os.path.join(root, "cuda_nvrtc"), 12):
        result.append(_toolkit(12, cu12, library, installed, "-cu12"))
    for name in sorted(os.listdir(root)):
        if match := re.fullmatch(r"cu(\d+)", name):
            home, major = os.path.join(root, name), int(match.group(1))
            result.append(_toolkit(major, [home], _library(home, major), installed, ""))
    return result


def _toolkit(
    major: int, homes: list[str], library: str, installed: dict[str, str], suffix: str
) -> Toolkit:
    def ours(name: str) -> bool:
        kind = name.startswith("nvidia-") and "nvrtc" not in name
        return kind and (name.endswith(suffix) if suffix else not re.search(r"-cu\d+$", name))

    includes = [os.path.join(h, "include") for h in homes]
    includes += [os.path.join(i, "cccl") for i in includes]
    versions = tuple(sorted((n, v) for n, v in installed.items() if ours(n) and "cuda" in n))
    nvrtc = installed.get(f"nvidia-cuda-nvrtc{suffix}", "")
    present = tuple(i for i in includes if os.path.isdir(i))
    return Toolkit(major, present, library, nvrtc, versions)


def _library(home: str, major: int) -> str:
    """Path of NVRTC below a wheel's folder or a toolkit's: Linux and Windows names."""
    folders = ("lib", "lib64", "bin", os.path.join("bin", "x86_64"), os.path.join("bin", "x64"))
    for folder in folders:
        for name in (f"libnvrtc.so.{major}", f"nvrtc64_{major}0_0.dll"):
            path = os.path.join(home, folder, name)
            if os.path.isfile(path):
                return path
    return ""


def _from_home() -> list[Toolkit]:
    # the standard variables of CUDA's installer, not switches of ours
    homes = [os.environ.get(n, "") for n in ("CUDA_HOME", "CUDA_PATH")] + [_STANDARD_HOME]
    for home in homes:
        include = os.path.join(home, "include")
        if not home or not os.path.isfile(os.path.join(include, "cuda.h")):
            continue
        for major in (13, 12, 11):
            if library := _library(home, major):
                return [_toolkit(major, [home], library, {}, "")]
        return [_toolkit(0, [home], "", {}, "")]
    return []


def wheel_of(header: str) -> str:
    """The pip package that brings ``header``, or "" if it is not one of CUDA's."""
    major = toolkit().major or 12
    for pattern, cu12, cu13 in _WHEEL_OF:
        if re.fullmatch(pattern, header):
            return cu12 if major == 12 else cu13
    return ""


# What beginners include; the compiler has their functions for kernels built in.
_BUILT_IN = frozenset({
    "stdio.h", "cstdio", "iostream", "stdlib.h", "cstdlib", "math.h", "cmath", "assert.h",
    "cassert", "string.h", "cstring", "algorithm",
})  # fmt: skip

# Headers of the C++ library that CCCL has for kernels, as <cuda/std/NAME>.
_IN_CCCL = frozenset({
    "array", "atomic", "barrier", "bit", "bitset", "cfloat", "chrono", "climits", "complex",
    "concepts", "cstddef", "cstdint", "functional", "initializer_list", "iterator", "latch",
    "limits", "memory", "numeric", "optional", "ranges", "ratio", "semaphore", "span", "tuple",
    "type_traits", "utility", "variant",
})  # fmt: skip
_C_NAMES = {"stdint.h": "cstdint", "limits.h": "climits", "float.h": "cfloat",
            "stddef.h": "cstddef", "complex.h": "complex"}  # fmt: skip

# Headers of the C++ library whose contents live in the host's memory or system.
_ONLY_HOST = frozenset({
    "condition_variable", "deque", "exception", "filesystem", "forward_list", "fstream", "future",
    "iomanip", "ios", "istream", "list", "locale", "map", "mutex", "new", "ostream", "queue",
    "random", "regex", "set", "sstream", "stack", "stdexcept", "streambuf", "string",
    "string_view", "system_error", "thread", "unordered_map", "unordered_set", "valarray",
    "vector",
})  # fmt: skip


def advice(header: str, *, templated: bool) -> str:
    """The next step for a header that was not found, in a declared kernel's template or a text."""
    wheel = wheel_of(header)
    if wheel:
        return f"pip install {wheel}"
    if header in _BUILT_IN:
        return (
            "headers of the host are not there at run time, and kernels do not need this one: "
            "printf, assert and the functions of math.h are built in"
        )
    standard = f"cuda/std/{_C_NAMES.get(header, header)}"
    if standard.removeprefix("cuda/std/") in _IN_CCCL:
        return (
            f"headers of the host are not there at run time: write #include <{standard}> (of "
            f"{wheel_of(standard)}), whose names lie in cuda::std"
        )
    if header in _ONLY_HOST:
        return (
            "headers of the host's C++ library are not for kernels: give the kernel pointers and "
            "sizes, and use plain arrays or <cuda/std/array> in it"
        )
    if templated:
        return (
            'give its folder in the entry, `options: ["-I/folder"]`, or write its path from there'
        )
    return 'give its folder, options=("-I/folder",), or write its path from there'
