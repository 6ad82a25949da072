"""Generated kernels as declarations: the text of a region becomes attributes of a template.

A declaration depends on structure, dtypes and ranks only, never on extents, and its name tells its
content: equal layers share one kernel, and another process finds it on disk.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.locks import ForkLock
from ge2rt.fuse.body import FREE, Input, Output, Writer
from ge2rt.fuse.expression import HALVES, calc_type
from ge2rt.spec import expr
from ge2rt.spec.expr import Expression
from ge2rt.spec.model import AttrSpec, BufferSpec, IterateSpec, KernelSpec, LaunchSpec

FAULT = "fault"
_HELPERS = frozenset({"as_f16", "as_bf16", "floor_divide", "floor_modulo", "power", "index_inside"})
_WORD = re.compile(r"[A-Za-z_]\w*")
_THREADS = 256

_specs: dict[str, KernelSpec] = {}
_lock = ForkLock()


def clear() -> None:
    """Forget the declarations made so far."""
    with _lock:
        _specs.clear()


@lru_cache(maxsize=256)
def _parsed(text: str) -> Expression:
    return expr.parse(text)


@dataclass(frozen=True)
class Form:
    """What kernels of one template have in common: spaces, tunables and geometry, as text."""

    name: str
    template: str
    tunables: Mapping[str, tuple[int, ...]]
    prefer: Mapping[str, str]
    grid: tuple[str, ...]
    block: tuple[str, ...] = (str(_THREADS),)


# As for the shipped elementwise kernels; {size} is the widest item in bytes.
POINTWISE = Form(
    name="fused_pointwise",
    template="fused_pointwise.cu.j2",
    tunables={"ITEMS": (1, 2, 4, 8, 16), "WIDE": (0, 1), "ROWS": (0, 1)},
    prefer={
        "ITEMS": "1 if it_size < 1024 else 4 if kind == 'cpu' or it_size < 65536 "
        "else max(16 // {size}, 4)",
        "WIDE": "0 if kind == 'cpu' else 1",
        "ROWS": "1 if it_rank > 1 and it_shape[-1] >= 16 else 0",
    },
    grid=(
        "ceildiv(it_size // it_shape[-1] * ceildiv(it_shape[-1], 32 * ITEMS), 8) "
        "if ROWS and it_rank > 1 else ceildiv(it_size, 256 * ITEMS)",
    ),
)


def pointwise_spec(writer: Writer) -> KernelSpec:
    """The kernel of a region without reductions."""
    roots = [output.value for output in writer.outputs]
    lines = writer.all_statements(roots)
    lines += [store_text(writer, output) for output in writer.outputs]
    walked = [i.name for i in inputs_of(writer) if i.kind != FREE]
    written = [output.name for output in writer.outputs]
    space = IterateSpec("it", (*walked, *written), whole=writer.operands.coords)
    texts = {"body": "\n".join(lines)}
    return make_spec(writer, POINTWISE, texts, (space,), {})


def store_text(writer: Writer, output: Output) -> str:
    """Sets an output's value."""
    value = writer.name(output.value)
    dtype = output.node.dtype
    text = f"static_cast<{DTYPES[dtype].ctype}>({value})" if dtype in HALVES else value
    return f"{output.name}_value = {text};"


def inputs_of(writer: Writer) -> list[Input]:
    """The kernel's inputs in order."""
    return list(writer.operands.inputs.values())


def make_spec(
    writer: Writer, form: Form, texts: Mapping[str, Any], spaces: Sequence[IterateSpec],
    shown: Mapping[str, Any],
) -> KernelSpec:  # fmt: skip
    """The declaration for a written region; the same object for the same structure.

    ``texts`` and ``shown`` become attributes that the template reads.
    """
    inputs = inputs_of(writer)
    words = set(_WORD.findall(repr(texts)))
    halves = {dtype for dtype in HALVES if words & {DTYPES[dtype].ctype, HALVES[dtype]}}
    types = {calc_type(v.dtype) for v in writer.region.values}
    fixed: dict[str, Any] = {
        **texts, **shown,
        "walked": tuple(i.name for i in inputs if i.kind != FREE),
        "free": tuple(i.name for i in inputs if i.kind == FREE),
        "written": tuple(output.name for output in writer.outputs),
        "coords": writer.operands.coords,
        "sized": tuple(writer.operands.sized.values()),
        "uses": tuple(sorted(words & _HELPERS | types & {"float", "double"})),
    }  # fmt: skip
    attrs = {name: AttrSpec(name, "str", default=value) for name, value in fixed.items()}
    attrs |= {f"has_{h}": AttrSpec(f"has_{h}", "dtype", default=h) for h in sorted(halves)}
    for scalar in writer.operands.scalars.values():
        kind = "float" if DTYPES[scalar.dtype].is_float else "int"
        attrs[scalar.name] = AttrSpec(scalar.name, kind, required=True, runtime=True)
    for name in writer.operands.sized.values():
        attrs[name] = AttrSpec(name, "int", required=True, runtime=True, sized=True)
    sizes = [DTYPES[b.dtype].itemsize for b in _buffers(writer) if b.name != FAULT]
    prefer = {k: t.replace("{size}", str(max(sizes))) for k, t in form.prefer.items()}
    spec = KernelSpec(
        name=form.name, op="FUSED", template=form.template, score=0,
        inputs=tuple(b for b in _buffers(writer) if b.role == "input"),
        outputs=tuple(b for b in _buffers(writer) if b.role == "output"),
        launch=LaunchSpec(
            tuple(_parsed(text) for text in form.grid), tuple(_parsed(text) for text in form.block)
        ),
        attrs=attrs, iterate=tuple(spaces), tunables=form.tunables,
        prefer=tuple((name, _parsed(text)) for name, text in prefer.items()),
        doc="generated for a graph",
    )  # fmt: skip
    return named(spec)


def named(spec: KernelSpec) -> KernelSpec:
    """The declaration under a name that tells its content; equal ones are one object."""
    shown = (
        spec.template, spec.inputs, spec.outputs, sorted(spec.attrs.items()),
        [(i.name, i.over, str(i.axes), i.whole) for i in spec.iterate],
        [(name, str(text)) for name, text in spec.prefer], spec.launch,
    )  # fmt: skip
    digest = hashlib.sha256(_repr(shown).encode("utf-8")).hexdigest()[:12]
    name = f"{spec.name}_{digest}"
    with _lock:
        return _specs.setdefault(name, replace(spec, name=name))


def _repr(value: Any) -> str:
    """A repr that is the same in every process: expressions by their text."""
    return re.sub(r"tree=<[^>]*>", "", repr(value))


def _buffers(writer: Writer) -> list[BufferSpec]:
    """Inputs, outputs and the fault flag."""
    found = []
    for given in inputs_of(writer):
        star = given.name.upper() if given.kind == FREE else "R" if given.on_row else "S"
        found.append(BufferSpec(given.name, "input", given.source.dtype, pattern=(f"*{star}",)))
    for output in writer.outputs:
        star = "R" if output.on_row else "S"
        found.append(BufferSpec(output.name, "output", output.node.dtype, pattern=(f"*{star}",)))
    if writer.operands.fault:
        found.append(BufferSpec(FAULT, "output", "i32", pattern=(1,)))
    return found
