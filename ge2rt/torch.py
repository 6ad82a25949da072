"""Kernels of a registry as PyTorch operators, with their backward.

``softmax = ge2rt.torch.op("SOFTMAX")`` registers ``torch.ops.ge2rt.softmax``: shapes are known
without running it (``torch.compile``, ``FakeTensor``), gradients come from the kernel that the
entry names under ``backward:``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import UnsupportedError
from ge2rt.faces import launch
from ge2rt.spec.descs import desc_of
from ge2rt.spec.match import infer_outputs
from ge2rt.spec.model import AttrSpec, BufferDesc, KernelSpec
from ge2rt.tensors.kernel_gradients import gradients, spec_of

_TYPES = {"int": "int", "float": "float", "bool": "bool", "str": "str", "ints": "int[]",
          "dtype": "str"}  # fmt: skip


def op(op_type: str, *, optional: Sequence[str] = ()) -> Callable[..., Any]:
    """The op type as a function of torch tensors: inputs, then attributes, by position or name.

    Gives its output, or a tuple of them (of the optional ones, those named in ``optional``).
    ImportError without PyTorch 2.4 or newer; InvalidArgumentError for an unknown op type;
    UnsupportedError for kernels over lists of tensors or that write into what they are given.
    """
    return _registered(op_type, tuple(optional))


@cache
def _registered(op_type: str, optional: tuple[str, ...]) -> Callable[..., Any]:
    import torch  # late: PyTorch is the caller's

    spec = spec_of(op_type)
    if any(buffer.many or buffer.inout for buffer in spec.buffers):
        raise UnsupportedError(
            f"{op_type} takes lists of tensors or writes into them", kernel=spec.name,
            next_step="call ge2rt.launch, which takes torch tensors too",
        )  # fmt: skip
    outputs = [b.name for b in spec.outputs if not b.optional or b.name in optional]
    names = [b.name for b in spec.inputs]
    count = len(names)

    def split(args: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Tensors and attributes; PyTorch leaves out defaults at the end."""
        tensors = (*args[:count], *(None,) * (count - len(args)))
        given = zip(spec.attrs, args[count:], strict=False)
        return tensors, {name: value for name, value in given if value is not None}

    def inferred(args: Sequence[Any]) -> tuple[Any, ...]:
        """Memory for the outputs."""
        tensors, attrs = split(args)
        descs = [None if t is None else _desc(t) for t in tensors]
        return tuple(
            d and _empty(torch, d, tensors)
            for d in infer_outputs(spec, descs, attrs, optional=optional)
        )

    def forward(*args: Any) -> Any:
        tensors, attrs = split(args)
        arrays = [None if t is None else t.detach() for t in tensors]
        return _plain(launch(op_type, *arrays, out=inferred(args), **attrs))

    def fake(*args: Any) -> Any:
        return _plain(inferred(args))

    def keep(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        tensors, ctx.attrs = split(inputs)
        made = output if isinstance(output, tuple) else (output,)
        ctx.absent, ctx.count = [t is None for t in tensors], len(inputs)
        ctx.save_for_backward(*(t for t in tensors if t is not None), *made)

    def backward(ctx: Any, *cotangents: Any) -> Any:
        saved = list(ctx.saved_tensors)
        tensors = [None if absent else saved.pop(0) for absent in ctx.absent]
        slopes = [torch.zeros_like(made) if g is None else g
                  for made, g in zip(saved, cotangents, strict=True)]  # fmt: skip
        need = [bool(n) for n in ctx.needs_input_grad[:count]]
        need += [False] * (count - len(need))
        given = [ctx.attrs.get(name) for name in spec.attrs]
        found = iter(pull(tensors, saved, slopes, need, *given))
        parts = {n: next(found) for n, needed in zip(names, need, strict=True) if needed}
        return tuple(parts.get(name) for name in [*names, *spec.attrs][: ctx.count])

    def pulled(
        tensors: Any, saved: Any, cotangents: Any, need: Sequence[bool], *given: Any
    ) -> list[Any]:
        known = dict(zip(names, tensors, strict=True)) | dict(zip(outputs, saved, strict=True))
        known |= {f"g{name}": g for name, g in zip(outputs, cotangents, strict=True)}
        known = {name: t if t is None else t.detach() for name, t in known.items()}
        wanted = [n for n, needed in zip(names, need, strict=True) if needed]
        attrs = {n: v for n, v in zip(spec.attrs, given, strict=False) if v is not None}
        return gradients(spec, known, wanted, attrs, room)

    def fake_pulled(
        tensors: Any, saved: Any, cotangents: Any, need: Sequence[bool], *given: Any
    ) -> list[Any]:
        return [room(t, False) for t, needed in zip(tensors, need, strict=True) if needed]

    def room(like: Any, zeroed: bool) -> Any:
        make = torch.zeros_like if zeroed else torch.empty_like
        return make(like, memory_format=torch.contiguous_format)

    name = f"ge2rt::{'_'.join((op_type.lower(), *optional))}"
    attributes = "".join(f", {_attribute(attr)}" for attr in spec.attrs.values())
    # an operator of its own, so that a compiler does not look into it
    pull = torch.library.custom_op(
        f"{name}_gradients", pulled, mutates_args=(),
        schema="(Tensor?[] tensors, Tensor[] saved, Tensor[] cotangents, bool[] need"
        f"{attributes}) -> Tensor[]",
    )  # fmt: skip
    pull.register_fake(fake_pulled)
    made = torch.library.custom_op(
        name, forward, mutates_args=(), schema=_schema(spec, attributes, len(outputs))
    )
    made.register_fake(fake)
    if spec.backward:
        made.register_autograd(backward, setup_context=keep)
    call: Callable[..., Any] = made
    return call


def _schema(spec: KernelSpec, attributes: str, outputs: int) -> str:
    """In the language of ``torch.library``."""
    given = [f"Tensor? {b.name}=None" if b.optional else f"Tensor {b.name}" for b in spec.inputs]
    # an optional input without a default may stand before one that is needed
    last = max((n for n, b in enumerate(spec.inputs) if not b.optional), default=-1)
    given[:last] = [text.removesuffix("=None") for text in given[:last]]
    made = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    return f"({', '.join(given)}{attributes}) -> {made}"


def _attribute(attr: AttrSpec) -> str:
    """None is the default of the kernel's entry."""
    return f"{_TYPES[attr.type]}? {attr.name}=None"


def _plain(made: Any) -> Any:
    """One output, or a tuple, without those that are absent."""
    listed = made if isinstance(made, tuple) else (made,)
    found = tuple(each for each in listed if each is not None)
    return found[0] if len(found) == 1 else found


def _desc(tensor: Any) -> BufferDesc:
    shape, strides = (tuple(int(n) for n in each) for each in (tensor.shape, tensor.stride()))
    dtype = dtype_of(str(tensor.dtype).removeprefix("torch."))
    return desc_of(shape, dtype, strides=strides)


def _empty(torch: Any, desc: BufferDesc, beside: Sequence[Any]) -> Any:
    device = next(t.device for t in beside if hasattr(t, "device"))
    name = {"bool": "bool", "bf16": "bfloat16"}.get(desc.dtype.name, str(desc.dtype.numpy))
    return torch.empty(desc.shape, dtype=getattr(torch, name), device=device)
