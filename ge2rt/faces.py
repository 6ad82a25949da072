"""The Python faces: ``launch`` on arrays, warm-up, synchronisation, streams and events."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DType
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.text import show
from ge2rt.device.api import Device
from ge2rt.device.pointers import Operand, describe
from ge2rt.device.registry import get_device
from ge2rt.run import launch as launching
from ge2rt.run import specialize
from ge2rt.run.arguments import tunables_of
from ge2rt.run.checks import overlaps, place
from ge2rt.run.convert import with_conversions
from ge2rt.run.launch import excluded, find_kernel, plan_and_values
from ge2rt.run.plan import Plan
from ge2rt.run.select import Candidate, Choice, choose, complete, refused, require
from ge2rt.run.stub import get_stub
from ge2rt.spec.descs import desc_of
from ge2rt.spec.match import counted
from ge2rt.spec.model import Bound, BufferDesc, KernelSpec, Refusal
from ge2rt.spec.registry import default_registry


def launch(
    name: str,
    *arrays: Any,
    out: Any = None,
    stream: int | Stream = 0,
    device: str | None = None,
    exclude: Sequence[str] = (),
    tunables: Mapping[str, int] | None = None,
    **attrs: Any,
) -> Any:
    """Run a kernel on arrays and return its output(s).

    Args:
        name: a kernel, or an op type such as ``"GEMM_BIAS_ACT"`` (then the best kernel is chosen;
            where none takes the operands' dtypes, they are widened for it and the results cast
            back: see :func:`choice` for what that does, ``GE2RT_NO_CONVERT`` to forbid it).
        arrays: the inputs in declared order: NumPy, CuPy or Torch arrays, anything with
            ``__cuda_array_interface__`` or DLPack, Python scalars (they take the first array's
            dtype); None for an absent optional input.
        out: array (or tuple or list of arrays) to write into; what is None is allocated beside
            the inputs. The items of a list of buffers stand one by one, here and in ``arrays``.
        stream: 0, a raw stream, or a :class:`Stream`.
        device: where to run; by default where the inputs lie.
        exclude: kernels that may not be chosen for an op type.
        tunables: values for the kernel's tunables.
        attrs: the kernel's attributes.

    Returns the output array, or a tuple of them, with None for an optional one that is not in
    ``out``. An input that overlaps ``out`` in memory is copied
    first. Raises the exception of the status code: :class:`InvalidArgumentError`,
    :class:`InvalidTypeError`, :class:`UnsupportedError`, :class:`CompileError`,
    :class:`DeviceError`...

    """
    operands = _operands(arrays)
    left_out = excluded(exclude)
    of_op = default_registry().kernels_of(name)
    kernels = of_op or [find_kernel(name)]
    given = _given(out) if any(kernel.reads_outputs for kernel in kernels) else ()
    where = _device([*operands, *given], device)
    known = tuple(_desc(o, where) if o is not None else None for o in given)
    inputs = [_desc(o, where) if o is not None else None for o in operands]
    kernel = kernels[0]
    if of_op:
        props = where.props
        ranked = choose(of_op, inputs, attrs, props, exclude=left_out, infer=True, given=known)
        best = require(with_conversions(ranked, inputs, attrs, props, given=known))
        if best.conversions:
            place_of = {"stream": stream, "device": device}
            return _launch_converted(best, operands, out, attrs, tunables, place_of)
        kernel = best.kernel
    descs = complete(kernel, inputs, attrs, known)
    if isinstance(descs, Refusal):
        raise refused(descs, kernel.name)
    kernel = counted(kernel, descs)
    outputs = _outputs(kernel, descs[len(kernel.inputs) :], out, operands, where)
    padded = [*operands, *(None,) * (len(kernel.inputs) - len(operands)), *outputs]
    handle = _handle(stream)
    tunables = tunables_of(tunables)
    plan, pointers, values = _plan(kernel, padded, attrs, where, tunables)
    separate = _separate(plan.bound, padded, pointers)
    if separate != padded:
        plan, pointers, values = _plan(kernel, separate, attrs, where, tunables)
    plan.launch(pointers, handle, values)
    where.keep_alive([o.source for o in (*padded, *separate) if o is not None], handle)
    results = tuple(None if operand is None else operand.source for operand in outputs)
    return results[0] if len(results) == 1 else results


def choice(
    op: str, *arrays: Any, device: str | None = None, exclude: Sequence[str] = (), **attrs: Any
) -> Choice:
    """How the kernels of an op type rank for these inputs, with the reason each was turned down."""
    operands = _operands(arrays)
    where = _device(operands, device)
    descs = [_desc(o, where) if o is not None else None for o in operands]
    left_out = excluded(exclude)
    kernels, props = _kernels(op), where.props
    ranked = choose(kernels, descs, attrs, props, exclude=left_out, infer=True)
    # a kernel that is named is never converted for
    return with_conversions(ranked, descs, attrs, props) if kernels[0].name != op else ranked


def _launch_converted(
    best: Candidate, operands: Sequence[Operand | None], out: Any, attrs: Mapping[str, Any],
    tunables: Mapping[str, int] | None, where: Mapping[str, Any],
) -> Any:  # fmt: skip
    """Cast or copy what the kernel does not take as it is, run it, and cast its results back."""
    assert best.bound is not None
    before = {c.index: c.kernels.dtype for c in best.conversions if not c.result}
    after = {c.index: c.ours.dtype for c in best.conversions if c.result}

    def cast(source: Any, dtype: DType, into: Any = None) -> Any:
        if describe(source).dtype == dtype:
            return launch("copy", source, out=into, **where)
        return launch("cast", source, out=into, to=dtype.name, **where)

    arrays = [
        o if o is None else cast(o.source, before[i]) if i in before else o.source
        for i, o in enumerate(operands)
    ]
    single = not isinstance(out, (tuple, list))
    wanted = [out] if single else list(out)
    wanted += [None] * (len(best.kernel.outputs) - len(wanted))
    theirs = best.bound.descs[len(best.kernel.inputs) :]
    cast_into = [
        array is not None and desc is not None and describe(array, "out").dtype != desc.dtype
        for array, desc in zip(wanted, theirs, strict=True)
    ]
    direct = [None if late else array for array, late in zip(wanted, cast_into, strict=True)]
    given = None if all(array is None for array in direct) else tuple(direct)
    made = launch(best.kernel.name, *arrays, out=given, tunables=tunables, **where, **attrs)
    results = list(made) if isinstance(made, tuple) else [made]
    for index, late in enumerate(cast_into):
        if late:
            results[index] = cast(results[index], describe(wanted[index]).dtype, wanted[index])
        elif wanted[index] is None and index in after:
            results[index] = cast(results[index], after[index])
    return results[0] if len(results) == 1 else tuple(results)


def warmup(device: str | None = None, *, compiler: bool = True, jit: bool = True) -> None:
    """Pay the one-time costs now: imports, the registry, the compiler's start, the device.

    ``compiler=False`` leaves out what only the compilation of a kernel needs (NVRTC, Jinja),
    ``jit=False`` what only ``ge2rt.jit`` needs (the op table, the passes, fusion).
    """
    from ge2rt.build import compile as building  # late: the point of this function

    building.warmup(compiler)
    default_registry()
    get_device(device).warmup()
    get_stub()
    if jit:
        from ge2rt.jit import rehearsal  # late, too

        rehearsal.warmup(device)
    gc.collect()  # or a collection of all that was loaded falls into the first call


def synchronize(device: str | None = None) -> None:
    """Wait for all work of a device; raises the :class:`DeviceError` of a launch that faulted."""
    get_device(device).synchronize()


def clear_caches() -> None:
    """Forget plans, specialisation counts and the default registry (not the disk cache)."""
    from ge2rt.run import program_steps  # late: a launch needs no programs

    launching.clear()
    program_steps.clear()
    specialize.clear()
    default_registry.clear()


class Stream:
    """An ordered queue of launches on a device; pass it, or its ``handle``, as ``stream``."""

    def __init__(self, device: str | None = None) -> None:
        self.device: Device = get_device(device)
        self.handle = self.device.create_stream()
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"handle {self.handle:#x}"
        return f"<Stream on {self.device.name}: {state}>"

    def synchronize(self) -> None:
        """Wait until everything enqueued here is done."""
        self.device.synchronize(_handle(self))

    def close(self) -> None:
        """Give the stream back; further use is an error."""
        if not self._closed:
            self._closed = True
            self.device.destroy_stream(self.handle)
            self.handle = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Event:
    """A mark in a stream. ``record``, then ``synchronize`` or ``elapsed_ms`` to a later event."""

    def __init__(self, device: str | None = None) -> None:
        self.device: Device = get_device(device)
        self._mark: object = None

    def __repr__(self) -> str:
        state = "not recorded" if self._mark is None else "recorded"
        return f"<Event on {self.device.name}: {state}>"

    def record(self, stream: int | Stream = 0) -> None:
        """Put the mark at the end of what is enqueued now."""
        self._mark = self.device.record_event(_handle(stream))

    def synchronize(self) -> None:
        """Wait until the mark is reached."""
        self.device.wait_event(self._recorded())

    def elapsed_ms(self, later: Event) -> float:
        """Milliseconds from this mark to ``later``."""
        if not isinstance(later, Event):
            raise InvalidTypeError("not an event", argument="later", got=show(later))
        return self.device.elapsed_ms(self._recorded(), later._recorded())

    def _recorded(self) -> object:
        if self._mark is None:
            raise InvalidArgumentError("event was not recorded", next_step="call record() first")
        return self._mark


def _handle(stream: int | Stream) -> int:
    if isinstance(stream, (int, np.integer)):
        return int(stream)
    if not isinstance(stream, Stream):
        raise InvalidTypeError(
            "not a stream", argument="stream", expected="0, a handle or a ge2rt.Stream",
            got=show(stream),
        )  # fmt: skip
    if stream._closed:
        raise InvalidArgumentError("the stream is closed", argument="stream")
    return stream.handle


@dataclass(frozen=True)
class _Scalar:
    value: bool | int | float


def _operands(arrays: Sequence[Any]) -> list[Operand | None]:
    """Describe the inputs; Python scalars become 0-d arrays of the first array's dtype."""
    described: list[Operand | _Scalar | None] = []
    for index, array in enumerate(arrays):
        if array is None:
            described.append(None)
        elif type(array) in (bool, int, float):
            described.append(_Scalar(array))
        else:
            described.append(describe(array, f"arrays[{index}]"))
    dtype = next((o.dtype for o in described if isinstance(o, Operand)), None)
    return [_promote(o, dtype) if isinstance(o, _Scalar) else o for o in described]


def _promote(scalar: _Scalar, dtype: DType | None) -> Operand:
    if dtype is None:
        raise InvalidTypeError(
            "at least one input must be an array", got="only Python scalars",
            next_step="wrap one: numpy.float32(x)", detail="dtype",
        )  # fmt: skip
    if isinstance(scalar.value, float) and not dtype.is_float:
        raise InvalidTypeError(
            "a float does not fit an integer operand", expected=str(dtype), got=repr(scalar.value),
            detail="dtype", next_step="cast the array or the number",
        )  # fmt: skip
    try:
        return describe(np.array(scalar.value, dtype.numpy), "scalar")
    except OverflowError:
        raise InvalidArgumentError(
            "the number does not fit the operand's dtype", expected=str(dtype),
            got=show(scalar.value), detail="dtype",
        ) from None  # fmt: skip


def _device(operands: Sequence[Operand | None], wanted: str | None) -> Device:
    names = {o.device for o in operands if o is not None}
    if len(names) > 1:
        raise InvalidArgumentError(
            "inputs lie on different devices", got=", ".join(sorted(names)), detail="device",
            next_step="move them to one device first",
        )  # fmt: skip
    home = names.pop() if names else None
    if wanted is not None and home is not None:
        target = get_device(wanted)
        if not target.accepts(home):
            raise InvalidArgumentError(
                "inputs lie on another device", expected=target.name, got=home, detail="device"
            )
        return target
    return get_device(wanted or home)


def _kernels(op: str) -> Sequence[KernelSpec]:
    return default_registry().kernels_of(op) or [find_kernel(op)]


def _given(out: Any) -> Sequence[Operand | None]:
    """The outputs of a call, described."""
    arrays = () if out is None else out if isinstance(out, (tuple, list)) else (out,)
    return [None if a is None else describe(a, f"out[{i}]") for i, a in enumerate(arrays)]


def _desc(operand: Operand, where: Device) -> BufferDesc:
    return desc_of(operand.shape, operand.dtype, strides=operand.strides, device=where.name)


def _outputs(
    kernel: KernelSpec, descs: Sequence[BufferDesc | None], out: Any,
    operands: Sequence[Operand | None], where: Device,
) -> list[Operand | None]:  # fmt: skip
    """The outputs: those given, or fresh ones; None for an optional one that is not given."""
    if out is None:
        out = (None,) * len(kernel.outputs)
    given = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if len(given) != len(kernel.outputs):
        raise InvalidArgumentError(
            "wrong number of outputs", kernel=kernel.name, argument="out",
            expected=str(len(kernel.outputs)), got=str(len(given)),
        )  # fmt: skip
    for array, spec, desc in zip(given, kernel.outputs, descs, strict=True):
        if spec.inout and array is None and desc is not None:
            raise InvalidArgumentError(
                "this output's contents are read", kernel=kernel.name, argument=spec.name,
                detail="missing_output", next_step="give the array to be changed in `out=`",
            )  # fmt: skip
    like = next((o.source for o in operands if o is not None), None)
    filled = [
        where.empty(d.shape, d.dtype, like) if array is None and d is not None else array
        for array, d in zip(given, descs, strict=True)
    ]
    described = [
        describe(array, spec.name) if array is not None else None  # an optional one
        for array, spec in zip(filled, kernel.outputs, strict=True)
    ]
    for operand, spec in zip(described, kernel.outputs, strict=True):
        if operand is not None and operand.readonly:
            raise InvalidArgumentError(
                "output is read-only", kernel=kernel.name, argument=spec.name
            )
    return described


def _plan(
    kernel: KernelSpec, operands: Sequence[Operand | None], attrs: Mapping[str, Any],
    where: Device, tunables: Mapping[str, int] | None,
) -> tuple[Plan, list[int], Mapping[str, Any]]:  # fmt: skip
    """The plan for operands (parallel to the kernel's buffers), their addresses, and values."""
    descs = [_desc(o, where) if o is not None else None for o in operands]
    plan, values = plan_and_values(kernel, descs, attrs, where, tunables)
    return plan, place(plan.bound, [0 if o is None else o.address for o in operands]), values


def _separate(
    bound: Bound, operands: Sequence[Operand | None], pointers: Sequence[int]
) -> list[Operand | None]:
    """The operands, with a copy in place of each input that overlaps an output."""
    result = list(operands)
    for out, other in overlaps(bound, pointers):
        operand = operands[other]
        if other >= len(bound.kernel.inputs) or operand is None:
            raise InvalidArgumentError(
                "two outputs overlap in memory", kernel=bound.kernel.name,
                argument=bound.kernel.buffers[out].name,
            )  # fmt: skip
        result[other] = operand.copy()
    return result
