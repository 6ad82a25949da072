"""Arrays of a case: seeded values, laid out as the case says, and the comparison afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.dtypes import DTYPES, DType
from ge2rt.base.shapes import canonical_strides, contiguous_strides
from ge2rt.run.cases import Case
from ge2rt.spec.expr import constant
from ge2rt.spec.match import match
from ge2rt.spec.model import Bound, BufferDesc, BufferSpec, Tolerance
from ge2rt.spec.reference import evaluate_reference

Array: TypeAlias = "np.ndarray[Any, Any]"

_GUARD = 0x4B  # bytes of memory that no view covers, and of outputs: far from 0 in every dtype
_MARGIN = 256  # guard bytes before and behind each buffer
_DEFAULT = {
    "f16": Tolerance(1e-3, 1e-3), "bf16": Tolerance(8e-3, 8e-3), "f32": Tolerance(1e-5, 1e-5),
    "f64": Tolerance(1e-12, 1e-12),
}  # fmt: skip


@dataclass(frozen=True)
class Laid:
    """A view, the memory (bytes, with guards on both sides) it lies in, and its former bytes."""

    view: Array
    memory: Array
    former: Array

    @property
    def address(self) -> int:
        """Address of the view's first element; 0 if it has none."""
        return int(self.view.__array_interface__["data"][0]) if self.view.size else 0


@dataclass(frozen=True)
class CaseArrays:
    """Buffers of a case by name, and what its outputs must hold (in the order of the outputs)."""

    case: Case
    bound: Bound
    buffers: Mapping[str, Laid]
    expected: Sequence[Array]

    @property
    def descs(self) -> tuple[BufferDesc | None, ...]:
        """Descriptors parallel to the kernel's buffers."""
        return self.bound.descs

    @property
    def pointers(self) -> list[int]:
        """Host addresses parallel to the kernel's buffers; 0 for an absent one."""
        names = (b.name for b in self.case.kernel.buffers)
        return [self.buffers[n].address if n in self.buffers else 0 for n in names]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compute."""
        return all(e.size == 0 for e in self.expected)

    def faults(self, *, guards: bool = True) -> list[str]:
        """Say what is wrong after a run; empty if all is right.

        With ``guards``, memory that no output's view covers must be as it was.
        """
        found: list[str] = []
        outputs = [b for b in self.case.kernel.outputs if b.name in self.buffers]
        for spec, expected in zip(outputs, self.expected, strict=True):
            found += _compare(self.case, spec.name, self.buffers[spec.name].view, expected)
        written = {id(self.buffers[spec.name]) for spec in outputs}
        for spec in self.case.kernel.buffers if guards else ():
            laid = self.buffers.get(spec.name)
            if laid is None or self.case.layouts[spec.name] in self.buffers:
                continue
            inside, beside = _disturbed(laid)
            if beside:
                found.append(f"{spec.name}: memory beside the {spec.role} was written")
            if inside and id(laid) not in written:
                found.append(f"{spec.name}: the input was written")
        return found


def make_arrays(case: Case) -> CaseArrays:
    """Make inputs with seeded values, outputs filled with a pattern, and the expected results."""
    rng = np.random.default_rng(case.seed)
    buffers: dict[str, Laid] = {}
    for spec in case.kernel.buffers:
        layout = case.layouts.get(spec.name)
        if layout is None:
            continue
        if layout in buffers:
            buffers[spec.name] = buffers[layout]
            continue
        dtype = DTYPES[case.dtype(spec)]
        values = None
        if spec.role == "input" or spec.inout:
            values = _values(rng, case.shapes[spec.name], dtype, _bounds(case, spec))
        buffers[spec.name] = _lay(layout, case.shapes[spec.name], dtype, values)
    names = [b.name for b in case.kernel.buffers]
    descs = [_describe(case, b, buffers[b.name]) if b.name in buffers else None
             for b in case.kernel.buffers]  # fmt: skip
    bound = match(case.kernel, descs, case.attrs)
    assert isinstance(bound, Bound), f"{case}: {bound}"
    given = [buffers[n].view.copy() if n in buffers else None for n in names]
    written = [b.name for b in case.kernel.outputs if b.name in buffers]
    outputs = [buffers[name].view for name in written]
    if case.kernel.reference is not None and any(view.size for view in outputs):
        expected = evaluate_reference(bound, given)
        for name, view, right in zip(written, outputs, expected, strict=True):
            if view.dtype == np.bool_ and case.layouts[name] not in buffers:
                view[...] = ~right  # a pattern of bytes would be no bool
        outputs = expected
    return CaseArrays(case, bound, buffers, outputs)


def _bounds(case: Case, spec: BufferSpec) -> tuple[Any, Any] | None:
    """The least value of a buffer, and what values stay below, by `cases: values:` or `within:`."""
    texts = case.kernel.cases.get("values", {}).get(spec.group or spec.name)
    limits = spec.within if texts is None else tuple(constant(text) for text in texts)
    if limits is None:
        return None
    descs = [
        BufferDesc(s, DTYPES[case.dtype(b)], canonical_strides(s, contiguous_strides(s)))
        if (s := case.shapes.get(b.name)) is not None else None
        for b in case.kernel.buffers
    ]  # fmt: skip
    bound = match(case.kernel, descs, case.attrs)
    assert isinstance(bound, Bound), f"{case}: {bound}"
    low, high = (limit.evaluate(bound.names) for limit in limits[:2])
    return low, high


def _values(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, bounds: tuple[Any, Any] | None
) -> Array:
    if bounds is not None:
        low, high = bounds
        if dtype.is_float:
            return np.asarray(rng.uniform(low, high, shape)).astype(dtype.numpy)
        return np.asarray(rng.integers(low, max(high, low + 1), shape)).astype(dtype.numpy)
    if dtype.kind == "float":
        scale = float(rng.choice([0.5, 1.0, 2.0]))
        return np.asarray(rng.standard_normal(shape) * scale).astype(dtype.numpy)
    if dtype.kind == "storage":
        raw = rng.integers(0, 256, shape, dtype=np.uint8)
        return raw.view(dtype.numpy) if shape else np.array(raw).reshape(()).view(dtype.numpy)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    limits = np.iinfo(dtype.numpy)
    full = rng.integers(limits.min, limits.max, shape, dtype=dtype.numpy, endpoint=True)
    few = rng.integers(max(-6, limits.min), 7, shape).astype(dtype.numpy)
    return np.where(rng.random(shape) < rng.choice([0.0, 0.5]), full, few).astype(dtype.numpy)


def _lay(layout: str, shape: tuple[int, ...], dtype: DType, values: Array | None) -> Laid:
    """Memory with a view of ``shape`` in it, filled with the values or with a pattern."""
    grown = shape
    if layout == "sliced" and shape:
        grown = (*shape[:-1], shape[-1] * 2 + 1)
    elif layout == "offset":
        grown = (int(np.prod(shape)) + 1,)
    elif layout == "broadcast" and shape:
        grown = (min(shape[0], 1), *shape[1:])
    elif layout == "transposed":
        grown = shape[::-1]
    size = int(np.prod(grown)) * dtype.itemsize
    # room for aligning the start to 64 bytes, as an allocation of a device would be
    room = np.full(size + 2 * _MARGIN + 64, _GUARD, dtype=np.uint8)
    memory = room[-int(room.ctypes.data) % 64 :][: size + 2 * _MARGIN]
    whole = memory[_MARGIN : _MARGIN + size].view(dtype.numpy).reshape(grown)
    if values is None and dtype.kind == "bool":
        whole[...] = False
    view = _view(layout, whole, shape)
    if values is not None:
        if layout == "broadcast" and shape:
            whole[...] = values[: grown[0]]
        else:
            view[...] = values
    return Laid(view, memory, memory.copy())


def _view(layout: str, whole: Array, shape: tuple[int, ...]) -> Array:
    view = whole
    if layout == "sliced" and shape:
        view = whole[..., 1 : 1 + 2 * shape[-1] : 2] if shape[-1] else whole[..., :0]
    elif layout == "offset":
        view = whole[1:].reshape(shape)
    elif layout == "broadcast" and shape:
        view = np.broadcast_to(whole, shape)
    elif layout == "transposed":
        view = whole.transpose()
    elif layout == "negative" and shape:
        view = whole[..., ::-1]
    return view


def _describe(case: Case, spec: Any, laid: Laid) -> BufferDesc:
    view = laid.view
    strides = tuple(
        0 if e == 1 else s // view.itemsize for e, s in zip(view.shape, view.strides, strict=True)
    )
    return BufferDesc(view.shape, DTYPES[case.dtype(spec)], strides)


def _disturbed(laid: Laid) -> tuple[bool, bool]:
    """Whether bytes inside the view, and outside of it, differ from what they were."""
    inside = np.zeros(laid.memory.shape, dtype=np.bool_)
    start = laid.address - int(laid.memory.ctypes.data)
    if laid.view.size:
        item = laid.view.itemsize
        marks = np.lib.stride_tricks.as_strided(
            inside[start:], (*laid.view.shape, item), (*laid.view.strides, 1)
        )
        marks[...] = True
    changed = laid.memory != laid.former
    return bool(changed[inside].any()), bool(changed[~inside].any())


def _compare(case: Case, name: str, got: Array, expected: Array) -> list[str]:
    if got.shape != expected.shape:
        return [f"{name}: shape {got.shape} instead of {expected.shape}"]
    spec = next(b for b in case.kernel.outputs if b.name == name)
    dtype = DTYPES[case.dtype(spec)]
    if dtype.kind == "storage":
        got, expected = got.view(np.uint8), np.array(expected).view(np.uint8)
    if not dtype.is_float:
        wrong = got != expected
    else:
        allowed = case.kernel.tolerance.get(dtype.name, _DEFAULT[dtype.name])
        x, y = got.astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            near = np.isfinite(y) & (np.abs(x - y) <= allowed.atol + allowed.rtol * np.abs(y))
        wrong = ~(near | (x == y) | (np.isnan(x) & np.isnan(y)))
    count = int(np.count_nonzero(wrong))
    if not count:
        return []
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return [
        f"{name}: {count} of {got.size} wrong, first at {at}: {got[at]} instead of {expected[at]}"
    ]
