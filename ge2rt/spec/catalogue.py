"""The shipped kernels as a page: ``docs/operations.md`` is made by this."""

from __future__ import annotations

from collections.abc import Iterator

from ge2rt.spec.match import INVALID_NOTE
from ge2rt.spec.model import AttrSpec, BufferSpec, KernelSpec
from ge2rt.spec.registry import Registry

_HEAD = """\
# Operations

Made from `kernels.yaml` and the files it includes (`python -m pytest tests/null/test_operations.py
--update-golden` writes this page). Buffers are passed inputs first, then outputs, in the order of
the tables; `?` marks one that may be absent (0 or None), `...` a list of them. Attributes go into
`descs["attrs"]`, or into `ge2rt.launch` by name. The meaning is NumPy's, computed in f64; a result
may differ from it by `atol + rtol * |value|`. A kernel answers -1 to a call that does not fit its
buffers and attributes, and the code given with each condition where that does not hold.
"""
_SIGN = {True: -1, False: -3}


def page(registry: Registry) -> str:
    """The page, as Markdown."""
    return "\n".join([_HEAD, *_contents(registry), *_sections(registry)])


def _contents(registry: Registry) -> Iterator[str]:
    names = sorted(registry.ops())
    yield ", ".join(f"[{name}](#{name.lower()})" for name in names) + "\n"


def _sections(registry: Registry) -> Iterator[str]:
    for op in sorted(registry.ops()):
        yield f"## {op}\n"
        for kernel in sorted(registry.kernels_of(op), key=lambda spec: -spec.score):
            yield from _kernel(kernel)


def _kernel(kernel: KernelSpec) -> Iterator[str]:
    also = f", also {', '.join(f'`{a}`' for a in kernel.aliases)}" if kernel.aliases else ""
    yield f"### `{kernel.name}`{also}\n"
    yield f"{kernel.doc}. Score {kernel.score}.{_notes(kernel)}\n"
    yield "| buffer | | dtype | shape | |\n|---|---|---|---|---|"
    yield from (_buffer(kernel, buffer) for buffer in kernel.buffers)
    yield ""
    if kernel.attrs:
        yield "| attribute | type | default | values | |\n|---|---|---|---|---|"
        yield from map(_attribute, kernel.attrs.values())
        yield ""
    if kernel.reference is not None:
        yield f"Meaning: `{kernel.reference.text}`\n"
    if kernel.tolerance:
        bounds = (f"{n} {t.rtol:g}, {t.atol:g}" for n, t in kernel.tolerance.items())
        yield f"Tolerance (rtol, atol): {'; '.join(bounds)}\n"
    for condition in kernel.requires:
        text = condition.text.rpartition("#")[0].strip() if condition.note else condition.text
        note = condition.note.removeprefix(INVALID_NOTE)
        code = _SIGN[condition.note.startswith(INVALID_NOTE)]
        yield f"- {code} unless `{text}`" + (f": {note}" if note else "")
    if kernel.requires:
        yield ""
    if kernel.parity:
        yield f"ge_v2: {kernel.parity}\n"


def _notes(kernel: KernelSpec) -> str:
    notes = ""
    if kernel.backward:
        notes += f" Gradient: [{kernel.backward}](#{kernel.backward.lower()})."
    if kernel.then:
        notes += f" {len(kernel.then) + 1} launches."
    if kernel.workspace:
        notes += " Needs a workspace."
    if kernel.param_block:
        notes += f" Parameter block `{kernel.param_block}`."
    return notes


def _buffer(kernel: KernelSpec, buffer: BufferSpec) -> str:
    dtypes = " ".join(kernel.types.get(buffer.dtype, (buffer.dtype,)))
    named = f"{buffer.dtype}: {dtypes}" if buffer.dtype in kernel.types else dtypes
    shape = buffer.formula.text if buffer.formula else ", ".join(map(str, buffer.pattern or ()))
    told = [buffer.doc] if buffer.doc else []
    told += [f"a list of 1 to {buffer.many}"] if buffer.many else []
    told += ["contents are read"] if buffer.inout else []
    if buffer.within is not None:
        low, high, *besides = (limit.text for limit in buffer.within)
        told.append(" or ".join([f"{low} <= {buffer.name} < {high}", *besides]))
    told += [f"may be {' or '.join(buffer.overlap)} itself"] if buffer.overlap else []
    role = "in" if buffer.role == "input" else "out"
    name = f"`{buffer.name}`" + "?" * buffer.optional + "..." * bool(buffer.many)
    return _row(name, role, named, f"`{shape}`" if buffer.formula else f"[{shape}]", *_join(told))


def _attribute(attr: AttrSpec) -> str:
    default = "required" if attr.required else f"`{attr.default}`"
    values = " ".join(map(str, attr.choices))
    if attr.minimum is not None:
        values += f">= {attr.minimum:g}"
    if attr.maximum is not None:
        values += f" <= {attr.maximum:g}"
    return _row(f"`{attr.name}`", attr.type, default, values.strip(), attr.doc)


def _join(told: list[str]) -> tuple[str]:
    return ("; ".join(told),)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
