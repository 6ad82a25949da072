"""Runs a lowered kernel straight from its object: no device, one thread."""

from __future__ import annotations

import ctypes
import functools
import struct
import uuid
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from ge2rt.build.headers import toolkit
from ge2rt.ptx import codegen
from ge2rt.ptx.lower import global_image, lower_kernel
from ge2rt.ptx.native import LowerOptions, NativeKernel
from ge2rt.ptx.parse import parse_module

_INCLUDES = ["-I" + folder for folder in toolkit().include_dirs]


@functools.cache
def ptx_of(source: str, *options: str, arch: str = "compute_80") -> str:
    """CUDA C++ to PTX by NVRTC."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "test.cu", [], [])
    try:
        nvrtc.compileProgram(program, [f"-arch={arch}", "-std=c++17", *_INCLUDES, *options])
    except nvrtc.NVRTCError as fault:
        raise AssertionError(nvrtc.getProgramLog(program)) from fault
    text = nvrtc.getPTX(program)
    return (text.decode() if isinstance(text, bytes) else text).rstrip("\0")


class Loaded:
    """A kernel in memory, ready to run."""

    def __init__(self, kernel: NativeKernel, image: Any) -> None:
        self.kernel = kernel
        codegen.host()
        builder = llvm.JITLibraryBuilder()
        builder.add_object_img(kernel.object_code)
        builder.add_current_process()
        builder.export_symbol(kernel.symbol)
        self._jit = llvm.create_lljit_compiler()
        self._tracker = builder.link(self._jit, "k" + uuid.uuid4().hex)
        address = self._tracker[kernel.symbol]
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        self.call = kind(address)
        self.globals = _aligned(len(image.image) + 256)
        self.globals[: len(image.image)] = np.frombuffer(image.image, np.uint8)
        base = self.globals.ctypes.data
        for at, to in image.relocations:
            self.globals[at : at + 8] = np.frombuffer(struct.pack("<Q", base + to), np.uint8)
        self.slots = {s.name: s for s in image.slots}

    def __call__(
        self, grid: Sequence[int], args: Sequence[Any], dynamic: int = 0, blocks: Any = None
    ) -> int:
        """Run; returns the abort word."""
        gx, gy, gz = (*grid, 1, 1)[:3]
        first, last = blocks or (0, gx * gy * gz)
        params = np.frombuffer(pack(args) + bytes(64), np.uint8).copy()
        abort = np.zeros(1, np.int32)
        arena = _aligned(self.kernel.arena_bytes + dynamic + 256)
        arena[:] = 0xA5
        launch = np.frombuffer(
            struct.pack(
                "<QQQQiiiiqq", params.ctypes.data, self.globals.ctypes.data, abort.ctypes.data, 0,
                gx, gy, gz, dynamic, gx * gy * gz, last,
            ),
            np.uint8,
        ).copy()  # fmt: skip
        self.call(launch.ctypes.data, arena.ctypes.data, first, last)
        return int(abort[0])


def _aligned(nbytes: int) -> np.ndarray:
    raw = np.zeros(nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 128
    return raw[start : start + nbytes]


def pack(args: Sequence[Any]) -> bytes:
    """Arrays as addresses, NumPy scalars and bytes as they are, naturally aligned."""
    data = bytearray()
    for arg in args:
        if isinstance(arg, np.ndarray):
            piece, align = struct.pack("<Q", arg.ctypes.data), 8
        elif arg is None:
            piece, align = bytes(8), 8
        elif isinstance(arg, bytes):
            piece, align = arg, 8
        else:
            piece = np.asarray(arg).tobytes()
            align = len(piece)
        data.extend(bytes(-len(data) % align))
        data.extend(piece)
    return bytes(data)


def load(ptx: str, entry: str, block: Sequence[int], lanes: int = 32, **options: Any) -> Loaded:
    """Parse, lower and load."""
    module = parse_module(ptx)
    shape = (*block, 1, 1)[:3]
    chosen = LowerOptions(block=shape, lanes=lanes, **options)
    return Loaded(lower_kernel(module, entry, chosen), global_image(module))


def run(
    ptx: str, entry: str, grid: Sequence[int], block: Sequence[int], args: Sequence[Any],
    lanes: int = 32, dynamic: int = 0,
) -> int:  # fmt: skip
    """Lower, load and run once; arrays are changed in place. Returns the abort word."""
    return load(ptx, entry, block, lanes)(grid, args, dynamic)
