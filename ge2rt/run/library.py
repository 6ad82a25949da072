"""Library kernels: products of matrices by a BLAS, with the sizes from which it is better.

They are no kernels of ``kernels.yaml``: a program names them in a step of its own kind, with the
reason why. On the cpu device ``matmul`` is the BLAS that NumPy carries, on cuda it is cuBLAS
through CuPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.base.shapes import byte_span
from ge2rt.device.api import Device
from ge2rt.fuse.products import THRESHOLDS, Verdict, choose_product
from ge2rt.fuse.program import Choices
from ge2rt.spec.model import BufferDesc

# (addresses, stream) -> None: one step of a program, made once
Call: TypeAlias = Callable[[Sequence[int], int], None]


@dataclass(frozen=True)
class LibraryKernel:
    """One library routine on one kind of device.

    ``score`` is its capability beside the kernels of ``op``, for products of the sizes of
    :mod:`ge2rt.fuse.products`. ``prepare(descs, device)`` makes the call of one step from Python.
    """

    name: str
    kind: str
    op: str
    score: int
    prepare: Callable[[Sequence[BufferDesc | None], Device], Call]
    native: bool = False  # whether native code can make the call: NumPy's loop, on host memory

    @property
    def title(self) -> str:
        """What people call the library."""
        return THRESHOLDS[self.kind].title

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What it computes with."""
        return THRESHOLDS[self.kind].dtypes

    @property
    def reason(self) -> str:
        """Why it is better than our own kernel where it is."""
        return THRESHOLDS[self.kind].reason


def find_library(name: str, kind: str) -> LibraryKernel:
    """The library kernel of that name on a kind of device."""
    found = LIBRARY.get((name, kind))
    if found is None:
        known = ", ".join(f"{n} on {k}" for n, k in LIBRARY)
        raise UnsupportedError(
            f"no library kernel {name!r} on {kind}", expected=known, detail="device",
            next_step="lower the graph with library=()",
        )  # fmt: skip
    return found


def query(op: str, kind: str) -> dict[str, int]:
    """Name -> capability score of the library kernels for an op type on a kind of device."""
    return {k.name: k.score for k in LIBRARY.values() if k.op == op and k.kind == kind}


def choices(device: Device) -> Choices:
    """What the lowering of a graph should decide by size for a device."""
    kind = device.props.kind
    found = LIBRARY.get(("matmul", kind))
    if found is None:
        return Choices(kind=kind, library=())
    return Choices(kind=kind, library=(found.name,))


def choose(
    m: int, n: int, k: int, *, batch: int = 1, dtype: str = "f32", kind: str = "cpu"
) -> Verdict:
    """Whether a library computes ``batch`` products [m, k] @ [k, n] better than our own kernel.

    The answer prints its reason; the sizes are those of :mod:`ge2rt.fuse.products`.
    """
    return choose_product(m, n, k, batch=batch, dtype=dtype, kind=kind)


# -- the BLAS that NumPy carries -----------------------------------------------------------------


class _HostMatmul:
    """``out = a @ b`` over host memory; the arrays of the last addresses are kept."""

    def __init__(self, descs: Sequence[BufferDesc | None], device: Device) -> None:
        del device
        self._descs = [desc for desc in descs if desc is not None]
        self._last: tuple[tuple[int, np.ndarray[Any, Any]], ...] = ()

    def __call__(self, addresses: Sequence[int], stream: int = 0) -> None:
        last = self._last
        if len(last) != len(addresses):
            last = ((-1, np.empty(0)),) * len(addresses)
        arrays = tuple(
            former if former[0] == address else (address, host_array(desc, address))
            for former, desc, address in zip(last, self._descs, addresses, strict=True)
        )
        self._last = arrays
        (_, a), (_, b), (_, out) = arrays
        with np.errstate(all="ignore"):  # as kernels do: the values say it
            np.matmul(a, b, out=out)


def host_array(desc: BufferDesc, address: int) -> np.ndarray[Any, Any]:
    """Host memory as an array; it keeps nothing alive."""
    item = desc.dtype.itemsize
    low, high = byte_span(desc.shape, desc.strides, item)
    memory: Any = (ctypes.c_char * (high - low)).from_address(address + low) if high > low else b""
    strides = tuple(s * item for s in desc.strides)
    array: np.ndarray[Any, Any] = np.ndarray(desc.shape, desc.dtype.numpy, memory, -low, strides)
    return array


class _CudaMatmul:
    """``out = a @ b`` by cuBLAS, enqueued on a stream."""

    def __init__(self, descs: Sequence[BufferDesc | None], device: Device) -> None:
        self._descs = [desc for desc in descs if desc is not None]
        self._device: Any = device

    def __call__(self, addresses: Sequence[int], stream: int = 0) -> None:
        with self._device.current() as cupy:
            root = cupy.root
            a, b, out = (
                _cuda_array(root, desc, address)
                for desc, address in zip(self._descs, addresses, strict=True)
            )
            with root.cuda.ExternalStream(stream):
                root.matmul(a, b, out=out)


def _cuda_array(root: Any, desc: BufferDesc, address: int) -> Any:
    """Device memory as CuPy's array; it keeps nothing alive."""
    item = desc.dtype.itemsize
    low, high = byte_span(desc.shape, desc.strides, item)
    memory = root.cuda.UnownedMemory(address + low, max(high - low, 1), None)
    return root.ndarray(
        desc.shape, desc.dtype.numpy, root.cuda.MemoryPointer(memory, -low),
        tuple(s * item for s in desc.strides),
    )  # fmt: skip


def _three(
    make: Callable[[Sequence[BufferDesc | None], Device], Call],
) -> Callable[[Sequence[BufferDesc | None], Device], Call]:
    """A maker that refuses anything but two factors and a product."""

    def prepare(descs: Sequence[BufferDesc | None], device: Device) -> Call:
        if len(descs) != 3 or any(desc is None for desc in descs):
            raise InvalidArgumentError(
                "a matmul takes two factors and one product", expected="3 views",
                got=str(len(descs)), kernel="matmul",
            )  # fmt: skip
        return make(descs, device)

    return prepare


_ROWS = (
    LibraryKernel("matmul", "cpu", "GEMM_BIAS_ACT", 90, _three(_HostMatmul), native=True),
    LibraryKernel("matmul", "cuda", "GEMM_BIAS_ACT", 90, _three(_CudaMatmul)),
)
LIBRARY = {(row.name, row.kind): row for row in _ROWS}
