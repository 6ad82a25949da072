"""Gradients of a kernel's call by the kernel that its entry names under ``backward:``.

Buffers are found by name: ``X`` is the forward's input or output X, ``gY`` the cotangent of its
output Y, an output ``gX`` the gradient of its input X.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.faces import launch
from ge2rt.spec.model import BufferSpec, KernelSpec
from ge2rt.spec.registry import default_registry
from ge2rt.spec.suggest import did_you_mean
from ge2rt.tensors import dispatch


def spec_of(op_type: str) -> KernelSpec:
    """The kernel that says what calls of an op type look like: the best of its kernels."""
    registry = default_registry()
    found = registry.kernels_of(op_type)
    if not found:
        raise InvalidArgumentError(
            f"no kernel of op type {op_type!r}",
            next_step=did_you_mean(op_type, registry.ops()) or "ge2rt.load_registry(path)",
        )
    return found[0]


def gradients(
    spec: KernelSpec, known: Mapping[str, Any], wanted: Sequence[str], attrs: Mapping[str, Any],
    room: Callable[[Any, bool], Any],
) -> list[Any]:  # fmt: skip
    """Gradients of the inputs ``wanted``, by name.

    ``known`` has the forward's inputs and outputs by name, and the cotangent of each output Y as
    ``gY``: tensors, or arrays of any library that :func:`ge2rt.launch` takes. ``room(like,
    zeroed)`` makes memory for a gradient. -3 where the entry has no ``backward:``, or its kernel
    needs or gives something else.
    """
    if not spec.backward:
        raise UnsupportedError(
            f"{spec.op} has no gradient", kernel=spec.name,
            next_step="name an op type by backward: in its YAML entry",
        )  # fmt: skip
    back = spec_of(spec.backward)
    arrays = [_given(back, buffer, known) for buffer in back.inputs]
    wishes = {f"g{name}": known[name] for name in wanted}
    others = {f"g{buffer.name}": known.get(buffer.name) for buffer in spec.inputs}
    made = [_room(buffer, wishes, others, room) for buffer in back.outputs]
    given = {name: value for name, value in attrs.items() if name in back.attrs}
    launch(back.op, *arrays, out=tuple(dispatch.bare(each) for each in made), **given)
    found = dict(zip([buffer.name for buffer in back.outputs], made, strict=True))
    return [_found(back, found, f"g{name}") for name in wanted]


def _found(back: KernelSpec, made: Mapping[str, Any], name: str) -> Any:
    gradient = made.get(name)
    if gradient is None:
        raise UnsupportedError(
            f"{back.op} does not give {name}", kernel=back.name,
            next_step="name it among its outputs, or detach the tensor",
        )  # fmt: skip
    return gradient


def _given(back: KernelSpec, buffer: BufferSpec, known: Mapping[str, Any]) -> Any:
    value = known.get(buffer.name)
    if value is None and not buffer.optional:
        raise UnsupportedError(
            f"{back.op} needs {buffer.name}, which the forward does not give", kernel=back.name,
            next_step="name it among the forward's outputs, without optional:",
        )  # fmt: skip
    return dispatch.bare(value)


def _room(
    buffer: BufferSpec, wishes: Mapping[str, Any], others: Mapping[str, Any],
    room: Callable[[Any, bool], Any],
) -> Any:  # fmt: skip
    """Memory for a gradient: one that is wanted, or that the kernel writes in any case."""
    leaf = wishes.get(buffer.name)
    if leaf is None:
        leaf = None if buffer.optional else others.get(buffer.name)
    return None if leaf is None else room(leaf, buffer.inout)
