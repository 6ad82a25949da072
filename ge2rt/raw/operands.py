"""The arguments of one call of a generated kernel: arrays, scalars, their common shape."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ge2rt.base.dtypes import DType
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.shapes import (
    broadcast_strides,
    byte_span,
    canonical_strides,
    collapse,
    index_bits,
    is_contiguous,
    may_self_overlap,
)
from ge2rt.device.pointers import Operand, describe
from ge2rt.raw.arguments import Placed
from ge2rt.raw.params import Spec, is_scalar
from ge2rt.raw.text import Walk
from ge2rt.run.checks import share_memory
from ge2rt.spec.descs import desc_of
from ge2rt.spec.model import BufferDesc

_SAFE_32 = 2**30  # indices below leave room for a step of the whole grid


@dataclass(frozen=True)
class Argument:
    """One argument: ``operand`` of an array, or the scalar ``value``."""

    spec: Spec
    value: Any
    operand: Operand | None

    @property
    def walked(self) -> Operand | None:
        """The array, where the kernel goes through it element by element."""
        return None if self.spec.raw else self.operand


def look_at(specs: Sequence[Spec], values: Sequence[Any], kernel: str) -> list[Argument]:
    """Describe a call's arguments, parallel to the parameters."""
    found = []
    for spec, value in zip(specs, values, strict=True):
        if is_scalar(value):
            if spec.raw:
                raise InvalidTypeError(
                    "a raw parameter takes an array", kernel=kernel, argument=spec.name,
                    got=repr(value), detail="dtype",
                )  # fmt: skip
            found.append(Argument(spec, value, None))
        else:
            try:
                found.append(Argument(spec, value, describe(value, spec.name)))
            except InvalidArgumentError as fault:
                raise fault.about(kernel=kernel, argument=spec.name) from None
    return found


def check_output(argument: Argument, shape: Sequence[int], kernel: str) -> None:
    """Refuse an output of another shape, without own memory for each element, or read-only."""
    operand = argument.operand
    if operand is None:
        raise InvalidTypeError(
            "an output is an array", kernel=kernel, argument=argument.spec.name,
            got=type(argument.value).__name__, detail="dtype",
        )  # fmt: skip
    if operand.readonly:
        raise InvalidArgumentError(
            "output is read-only", kernel=kernel, argument=argument.spec.name
        )
    if argument.spec.raw:
        return
    if tuple(operand.shape) != tuple(shape):
        raise InvalidArgumentError(
            "output has another shape", kernel=kernel, argument=argument.spec.name,
            expected=str(tuple(shape)), got=str(operand.shape), detail="shape",
        )  # fmt: skip
    if may_self_overlap(operand.shape, operand.strides):
        raise InvalidArgumentError(
            "elements of the output share memory", kernel=kernel, argument=argument.spec.name,
            got=f"strides {operand.strides}", detail="stride",
        )  # fmt: skip


def separated(
    inputs: Sequence[Argument], outputs: Sequence[Argument], *, same_allowed: bool
) -> list[Argument]:
    """The inputs, with a copy for each that shares memory with an output in another way."""
    result = []
    for argument in inputs:
        operand = argument.walked
        others = [o.operand for o in outputs if o.operand is not None]
        if operand is not None and any(
            _overlap(operand, other) and not (same_allowed and _same(operand, other))
            for other in others
        ):
            argument = Argument(argument.spec, argument.value, operand.copy())
        result.append(argument)
    return result


def _overlap(a: Operand, b: Operand) -> bool:
    low_a, high_a = _span(a)
    low_b, high_b = _span(b)
    if a.device != b.device or low_a >= high_b or low_b >= high_a:
        return False  # the usual case, without descriptors
    return share_memory(_desc(a), a.address, _desc(b), b.address)


def _span(operand: Operand) -> tuple[int, int]:
    low, high = byte_span(operand.shape, operand.strides, operand.dtype.itemsize)
    return operand.address + low, operand.address + high


def _desc(operand: Operand) -> BufferDesc:
    return desc_of(operand.shape, operand.dtype, strides=operand.strides, device=operand.device)


def _same(a: Operand, b: Operand) -> bool:
    return (
        a.address == b.address and a.shape == b.shape and a.dtype.itemsize == b.dtype.itemsize
        and canonical_strides(a.shape, a.strides) == canonical_strides(b.shape, b.strides)
    )  # fmt: skip


def make_walk(
    prefix: str, shape: Sequence[int], strides: Mapping[str, Sequence[int]], *, merge: bool = True
) -> Walk:
    """The walk through ``shape`` for operands with these strides (elements; 0 where broadcast)."""
    names = list(strides)
    if merge:
        small, steps = collapse(shape, [strides[name] for name in names])
    else:
        small, steps = tuple(shape), tuple(tuple(strides[name]) for name in names)
    by_name = dict(zip(names, steps, strict=True))
    kinds = {name: _kind(small, step) for name, step in by_name.items()}
    return Walk(prefix, small, by_name, kinds)


def _kind(shape: tuple[int, ...], strides: tuple[int, ...]) -> str:
    if not any(step for step, extent in zip(strides, shape, strict=True) if extent != 1):
        return "still"
    return "dense" if is_contiguous(shape, strides) else "strided"


def broadcast(argument: Argument, shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of an array argument seen as ``shape``."""
    operand = argument.operand
    assert operand is not None
    return broadcast_strides(operand.shape, operand.strides, shape)


def index_type(arguments: Sequence[Argument], count: int) -> str:
    """``int`` where every offset and index is far below 2**31, else ``long long``."""
    reach = [
        index_bits(o.shape, o.strides, o.dtype.itemsize)
        for o in (argument.operand for argument in arguments)
        if o is not None
    ]
    return "int" if count < _SAFE_32 and max(reach, default=32) == 32 else "long long"


def raw_shape_key(argument: Argument) -> tuple[int, bool]:
    """Rank and density of a raw array: what its C++ type depends on."""
    operand = argument.operand
    assert operand is not None
    return len(operand.shape), is_contiguous(operand.shape, operand.strides)


def raw_bytes(operand: Operand) -> bytes:
    """A raw array as the ``CArray`` that kernels take."""
    rank, item = len(operand.shape), operand.dtype.itemsize
    shape = operand.shape if rank else (1,)
    strides = [step * item for step in operand.strides] if rank else [item]
    size = 1
    for extent in operand.shape:
        size *= extent
    return struct.pack(f"<Qq{2 * max(rank, 1)}q", operand.address, size, *shape, *strides)


def placed(operand: Operand) -> Placed:
    """An array as an argument of a raw kernel."""
    return Placed(
        operand.address, operand.device, operand.dtype.numpy_name, operand.readonly,
        operand.keepalive,
    )  # fmt: skip


def fresh(shape: Sequence[int], dtype: DType, device: Any, like: Any) -> Operand:
    """A new array on ``device``, of the library of ``like``."""
    return describe(device.empty(tuple(shape), dtype, like))
