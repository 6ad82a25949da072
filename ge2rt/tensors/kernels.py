"""Kernels of a registry as operators: what YAML declares is called on tensors, with its gradient.

An entry's ``backward:`` names the op type that computes gradients. Its buffers are found by name:
``X`` is the forward's input or output X, ``gY`` the cotangent of its output Y, an output ``gX`` the
gradient of its input X.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.faces import launch
from ge2rt.spec.match import infer_outputs
from ge2rt.spec.model import BufferSpec, KernelSpec
from ge2rt.spec.registry import default_registry
from ge2rt.spec.suggest import did_you_mean
from ge2rt.tensors import dispatch
from ge2rt.tensors.making import empty, zeros
from ge2rt.tensors.operators import Operator
from ge2rt.tensors.tensor import Tensor


def kernel_operator(op_type: str, *, optional: Sequence[str] = ()) -> Callable[..., Any]:
    """The op type of a kernel as a function of tensors: inputs in order, attributes by name.

    Gives its output, or a tuple of them (of the optional ones, those named in ``optional``).
    Gradients flow where an entry says ``backward:``; -3 where it does not. A ``launch`` of the same
    name takes arrays.
    """
    spec = _spec(op_type)
    names = [buffer.name for buffer in spec.inputs]
    parameters = [
        inspect.Parameter(b.name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                          default=None if b.optional else inspect.Parameter.empty)
        for b in spec.inputs
    ]  # fmt: skip
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=attr.default)
        for name, attr in spec.attrs.items()
    ]

    def function(*args: Any, **attrs: Any) -> Any:
        raise UnsupportedError(
            f"{op_type} is a kernel of the registry, which @jit cannot trace",
            next_step="call it outside of the jitted function",
        )

    made = [b.name for b in spec.outputs if not b.optional or b.name in optional]
    op = Operator(
        "+".join((op_type, *optional)), "kernel", function, inspect.Signature(parameters),
        tuple(spec.attrs), f"kernel {spec.name}",
        derive=lambda fill, wanted: _pull(spec, fill, wanted, names, made),
    )  # fmt: skip

    def run(op: Operator, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        arrays = [dispatch.bare(value) for value in args]
        out = _places(spec, args, options, optional) if optional else None
        result = launch(op_type, *arrays, out=out, **options)
        tensors = [Tensor(each) for each in _listed(result) if each is not None]
        return tensors[0] if len(tensors) == 1 else tuple(tensors)

    for kind in ("cpu", "cuda"):
        dispatch.register(kind, name=op.name)(run)

    def call(*args: Any, **attrs: Any) -> Any:
        unknown = sorted(attrs.keys() - spec.attrs.keys())
        if unknown:
            raise InvalidArgumentError(
                f"{op_type} has no attribute {unknown[0]!r}", expected=", ".join(spec.attrs),
                next_step=did_you_mean(unknown[0], spec.attrs),
            )  # fmt: skip
        given = [*args, *(None,) * (len(names) - len(args))]
        return dispatch.call(op, given, attrs)

    call.__name__ = call.__qualname__ = op.name
    call.__doc__ = f"{op_type}({', '.join(names)}): {spec.doc}"
    return call


def _spec(op_type: str) -> KernelSpec:
    registry = default_registry()
    found = registry.kernels_of(op_type)
    if not found:
        raise InvalidArgumentError(
            f"no kernel of op type {op_type!r}",
            next_step=did_you_mean(op_type, registry.ops()) or "ge2rt.load_registry(path)",
        )
    return found[0]


def _places(
    spec: KernelSpec, args: Sequence[Any], attrs: Mapping[str, Any], optional: Sequence[str]
) -> tuple[Any, ...]:
    """Arrays for the outputs, those in ``optional`` among them."""
    descs = [value.desc if isinstance(value, Tensor) else None for value in args]
    wanted = infer_outputs(spec, descs, attrs, optional=optional)
    return tuple(d and empty(d.shape, dtype=d.dtype, device=d.device).array for d in wanted)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def _pull(
    spec: KernelSpec, fill: Any, wanted: tuple[int, ...], names: Sequence[str],
    outputs: Sequence[str],
) -> Callable[..., Sequence[Tensor]]:  # fmt: skip
    """What computes gradients of one call."""

    def pull(
        leaves: Sequence[Any], saved: Sequence[Tensor], cotangents: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        if not spec.backward:
            raise UnsupportedError(
                f"{spec.op} has no gradient", kernel=spec.name,
                next_step="name an op type by backward: in its YAML entry",
            )  # fmt: skip
        back = _spec(spec.backward)
        known: dict[str, Any] = dict(zip(names, leaves, strict=False))
        known |= zip(outputs, saved, strict=False)
        known |= {f"g{name}": g for name, g in zip(outputs, cotangents, strict=False)}
        arrays = [_given(back, buffer, known) for buffer in back.inputs]
        wishes = {f"g{names[place]}": leaves[place] for place in wanted}
        others = {f"g{name}": leaf for name, leaf in zip(names, leaves, strict=False)}
        made = [_room(buffer, wishes, others) for buffer in back.outputs]
        attrs = {k: v for k, v in fill.static if k in back.attrs}
        launch(back.op, *arrays, out=tuple(dispatch.bare(each) for each in made), **attrs)
        found = dict(zip([buffer.name for buffer in back.outputs], made, strict=True))
        return [_found(back, found, f"g{names[place]}") for place in wanted]

    pull.keeps_outputs = lambda: True  # type: ignore[attr-defined]
    return pull


def _found(back: KernelSpec, made: Mapping[str, Tensor | None], name: str) -> Tensor:
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
    buffer: BufferSpec, wishes: Mapping[str, Any], others: Mapping[str, Any]
) -> Tensor | None:
    """Memory for a gradient: one that is wanted, or that the kernel writes in any case."""
    leaf = wishes.get(buffer.name)
    if leaf is None:
        leaf = None if buffer.optional else others.get(buffer.name)
    if leaf is None:
        return None
    make = zeros if buffer.inout else empty
    made: Tensor = make(leaf.shape, dtype=leaf.dtype, device=leaf.device)
    return made
