"""Casts and copies before a kernel, where none of an op type takes the operands as they are.

A kernel is looked at again with each dtype that it does not take widened to the narrowest that it
takes and that holds every value, and, where that is not enough, with operands laid out densely. Its
results are cast back to the dtype that the operands had. Each conversion costs :data:`COST` of the
kernel's score, and the score's parts name it. ``GE2RT_NO_CONVERT`` forbids all of it; the contract
(``launch_kernel``, ``query_capability``, ``prepare``) never converts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ge2rt.base import switches
from ge2rt.base.dtypes import DTYPES, DType
from ge2rt.base.shapes import canonical_strides
from ge2rt.device.api import DeviceProps
from ge2rt.run.select import Candidate, Choice, complete, rule_parts
from ge2rt.spec.descs import layout_strides
from ge2rt.spec.match import match
from ge2rt.spec.model import Bound, BufferDesc, BufferSpec, KernelSpec

COST = 10

Descs = Sequence["BufferDesc | None"]


@dataclass(frozen=True)
class Conversion:
    """One operand of a call: what the caller has, and what the kernel is given (or gives)."""

    argument: str
    index: int  # among the kernel's inputs, or among its outputs
    ours: BufferDesc
    kernels: BufferDesc
    result: bool  # an output: converted behind the kernel

    def __str__(self) -> str:
        first, last = (self.kernels, self.ours) if self.result else (self.ours, self.kernels)
        if first.dtype != last.dtype:
            return f"{self.argument} {first.dtype} -> {last.dtype}"
        if first.layout != last.layout:
            return f"{self.argument} {first.layout} -> {last.layout}"
        return f"{self.argument} strided -> dense"


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of ``narrow`` is one of ``wide``, of the same kind of number."""
    if wide == narrow:
        return True
    if wide.is_float and narrow.is_float:
        return wide.itemsize > narrow.itemsize
    if not (wide.is_integer and narrow.is_integer) or wide.itemsize <= narrow.itemsize:
        return False
    return wide.kind == "int" or narrow.kind == "uint"


def with_conversions(
    choice: Choice,
    inputs: Descs,
    attrs: Mapping[str, Any],
    props: DeviceProps,
    *,
    outputs: Descs | None = None,
    given: Descs = (),
    relabel: bool = False,
) -> Choice:
    """The choice, with every kernel that could run after conversions; as it is where one can now.

    ``outputs`` are those of the caller; without them they follow from the inputs, but for those
    ``given`` (see :func:`ge2rt.run.select.complete`). ``relabel`` allows other layouts by name.
    """
    if choice.chosen is not None or switches.get("GE2RT_NO_CONVERT"):
        return choice
    call = _Call(tuple(inputs), attrs, props, outputs, given, relabel)
    found = [call.converted(candidate.kernel) or candidate for candidate in choice.candidates]
    found.sort(key=lambda c: (c.bound is None, -c.score))
    return replace(choice, candidates=tuple(found))


@dataclass(frozen=True)
class _Call:
    inputs: tuple[BufferDesc | None, ...]
    attrs: Mapping[str, Any]
    props: DeviceProps
    outputs: Descs | None
    given: Descs
    relabel: bool

    def converted(self, kernel: KernelSpec) -> Candidate | None:
        """The kernel with what it takes to run it, or None."""
        if kernel.many or len(self.inputs) > len(kernel.inputs):
            return None
        missing = len(kernel.inputs) - len(self.inputs)
        inputs = (*self.inputs, *(None,) * missing)
        targets = _targets(kernel, inputs)
        if targets is None:
            return None
        pairs = list(zip(kernel.inputs, inputs, strict=True))
        cast = [_cast(d, targets.get(s.dtype)) for s, d in pairs]
        dense = [self.dense(s, d) for s, d in zip(kernel.inputs, cast, strict=True)]
        for trial in (cast, dense):
            bound = self.bound(kernel, trial, targets)
            if bound is not None:
                conversions = [*self.before(kernel, inputs, bound), *self.after(kernel, bound)]
                return _candidate(kernel, self.props, bound, conversions)
        return None

    def dense(self, spec: BufferSpec, desc: BufferDesc | None) -> BufferDesc | None:
        if desc is None:
            return None
        layout = desc.layout
        if self.relabel and layout not in spec.layouts:
            layout = next((n for n in ("NCHW", "NHWC") if n in spec.layouts), "rowmajor")
        strides = canonical_strides(desc.shape, layout_strides(desc.shape, layout))
        return replace(desc, layout=layout, strides=strides, offset=0)

    def result(
        self, spec: BufferSpec, desc: BufferDesc | None, dtype: DType | None
    ) -> BufferDesc | None:
        """What the kernel writes where the caller wants ``desc``."""
        cast = _cast(desc, dtype)
        fits = cast is None or cast.layout in spec.layouts
        return cast if fits else self.dense(spec, cast)

    def bound(
        self, kernel: KernelSpec, inputs: Descs, targets: Mapping[str, DType]
    ) -> Bound | None:
        if self.outputs is None:
            full = complete(kernel, inputs, self.attrs, self.given)
        else:
            missing = len(kernel.outputs) - len(self.outputs)
            own = zip(kernel.outputs, (*self.outputs, *(None,) * missing), strict=False)
            full = (*inputs, *[self.result(s, d, targets.get(s.dtype)) for s, d in own])
        result = match(kernel, full, self.attrs, self.props) if isinstance(full, tuple) else None
        return result if isinstance(result, Bound) else None

    def before(self, kernel: KernelSpec, inputs: Descs, bound: Bound) -> list[Conversion]:
        """Conversions of inputs."""
        pairs = zip(kernel.inputs, inputs, bound.descs, strict=False)
        return [
            Conversion(spec.name, index, ours, theirs, False)
            for index, (spec, ours, theirs) in enumerate(pairs)
            if ours is not None and theirs is not None and _differs(ours, theirs)
        ]

    def after(self, kernel: KernelSpec, bound: Bound) -> list[Conversion]:
        """Conversions of outputs: to the caller's dtypes, or to those the operands had."""
        theirs = bound.descs[len(kernel.inputs) :]
        if self.outputs is None:
            had = _common(kernel, self.inputs)
            ours = [_cast(d, had.get(s.dtype)) for s, d in zip(kernel.outputs, theirs, strict=True)]
        else:
            ours = [*self.outputs, *(None,) * (len(theirs) - len(self.outputs))]
        return [
            Conversion(spec.name, index, mine, desc, True)
            for index, (spec, mine, desc) in enumerate(
                zip(kernel.outputs, ours, theirs, strict=True)
            )
            if mine is not None and desc is not None and _differs(mine, desc)
        ]


def _candidate(
    kernel: KernelSpec, props: DeviceProps, bound: Bound, conversions: list[Conversion]
) -> Candidate | None:
    spoiled = {c.argument for c in conversions if c.result}
    if any(spec.inout and spec.name in spoiled for spec in kernel.outputs):
        return None  # it would have to be cast there and back
    costs = {str(conversion): -COST for conversion in conversions}
    parts = {**rule_parts(kernel, props, bound.names), **costs}
    return Candidate(kernel, parts, bound, conversions=tuple(conversions))


def _groups(kernel: KernelSpec, inputs: Descs) -> dict[str, set[DType]]:
    """The dtypes of the operands by what the kernel calls them: a type variable, or a dtype."""
    found: dict[str, set[DType]] = {}
    for spec, desc in zip(kernel.inputs, inputs, strict=False):
        if desc is not None and not spec.dtype.startswith("attr:"):
            found.setdefault(spec.dtype, set()).add(desc.dtype)
    return found


def _targets(kernel: KernelSpec, inputs: Descs) -> dict[str, DType] | None:
    """For each such name the narrowest dtype that the kernel takes and that holds them all."""
    targets = {}
    for name, have in _groups(kernel, inputs).items():
        allowed = [DTYPES[n] for n in kernel.types.get(name, (name,))]
        fitting = [d for d in allowed if all(holds(d, h) for h in have)]
        if not fitting:
            return None
        targets[name] = min(fitting, key=lambda d: d.itemsize)
    return targets


def _common(kernel: KernelSpec, inputs: Descs) -> dict[str, DType]:
    """For each such name the narrowest dtype at all that holds them."""
    found = {}
    for name, have in _groups(kernel, inputs).items():
        fitting = [d for d in DTYPES.values() if all(holds(d, h) for h in have)]
        found[name] = min(fitting, key=lambda d: (d not in have, d.itemsize))
    return found


def _cast(desc: BufferDesc | None, dtype: DType | None) -> BufferDesc | None:
    if desc is None or dtype is None or desc.dtype == dtype:
        return desc
    strides = canonical_strides(desc.shape, layout_strides(desc.shape, desc.layout))
    return replace(desc, dtype=dtype, strides=strides, offset=0)


def _differs(ours: BufferDesc, theirs: BufferDesc) -> bool:
    return (ours.dtype, ours.strides, ours.layout) != (theirs.dtype, theirs.strides, theirs.layout)
