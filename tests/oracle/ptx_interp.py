"""A plain NumPy interpreter of PTX, written from the PTX ISA manual: ``run`` and ``Oracle``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.control import CONTROL
from oracle.floating import ARITHMETIC
from oracle.loads import MEMORY
from oracle.machine import DTYPES, Machine, Program
from oracle.memory import CODE, Arena, MemoryFault, Space
from oracle.syntax import Function, Instr, Module, Var, number, parse, split_commas

Extent = int | Sequence[int]
BATCH_LANES = 8192
MAX_DEPTH = 24

__all__ = ["MemoryFault", "Oracle", "run"]


def run(ptx: str, entry: str, grid: Extent, block: Extent, args: Sequence[Any],
        shared_bytes: int = 0) -> None:  # fmt: skip
    """Launch ``entry`` once: arrays are device buffers, changed in place; scalars are values.

    Raises MemoryFault for a bad access, NotImplementedError with the text of an unknown form.
    """
    Oracle(ptx).launch(entry, grid, block, args, shared_bytes=shared_bytes)


class Oracle:
    """A loaded module; its ``.global`` variables last from launch to launch."""

    def __init__(self, ptx: str) -> None:
        self.module: Module = parse(ptx)
        self.state: dict[str, bytes] = {}

    def launch(self, entry: str, grid: Extent, block: Extent, args: Sequence[Any],
               shared_bytes: int = 0, limit: int = 2_000_000) -> None:  # fmt: skip
        """Run a grid to its end; ``limit`` bounds the instructions of one batch of blocks."""
        function = self.module.functions[entry]
        grid, block = _extent(grid), _extent(block)
        buffers: dict[int, tuple[NDArray[Any], int]] = {}
        arena = Arena()
        program = self._link(function, arena, shared_bytes)
        values = [_argument(a, arena, buffers) for a in args]
        _place_params(function, values, arena, program.addresses)
        program.globals = arena.build()
        warps = -(-int(np.prod(block)) // 32)
        per = max(1, BATCH_LANES // (32 * warps))
        total = int(np.prod(grid))
        with np.errstate(all="ignore"):
            for first in range(0, total, per):
                blocks = range(first, min(total, first + per))
                machine = Machine(program, blocks, grid, block)
                machine.run(program.starts[entry], {**ARITHMETIC, **MEMORY}, CONTROL, limit)
        self._collect(program, buffers)

    def _collect(self, program: Program, buffers: dict[int, tuple[NDArray[Any], int]]) -> None:
        memory = program.globals
        for array, address in buffers.values():
            start = address - memory.window
            content = memory.data[start : start + array.nbytes].view(array.dtype)
            if array.flags.writeable:
                array[...] = content.reshape(array.shape)
        for var in self.module.vars.values():
            if var.space == "global":
                start = program.addresses[var.name] - memory.window
                self.state[var.name] = memory.data[start : start + var.size].tobytes()

    def _link(self, entry: Function, arena: Arena, shared_bytes: int) -> Program:
        functions = [f for f in self.module.functions.values() if f.defined]
        functions = [f for f in functions if f is entry or not f.entry]
        starts: dict[str, int] = {}
        code: list[Instr] = []
        for function in functions:
            starts[function.name] = len(code)
            code += function.code
        shared, addresses = self._shared(functions, shared_bytes)
        frames = _local_frames(functions, addresses)
        formals = {f.name: (f.params, f.results) for f in functions}
        called = sum(frames[f.name] for f in functions if f is not entry)
        local = frames[entry.name] + called * MAX_DEPTH
        self._globals(functions, arena, addresses, starts)
        empty = Space("global", 0, 0)
        return Program(code, starts, addresses, empty, shared, local, frames, formals, shared_bytes)

    def _shared(self, functions: list[Function], dynamic: int) -> tuple[int, dict[str, int]]:
        variables = [*self.module.vars.values(), *(v for f in functions for v in f.vars)]
        addresses: dict[str, int] = {}
        top = 0
        for var in (v for v in variables if v.space == "shared" and v.size):
            addresses[var.name] = -(-top // var.align) * var.align
            top = addresses[var.name] + var.size
        ends = [v for v in variables if v.space == "shared" and not v.size]
        top = -(-top // 16) * 16 if dynamic else top
        for var in ends:
            addresses[var.name] = -(-top // var.align) * var.align
        start = max([top, *(addresses[v.name] for v in ends)])
        return start + dynamic, addresses

    def _globals(self, functions: list[Function], arena: Arena, addresses: dict[str, int],
                 starts: dict[str, int]) -> None:  # fmt: skip
        inner = [v for f in functions for v in f.vars if v.space in ("global", "const")]
        for var in [*self.module.vars.values(), *inner]:
            if var.space in ("global", "const"):
                content = self.state.get(var.name) or initial(var, addresses, starts)
                addresses[var.name] = arena.place(content, constant=var.space == "const")


def _extent(given: Extent) -> tuple[int, int, int]:
    sizes = (given,) if isinstance(given, int) else tuple(given)
    x, y, z = (*sizes, 1, 1)[:3]
    return int(x), int(y), int(z)


def _argument(given: Any, arena: Arena, buffers: dict[int, tuple[NDArray[Any], int]]) -> bytes:
    if given is None:
        return bytes(8)
    if isinstance(given, tuple):  # (array, byte offset): a pointer into the array
        start = int.from_bytes(_argument(given[0], arena, buffers), "little")
        return (start + given[1]).to_bytes(8, "little")
    if isinstance(given, bytes):
        return given
    if isinstance(given, np.generic):
        return given.tobytes()
    if not isinstance(given, np.ndarray) or not given.flags.c_contiguous:
        raise TypeError(f"an argument is a contiguous array, NumPy scalar or bytes, not {given!r}")
    if id(given) not in buffers:
        buffers[id(given)] = (given, arena.place(given.tobytes()))
    return buffers[id(given)][1].to_bytes(8, "little")


def _place_params(function: Function, values: list[bytes], arena: Arena,
                  addresses: dict[str, int]) -> None:  # fmt: skip
    sizes = [var.size for var in function.params]
    if sizes != [len(v) for v in values]:
        given = [len(v) for v in values]
        raise TypeError(f"{function.name} takes parameters of {sizes} bytes, got {given}")
    block = bytearray()
    offsets = []
    for var, value in zip(function.params, values, strict=True):
        block += bytes(-len(block) % var.align)
        offsets.append(len(block))
        block += value
    base = arena.place(bytes(block), constant=True)
    for var, offset in zip(function.params, offsets, strict=True):
        addresses[var.name] = base + offset


def _local_frames(functions: list[Function], addresses: dict[str, int]) -> dict[str, int]:
    frames = {}
    for function in functions:
        top = 0
        for var in (v for v in function.vars if v.space == "local"):
            addresses[var.name] = -(-top // var.align) * var.align
            top = addresses[var.name] + var.size
        frames[function.name] = -(-top // 16) * 16
    return frames


def initial(var: Var, addresses: dict[str, int], starts: dict[str, int]) -> bytes:
    """The bytes of a variable at load time: numbers, nested braces, addresses of names."""
    dtype = DTYPES[var.type]
    out = bytearray()
    for piece in split_commas(var.init.replace("{", "").replace("}", "")):
        out += _initial_item(piece, dtype, addresses, starts)
    return bytes(out[: var.size].ljust(var.size, b"\0"))


def _initial_item(piece: str, dtype: np.dtype[Any], addresses: dict[str, int],
                  starts: dict[str, int]) -> bytes:  # fmt: skip
    constant = number(piece)
    if constant is None:
        name, _, offset = piece.removeprefix("generic(").replace(")", "").partition("+")
        base = addresses.get(name.strip())
        if base is None and name.strip() in starts:
            base = CODE + 16 * starts[name.strip()]
        if base is None:
            raise NotImplementedError(f"initialiser {piece}")
        return (base + int(offset or 0)).to_bytes(dtype.itemsize, "little")
    if constant.kind == "int" and dtype.kind in "iu":
        return (int(constant.value) % (1 << (8 * dtype.itemsize))).to_bytes(
            dtype.itemsize, "little"
        )
    if constant.kind == "bits32":
        return int(constant.value).to_bytes(4, "little")
    if constant.kind == "bits64":
        return int(constant.value).to_bytes(8, "little")
    return np.array([constant.value]).astype(dtype).tobytes()
