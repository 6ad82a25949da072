"""Runs a corpus program on a device: buffers with guard bytes, packed arguments, launches."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from corpus.program import VECTOR_ALIGN, Array, Data, Program, Table
from ge2rt.build.compile import compile_text
from ge2rt.build.records import Binary
from ge2rt.device.api import Device, Dim3, LaunchShape, Module

_GUARD = 256
_GUARD_BYTE = 0xC3


class Buffer:
    """A device-sized copy of an array, aligned, with guard bytes on both sides."""

    def __init__(self, array: Array) -> None:
        data = np.ascontiguousarray(array)
        self.raw = np.full(data.nbytes + 2 * _GUARD + VECTOR_ALIGN, _GUARD_BYTE, np.uint8)
        start = _GUARD + -(self.raw.ctypes.data + _GUARD) % VECTOR_ALIGN
        self.bytes = self.raw[start : start + data.nbytes]
        self.bytes[:] = data.reshape(-1).view(np.uint8)
        self.array: Array = self.bytes.view(data.dtype).reshape(data.shape)
        self.start = start

    def intact(self) -> bool:
        """Whether nothing wrote beside the array."""
        end = self.start + self.bytes.size
        outside = (self.raw[: self.start], self.raw[end:])
        return all(bool((part == _GUARD_BYTE).all()) for part in outside)


def compile_program(program: Program, arch: int) -> Binary:
    """The program's PTX for an architecture."""
    return compile_text(
        program.source, f"sm_{arch}", name=f"{program.name}.cu", options=program.options,
        names=program.names,
    )  # fmt: skip


def run(program: Program, device: Device, arch: int, before: Data) -> Data:
    """The data after all launches; ``before`` is left alone."""
    binary = compile_program(program, arch)
    module = device.load(binary.data, "ptx", binary.key.digest)
    buffers = {n: Buffer(v) for n, v in before.items() if isinstance(v, np.ndarray)}
    buffers |= {n: _pointers(v, buffers) for n, v in before.items() if isinstance(v, Table)}
    _write_symbols(program, module, before)
    for launch in program.launches:
        function = module.function(binary.lowered.get(launch.entry, launch.entry))
        shape = LaunchShape(_dim3(launch.grid), _dim3(launch.block), launch.shared)
        values = [buffers[n] if n in buffers else before.get(n) for n in launch.args.split()]
        packed = pack(values, function.param_layout)
        call = function.launcher(shape)
        for _ in range(launch.repeat):
            call(packed, 0)
    for name, buffer in buffers.items():
        assert buffer.intact(), f"{program.name}: a write beside {name}"
    return {n: buffers[n].array if n in buffers else v for n, v in before.items()}


def _pointers(table: Table, buffers: dict[str, Buffer]) -> Buffer:
    base = buffers[table.buffer].array.ctypes.data
    return Buffer(
        np.uint64(base) + np.arange(table.count, dtype=np.uint64) * np.uint64(table.stride)
    )


def _write_symbols(program: Program, module: Module, data: Data) -> None:
    for symbol, name in program.symbols.items():
        address, nbytes = module.global_address(symbol)
        content = data[name].tobytes()
        assert len(content) == nbytes, f"{program.name}: {symbol} has {nbytes} bytes"
        ctypes.memmove(address, content, nbytes)


def _dim3(extents: Sequence[int]) -> Dim3:
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def pack(values: Sequence[Any], layout: Sequence[tuple[str, int, int]]) -> bytes:
    """The parameter block: buffers as addresses, None as null, NumPy scalars, structs as bytes."""
    assert len(values) == len(layout), f"{len(layout)} parameters, {len(values)} arguments"
    block = bytearray(max((at + size for _, at, size in layout), default=0))
    for value, (kind, at, size) in zip(values, layout, strict=True):
        piece = _piece(value)
        assert len(piece) == size, f"parameter {kind} of {size} bytes, argument {value!r}"
        block[at : at + size] = piece
    return bytes(block)


def _piece(value: Any) -> bytes:
    if isinstance(value, Buffer):
        return value.array.ctypes.data.to_bytes(8, "little")
    if value is None:
        return bytes(8)
    return value if isinstance(value, bytes) else np.asarray(value).tobytes()
