"""Kernels of a registry as operators: what YAML declares, on tensors and with its gradient."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.faces import launch
from ge2rt.spec.match import infer_outputs
from ge2rt.spec.model import KernelSpec
from ge2rt.spec.suggest import did_you_mean
from ge2rt.tensors import dispatch
from ge2rt.tensors.kernel_gradients import gradients, spec_of
from ge2rt.tensors.making import empty, zeros
from ge2rt.tensors.operators import Operator
from ge2rt.tensors.tape import Step
from ge2rt.tensors.tensor import Tensor


def kernel_operator(op_type: str, *, optional: Sequence[str] = ()) -> Callable[..., Any]:
    """The op type of a kernel as a function of tensors: inputs in order, attributes by name.

    Gives its output, or a tuple of them (of the optional ones, those named in ``optional``).
    Gradients flow where an entry says ``backward:``; -3 where it does not. A ``launch`` of the same
    name takes arrays.
    """
    spec = spec_of(op_type)
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
        _enter(op, run, given)
        return dispatch.call(op, given, attrs)

    call.__name__ = call.__qualname__ = op.name
    call.__doc__ = f"{op_type}({', '.join(names)}): {spec.doc}"
    return call


def _enter(op: Operator, run: dispatch.Backend, args: Sequence[Any]) -> None:
    """Have a device from outside whose operators are compiled launch this kernel too."""
    for kind in {each.device.partition(":")[0] for each in args if isinstance(each, Tensor)}:
        rows = dispatch.BACKENDS.get((kind, "strided"), {})
        if op.name not in rows and rows.get("*") is dispatch.dense:
            dispatch.register(kind, name=op.name)(run)


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
        known: dict[str, Any] = dict(zip(names, leaves, strict=False))
        known |= zip(outputs, saved, strict=False)
        known |= {f"g{name}": g for name, g in zip(outputs, cotangents, strict=False)}
        asked = [names[place] for place in wanted]
        found = gradients(spec, known, asked, dict(fill.static), _beside)
        given = [v for v in known.values() if isinstance(v, Tensor) and v.requires_grad]
        if not (dispatch.mode.recording and given):
            return found
        step = Step(f"{spec.op} backward", given, tuple(range(len(given))), _no_more(spec))
        return [step.produced(each) for each in found]

    pull.keeps_outputs = lambda: True  # type: ignore[attr-defined]
    return pull


def _no_more(spec: KernelSpec) -> Callable[..., Sequence[Tensor]]:
    def refuse(*_: Any) -> Sequence[Tensor]:
        raise UnsupportedError(
            f"the gradient of {spec.op} has no gradient itself", kernel=spec.name,
            next_step="write the operator with NumPy's functions, or detach the gradient",
        )  # fmt: skip

    return refuse


def _beside(leaf: Tensor, zeroed: bool) -> Tensor:
    make = zeros if zeroed else empty
    made: Tensor = make(leaf.shape, dtype=leaf.dtype, device=leaf.device)
    return made
