"""The way of one operator call: overrides, autograd, device and layout, dtype, kernel.

Each layer is a table: ``BACKENDS`` by (kind of device, layout), ``GRADIENTS`` by operator, and the
types that answer for themselves (``__ge2rt_function__``). ``explain`` prints what a call meets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidTypeError, UnsupportedError
from ge2rt.device.array import DeviceArray
from ge2rt.jit.trees import flatten, parts_of, unflatten
from ge2rt.spec.suggest import did_you_mean
from ge2rt.tensors.operators import Operator, table
from ge2rt.tensors.outside import refuse_outside
from ge2rt.tensors.tensor import Tensor

Backend: TypeAlias = Callable[[Operator, Sequence[Any], Mapping[str, Any]], Any]

# (kind of device, layout) -> operator -> what runs it; "*" is for every operator
BACKENDS: dict[tuple[str, str], dict[str, Backend]] = {}


class Mode(threading.local):
    """Whether derivatives are recorded, in this thread."""

    recording: bool = True


mode = Mode()


def register(kind: str, layout: str = "strided", name: str = "*") -> Callable[[Backend], Backend]:
    """Enter the decorated function for an operator (all without a name) on a kind of device."""

    def enter(backend: Backend) -> Backend:
        BACKENDS.setdefault((kind, layout), {})[name] = backend
        return backend

    return enter


def call(op: Operator, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The operator's result, through all layers."""
    leaves = tensors_in(args, options)
    if leaves:
        refuse_outside((*args, *options.values()))
    for each in leaves:
        override = getattr(type(each), "__ge2rt_function__", None)
        if override is not None:
            answer = override(each, op, args, options)
            if answer is not NotImplemented:
                return answer
    if mode.recording:
        from ge2rt.tensors.tape import record, renew  # late: it calls back here

        renew(leaves)
        if any(each.requires_grad for each in leaves):
            return record(op, args, options)
    return run(op, args, options)


def run(op: Operator, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The result without a record."""
    return backend_of(op, tensors_in(args, options))(op, args, options)


def tensors_in(args: Sequence[Any], options: Mapping[str, Any]) -> list[Any]:
    """The tensors among arguments, also in lists; other objects with ``__ge2rt_function__`` too."""
    found = []
    for value in (*args, *options.values()):
        parts = value if isinstance(value, (list, tuple)) else (value,)
        found += [
            part for part in parts
            if isinstance(part, Tensor) or hasattr(type(part), "__ge2rt_function__")
        ]  # fmt: skip
    return found


def backend_of(op: Operator, tensors: Sequence[Tensor]) -> Backend:
    """What runs the operator on these tensors. TypeError for several devices, -3 for none."""
    homes = {tensor.device for tensor in tensors if tensor.shape}
    homes = homes or {tensor.device for tensor in tensors}
    if len(homes) > 1:
        raise InvalidTypeError(
            f"{op.name}: tensors on different devices", got=", ".join(sorted(homes)),
            next_step="move them to one device: x.to('cpu')", detail="device",
        )  # fmt: skip
    kind = homes.pop().partition(":")[0] if homes else "cpu"
    layouts = sorted({tensor.layout for tensor in tensors}, key="strided".__eq__)
    layout = layouts[0] if layouts else "strided"
    rows = BACKENDS.get((kind, layout), {})
    found = rows.get(op.name) or rows.get("*")
    if found is None:
        raise UnsupportedError(
            f"{op.name} has no implementation for {layout} tensors on {kind}",
            expected=_existing(op.name) or "nothing is registered for it", detail="device",
            next_step="convert the tensor, or register one: ge2rt.dispatch.register",
        )  # fmt: skip
    return found


def _existing(name: str) -> str:
    cells = [f"{layout} on {kind}" for (kind, layout), rows in BACKENDS.items()
             if name in rows or "*" in rows]  # fmt: skip
    return ", ".join(cells)


# -- dense tensors, by kernels --------------------------------------------------------------------
def dense(op: Operator, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Run the operator's compiled function on the tensors' arrays."""
    plain = [bare(value) for value in args]
    named = {name: _option(op, name, value) for name, value in options.items()}
    result = op.jitted(*plain, **named)
    return wrapped(result)


def bare(value: Any) -> Any:
    """Arrays in place of tensors; lists of tensors as lists of arrays."""
    if isinstance(value, Tensor):
        return value.array
    if isinstance(value, (list, tuple)):
        return type(value)(bare(each) for each in value)
    return value


def _option(op: Operator, name: str, value: Any) -> Any:
    if name == "dtype" and value is not None:
        return dtype_of(value).numpy
    if name in op.static and isinstance(value, list):
        return tuple(value)
    return bare(value)


def wrapped(result: Any) -> Any:
    """Tensors in place of arrays."""
    if isinstance(result, (np.ndarray, DeviceArray)) or hasattr(result, "__cuda_array_interface__"):
        return Tensor(result)
    if parts_of(result) is not None:
        leaves, structure, _ = flatten(result)
        return unflatten(structure, [wrapped(leaf) for leaf in leaves])
    return result


for _kind in ("cpu", "cuda"):
    register(_kind)(dense)


# -- told to people -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Explanation:
    """What a call meets in each layer; it prints well."""

    lines: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        wide = max(len(layer) for layer, _ in self.lines)
        return "\n".join(f"{layer:<{wide}}  {told}" for layer, told in self.lines)

    __repr__ = __str__


def explain(name: str, *args: Any, **options: Any) -> Explanation:
    """What ``name`` would meet in each layer, without running it."""
    return Explanation(tuple(_layers(name, args, options)))


def _layers(
    name: str, args: Sequence[Any], options: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    op = table().get(name)
    if op is None:
        yield "operator", f"{name} is none. {did_you_mean(name, table())}"
        return
    yield "operator", f"{op}: {op.meaning} ({op.kind})"
    leaves = tensors_in(args, options)
    own = [type(each).__name__ for each in leaves if hasattr(type(each), "__ge2rt_function__")]
    yield "overrides", ", ".join(own) or "none"
    wanted = [str(n) for n, each in enumerate(leaves) if each.requires_grad]
    yield "autograd", (
        "recording is off" if not mode.recording
        else f"recorded, for operands {', '.join(wanted)}" if wanted
        else "nothing requires a gradient"
    )  # fmt: skip
    try:
        backend = backend_of(op, leaves)
    except (UnsupportedError, InvalidTypeError) as fault:
        yield "device", str(fault)
        return
    homes = sorted({f"{each.layout} on {each.device}" for each in leaves})
    yield "device", f"{', '.join(homes) or 'numbers only'}: {backend.__module__}.{backend.__name__}"
    yield (
        "dtypes",
        ", ".join(f"{each.dtype.name}{list(each.shape)}" for each in leaves) or "numbers",
    )
    if backend is dense:
        yield from _kernels(op, args, options)


def _kernels(
    op: Operator, args: Sequence[Any], options: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    named = {key: _option(op, key, value) for key, value in options.items()}
    try:
        compiled = op.jitted.compile(*[bare(value) for value in args], **named)
    except (InvalidTypeError, UnsupportedError) as fault:
        yield "kernel", str(fault)
        return
    for step in compiled.built.program.steps:
        yield "kernel", str(step)
