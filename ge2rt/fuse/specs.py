"""Generated kernels as declarations: the text of a region becomes attributes of a template.

A declaration depends on structure, dtypes and ranks only, never on extents, and its name tells its
content: equal layers share one kernel, and another process finds it on disk.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.locks import ForkLock
from ge2rt.fuse import reductions
from ge2rt.fuse.body import FREE, Input, Writer
from ge2rt.fuse.expression import HALVES, calc_type
from ge2rt.fuse.values import LONG
from ge2rt.spec.expr import checked
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


@dataclass(frozen=True)
class Form:
    """What kernels of one template have in common: spaces, tunables and geometry, as text."""

    name: str
    template: str
    tunables: Mapping[str, tuple[int, ...]]
    prefer: Mapping[str, str]
    grid: tuple[str, ...]
    block: tuple[str, ...] = (str(_THREADS),)


# As for the shipped elementwise kernels; {size} is the widest item in bytes, {host} the points of a
# lane on a CPU: 1 where each is much code.
POINTWISE = Form(
    name="fused_pointwise",
    template="fused_pointwise.cu.j2",
    tunables={"ITEMS": (1, 2, 4, 8, 16), "WIDE": (0, 1), "ROWS": (0, 1)},
    prefer={
        "ITEMS": "1 if it_size < 1024 else {host} if kind == 'cpu' or it_size < 65536 "
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
    lines += [reductions.store_line(writer, output) for output in writer.outputs]
    walked = [i.name for i in inputs_of(writer) if i.kind != FREE]
    written = [output.name for output in writer.outputs]
    space = IterateSpec("it", (*walked, *written), whole=writer.operands.coords)
    texts = {"body": "\n".join(lines)}
    return make_spec(writer, POINTWISE, texts, (space,), {})


# As for the shipped softmax and layernorm; {lead} is an operand with an element at every point.
ROWS = Form(
    name="fused_rows",
    template="fused_rows.cu.j2",
    tunables={"GROUP": (32, 1, 256), "ITEMS": (8, 1, 2, 4, 16, 32), "WIDE": (0, 1)},
    prefer={
        "GROUP": "1 if columns_rank > 0 and columns_strides['{lead}'][-1] != 1 and rows_size >= 256"
        " else 256 if kind != 'cpu' and columns_size > 1024 else 32",
        "ITEMS": "clamp(next_pow2(ceildiv(columns_size, GROUP)), 1, "
        "{host} if kind == 'cpu' else 32)",
        "WIDE": "0 if kind == 'cpu' else 1",
    },
    grid=("ceildiv(rows_size, 256 // GROUP)",),
)
# As for the shipped reductions; {items} falls with the work at each point, {width} is the bytes of
# an element of {lead}, {most} the columns whose sums fit into shared memory.
REDUCE = Form(
    name="fused_reduce",
    template="fused_reduce.cu.j2",
    tunables={
        "COLUMNS": (0, 1, 2, 4, 8, 16), "GROUP": (32, 256), "SPLIT": (8, 1),
        "ITEMS": (8, 4, 2, 16, 1),
        "WIDE": (0, 1),
    },
    prefer={
        # on a CPU a strip as wide as a row of outputs reads memory from end to end
        "COLUMNS": "0 if out_rank == 0 or out_strides['{lead}'][-1] != 1 or out_shape[-1] < 16 "
        "else min(next_pow2(ceildiv(out_shape[-1], 32)) if out_shape[-1] <= 512 "
        "else 8 if {width} <= 2 else 4, {most}) if kind == 'cpu' "
        "else min(4 if out_size >= 4096 else 1, {most})",
        "GROUP": "256 if out_size < 1024 and red_size >= 4096 else 32",
        "SPLIT": "8 if red_size >= 64 else 1",
        "ITEMS": "{items} if red_size >= 256 else 1",
        "WIDE": "1",
    },
    grid=(
        "ceildiv(out_size, 256 // GROUP) if COLUMNS == 0 or out_rank == 0 else ceildiv(out_size "
        "// out_shape[-1] * ceildiv(out_shape[-1], 32 * COLUMNS), 8 // SPLIT)",
    ),
)  # fmt: skip
_EIGHT_BYTES = frozenset({"double", "long long", "unsigned long long", "index_t"})
_HEAVY = 8  # cost of a point from which fewer points are unrolled


def reduction_spec(writer: Writer) -> KernelSpec:
    """The kernel of a region with reductions: one pass, or several over each row."""
    simple = reductions.is_simple(writer)
    texts = reductions.reduce_texts(writer) if simple else reductions.rows_texts(writer)
    form = REDUCE if simple else ROWS
    inputs = [i for i in inputs_of(writer) if i.kind != FREE]
    full = [i.name for i in inputs if not i.on_row]
    full += [output.name for output in writer.outputs if not output.on_row]
    lead = _lead(writer, inputs) or full[0]
    full.sort(key=lambda name: name != lead)
    row = [i.name for i in inputs if i.on_row]
    row += [output.name for output in writer.outputs if output.on_row]
    kept, rank = len(writer.row_shape), len(writer.shape)
    whole = writer.operands.coords
    spaces = tuple(
        IterateSpec(name, tuple(over), checked(axes), whole)
        for name, over, axes in (
            ("out" if simple else "rows", [*full, *row], f"range(0, {kept})"),
            ("red" if simple else "columns", full, f"range({kept}, {rank})"),
        )
    )
    cost = sum(v.cost for v in writer.region.values if v.place is writer.region.full)
    width = next((DTYPES[i.source.dtype].itemsize for i in inputs if i.name == lead), 4)
    items = "8" if cost <= _HEAVY else "2" if writer.region.weight < LONG else "1"
    words = {"lead": lead, "items": items, "width": str(width)}
    if simple:
        words["most"] = str(_most_columns(texts["accumulators"]))
    return make_spec(writer, form, texts, spaces, words)


def _most_columns(accumulators: Sequence[Mapping[str, Any]]) -> int:
    """Columns of a lane for which the block's sums fit into 48 KB of shared memory."""
    types = [ctype for a in accumulators for _, ctype, _ in a["fields"]]
    each = 8 if any(ctype in _EIGHT_BYTES for ctype in types) else 4
    most = 48 * 1024 // (_THREADS * each * len(types))
    return max(1 << (most.bit_length() - 1) if most else 1, 1)


def _lead(writer: Writer, inputs: Sequence[Input]) -> str:
    """The first input that steps along rows as well as along columns."""
    kept = len(writer.row_shape)
    for given in inputs:
        strides = given.layout.strides
        if not given.on_row and any(strides[:kept]) and any(strides[kept:]):
            return given.name
    return ""


def inputs_of(writer: Writer) -> list[Input]:
    """The kernel's inputs in order."""
    return list(writer.operands.inputs.values())


def make_spec(
    writer: Writer, form: Form, texts: Mapping[str, Any], spaces: Sequence[IterateSpec],
    words: Mapping[str, str],
) -> KernelSpec:  # fmt: skip
    """The declaration for a written region; the same object for the same structure.

    ``texts`` become attributes that the template reads, ``words`` stand in the form's preferences.
    """
    inputs = inputs_of(writer)
    said = set(_WORD.findall(repr(texts)))
    halves = {dtype for dtype in HALVES if said & {DTYPES[dtype].ctype, HALVES[dtype]}}
    types = {calc_type(v.dtype) for v in writer.region.values}
    fixed: dict[str, Any] = {
        **texts,
        "walked": tuple(i.name for i in inputs if i.kind != FREE),
        "free": tuple(i.name for i in inputs if i.kind == FREE),
        "written": tuple(output.name for output in writer.outputs),
        "coords": writer.operands.coords,
        "sized": tuple(writer.operands.sized.values()),
        "uses": tuple(sorted(said & _HELPERS | types & {"float", "double"})),
    }  # fmt: skip
    attrs = {name: AttrSpec(name, "str", default=value) for name, value in fixed.items()}
    attrs |= {f"has_{h}": AttrSpec(f"has_{h}", "dtype", default=h) for h in sorted(halves)}
    for scalar in writer.operands.scalars.values():
        kind = "float" if DTYPES[scalar.dtype].is_float else "int"
        attrs[scalar.name] = AttrSpec(scalar.name, kind, required=True, runtime=True)
    for name in writer.operands.sized.values():
        attrs[name] = AttrSpec(name, "int", required=True, runtime=True, sized=True)
    host = "1" if writer.region.weight >= LONG else "4"
    sizes = [DTYPES[b.dtype].itemsize for b in _buffers(writer) if b.name != FAULT]
    prefer = dict(form.prefer)
    for word, value in {"size": str(max(sizes)), "host": host, **words}.items():
        prefer = {k: text.replace("{" + word + "}", value) for k, text in prefer.items()}
    spec = KernelSpec(
        name=form.name, op="FUSED", template=form.template, score=0,
        inputs=tuple(b for b in _buffers(writer) if b.role == "input"),
        outputs=tuple(b for b in _buffers(writer) if b.role == "output"),
        launch=LaunchSpec(
            tuple(checked(text) for text in form.grid), tuple(checked(text) for text in form.block)
        ),
        attrs=attrs, iterate=tuple(spaces), tunables=form.tunables,
        prefer=tuple((name, checked(text)) for name, text in prefer.items()),
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
    digest = hashlib.sha256(repr(shown).encode("utf-8")).hexdigest()[:12]
    name = f"{spec.name}_{digest}"
    with _lock:
        return _specs.setdefault(name, replace(spec, name=name))


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
