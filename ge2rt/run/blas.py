"""The BLAS that NumPy carries, entered without Python: the inner loop of ``np.matmul``.

A generalised ufunc keeps its loops in a table of C functions (``PyUFuncObject``, part of NumPy's
C API and ABI): ``loop(char **args, npy_intp *dimensions, npy_intp *steps, void *data)``, which need
no interpreter lock. The one for a dtype multiplies by BLAS where strides allow, whichever BLAS that
is. A self-check on a small product decides whether it is used.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ge2rt.base.shapes import collapse, size_of
from ge2rt.spec.model import BufferDesc

# Offsets in PyUFuncObject: see numpy/ufuncobject.h.
_FIELDS = {"nargs": 24, "functions": 32, "data": 40, "ntypes": 48, "types": 64}
_LOOP = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
_MOST_CALLS = 256  # of one product whose batch axes do not lie evenly
_MACS_PER_US = 40_000  # of one thread: only the order of magnitude matters

# A product with few rows: BLAS first copies the whole other matrix into tiles. Row by row it is
# only read, which is better from this many elements on, up to this many rows (measured with
# OpenBLAS, 3 x 768 x 3072: 1,030 us as one product, 350 us row by row; transposed 1,470 and 360).
_LARGE_MATRIX = 400_000
_FEW_ROWS, _FEW_ROWS_TRANSPOSED = 6, 12


@dataclass(frozen=True)
class Loop:
    """A C loop and the data that goes with it."""

    address: int
    data: int


@dataclass(frozen=True)
class Product:
    """One call of the loop: dimensions, steps in bytes, and where each operand starts."""

    dimensions: tuple[int, int, int, int]  # batch, m, k, n
    steps: tuple[int, ...]  # batch steps of a, b, out; then m, k, k, n, m, n
    added: tuple[int, int, int]  # bytes

    @property
    def expected_us(self) -> int:
        """Microseconds that it may take, at least 1."""
        return max(1, size_of(self.dimensions) // _MACS_PER_US)


@cache
def matmul_loop(dtype: np.dtype[Any]) -> Loop | None:
    """The loop for a dtype, or None where it is not found or does not compute what it should."""
    ufunc = np.matmul
    if type(ufunc) is not np.ufunc or (ufunc.nin, ufunc.nout) != (2, 1):
        return None

    def word(name: str, kind: Any) -> int:
        return int(kind.from_address(id(ufunc) + _FIELDS[name]).value or 0)

    if word("nargs", ctypes.c_int32) != 3 or word("ntypes", ctypes.c_int32) != ufunc.ntypes:
        return None
    types = ctypes.string_at(word("types", ctypes.c_void_p), 3 * ufunc.ntypes)
    rows = [types[at : at + 3] for at in range(0, len(types), 3)]
    if bytes([dtype.num] * 3) not in rows:
        return None
    place = 8 * rows.index(bytes([dtype.num] * 3))
    functions, data = word("functions", ctypes.c_void_p), word("data", ctypes.c_void_p)
    loop = Loop(
        ctypes.c_void_p.from_address(functions + place).value or 0,
        (ctypes.c_void_p.from_address(data + place).value or 0) if data else 0,
    )
    return loop if loop.address and _is_right(loop, dtype) else None


def _is_right(loop: Loop, dtype: np.dtype[Any]) -> bool:
    """Whether the loop multiplies: a batch of two, one factor transposed."""
    a = (np.arange(12).reshape(2, 3, 2) - 4).astype(dtype).swapaxes(1, 2)
    b = (np.arange(24).reshape(2, 3, 4) % 7).astype(dtype)
    out = np.full((2, 2, 4), -1, dtype)
    pointers = (ctypes.c_void_p * 3)(*(x.__array_interface__["data"][0] for x in (a, b, out)))
    (sa, am, ak), (sb, bk, bn), (so, om, on) = a.strides, b.strides, out.strides
    numbers = [(2, 2, 3, 4), (sa, sb, so, am, ak, bk, bn, om, on)]
    dimensions, steps = ((ctypes.c_int64 * len(n))(*n) for n in numbers)
    _LOOP(loop.address)(pointers, dimensions, steps, loop.data)
    return np.array_equal(out, np.einsum("bmk,bkn->bmn", a, b))


def products(descs: Sequence[BufferDesc]) -> list[Product] | None:
    """The calls that make up ``out = a @ b``; None where they are too many."""
    a, b, out = descs
    shape = out.shape[:-2]
    batch, strides = collapse(shape, [desc.strides[:-2] for desc in descs])
    outer, (count, inner) = batch[:-1], (batch[-1], -1) if batch else (1, 0)
    if size_of(outer) > _MOST_CALLS:
        return None
    item = out.dtype.itemsize
    matrix = (*a.strides[-2:], *b.strides[-2:], *out.strides[-2:])
    steps = [s[inner] if batch else 0 for s in strides]
    dimensions = (count, a.shape[-2], a.shape[-1], b.shape[-1])
    if count == 1:
        dimensions, steps = _by_vectors(dimensions, matrix)
    return [
        Product(dimensions, tuple(s * item for s in (*steps, *matrix)), (at[0], at[1], at[2]))
        for at in _starts(outer, strides, item)
    ]


def _by_vectors(
    dimensions: tuple[int, int, int, int], matrix: Sequence[int]
) -> tuple[tuple[int, int, int, int], list[int]]:
    """A thin product as a batch of rows (or columns), where that is better."""
    _, m, k, n = dimensions
    a_m, _, b_k, b_n, out_m, out_n = matrix
    few_rows = _FEW_ROWS if abs(b_n) <= abs(b_k) else _FEW_ROWS_TRANSPOSED
    if 1 < m <= few_rows and k * n >= _LARGE_MATRIX:
        return (m, 1, k, n), [a_m, 0, out_m]
    if 1 < n <= _FEW_ROWS and m * k >= _LARGE_MATRIX:
        return (n, m, k, 1), [0, b_n, out_n]
    return dimensions, [0, 0, 0]


def _starts(
    outer: Sequence[int], strides: Sequence[Sequence[int]], item: int
) -> Iterator[list[int]]:
    """Byte offsets of the three operands at each index of the outer batch axes."""
    for index in itertools.product(*map(range, outer)):
        yield [item * sum(i * s for i, s in zip(index, steps, strict=False)) for steps in strides]
