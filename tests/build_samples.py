"""Small declarations, calls and devices for the tests of building."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ge2rt.base import shapes
from ge2rt.base.dtypes import DTYPES
from ge2rt.spec.expr import parse
from ge2rt.spec.model import (
    AttrSpec,
    Bound,
    BufferDesc,
    BufferSpec,
    IterateSpec,
    KernelSpec,
    LaunchSpec,
)

PROPS = SimpleNamespace(kind="cpu", arch="sm_80", cc=8.0, tensor_cores=True)

SCALE = """{# doubles, or more #}
{{ headers }}
{% import "_scale.cuh.j2" as scale with context %}
extern "C" __global__ void __launch_bounds__({{ threads }}) {{ kernel }}({{ params }}) {
  const {{ index_t }} i = ({{ index_t }})blockIdx.x * {{ threads }} + threadIdx.x;
  if (i < {{ it.size }}) {
{% if it.contiguous %}
    Y[i] = {{ scale.times("X[i]") }};
{% else %}
    Y[0] = X[0];
{% endif %}
  }
}
"""
SHARED = """{% macro times(x) -%}
{{ x }} * alpha
{%- endmacro %}
"""


def desc(
    shape: Sequence[int], dtype: str = "f32", strides: Sequence[int] | None = None, offset: int = 0
) -> BufferDesc:
    """A buffer, row-major unless strides are given."""
    given = strides if strides is not None else shapes.contiguous_strides(shape)
    return BufferDesc(tuple(shape), DTYPES[dtype], shapes.canonical_strides(shape, given), offset)


def kernel(
    folder: Path | str,
    *,
    name: str = "scale",
    template: str = "scale.cu.j2",
    inputs: Sequence[BufferSpec] = (BufferSpec("X", "input", "T", ("*S",)),),
    outputs: Sequence[BufferSpec] = (BufferSpec("Y", "output", "T", ("*S",)),),
    iterate: Mapping[str, tuple[Sequence[str], str | None]] | None = None,
    grid: Sequence[str] = ("ceildiv(it_size, 256)",),
    block: Sequence[str] = ("256",),
    lets: Mapping[str, str] | None = None,
    prefer: Mapping[str, str] | None = None,
    attrs: Sequence[AttrSpec] = (AttrSpec("alpha", "float", 2.0, runtime=True),),
    **more: Any,
) -> KernelSpec:
    """A declaration; by default an elementwise kernel over one space."""
    spaces = {"it": (("X", "Y"), None)} if iterate is None else iterate
    made = KernelSpec(
        name, name.upper(), template, 50, tuple(inputs), tuple(outputs),
        LaunchSpec(tuple(map(parse, grid)), tuple(map(parse, block))),
        iterate=tuple(
            IterateSpec(n, tuple(over), parse(axes) if axes else None)
            for n, (over, axes) in spaces.items()
        ),
        lets=tuple((n, parse(e)) for n, e in (lets or {}).items()),
        prefer=tuple((n, parse(e)) for n, e in (prefer or {}).items()),
        attrs={a.name: a for a in attrs},
        types={"T": ("f32", "f16")}, folder=str(folder),
    )  # fmt: skip
    return replace(made, **more)


def bound(spec: KernelSpec, descs: Sequence[BufferDesc | None], **attrs: Any) -> Bound:
    """Match by hand, in the way ge2rt.spec.match does."""
    names: dict[str, Any] = {}
    for buffer, given in zip(spec.buffers, descs, strict=True):
        if given is None or buffer.pattern is None:
            continue
        for part, extent in zip(buffer.pattern, given.shape, strict=False):
            if isinstance(part, str) and not part.startswith("*"):
                names[part] = extent
        stars = [p for p in buffer.pattern if isinstance(p, str) and p.startswith("*")]
        for star in stars:
            rest = len(buffer.pattern) - 1
            names[star[1:]] = given.shape[: len(given.shape) - rest]
    first = next(d for d in descs if d is not None)
    types = dict.fromkeys(spec.types, first.dtype)
    values = {n: a.default for n, a in spec.attrs.items()} | attrs
    names.update(values)
    names.update({t: d.name for t, d in types.items()})
    for name, expression in spec.lets:
        scope = {b.name: d for b, d in zip(spec.buffers, descs, strict=True)} | names
        names[name] = expression.evaluate(scope)
    return Bound(spec, tuple(descs), types, values, names)


def write_templates(folder: Path, **texts: str) -> Path:
    """Template files: ``scale`` -> scale.cu.j2, ``_x`` -> _x.cuh.j2; the sample's by default."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ({"scale": SCALE, "_scale": SHARED} | texts).items():
        suffix = "cuh.j2" if name.startswith("_") else "cu.j2"
        (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
    return folder
