"""The op table as a page: ``docs/ops.md`` is made by this, and a test keeps it up to date."""

from __future__ import annotations

from collections.abc import Iterator

from ge2rt.ir.ops import OPS, OpSpec, derivative_functions

_KINDS = (
    ("leaf", "Leaves"),
    ("pointwise", "Pointwise"),
    ("view", "Views"),
    ("reduce", "Reductions"),
    ("contract", "Products"),
    ("index", "Indices and joins"),
    ("scatter", "Sums at indices"),
    ("scan", "Along an axis"),
    ("sort", "Sorting"),
    ("fused", "Made by passes"),
)
_HEAD = """\
# Ops of the graph

Made from `ge2rt/ops.yaml` (`python -m pytest tests/ir --update-golden` writes this page). Operands
of one op share their dtype and, where it is pointwise, their shape: broadcasts, casts and views are
nodes of their own. f16 and bf16 are computed in f32 and rounded after each op; sums of them are
kept in f32. In derivatives `g` is the gradient of the result `y`.
"""


def page() -> str:
    """The page, as Markdown."""
    return "\n".join([_HEAD, *_sections(), *_functions(), ""])


def _sections() -> Iterator[str]:
    for kind, title in _KINDS:
        rows = [spec for spec in OPS.values() if spec.kind == kind]
        yield f"## {title}\n"
        yield "| op | what it is | dtypes | NumPy | derivative | error |"
        yield "|---|---|---|---|---|---|"
        yield from map(_row, rows)
        yield ""


def _row(spec: OpSpec) -> str:
    cells = (
        _code(_call(spec)), spec.doc, " ".join(spec.types), _code(spec.numpy), _derivative(spec),
        _tolerance(spec),
    )  # fmt: skip
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _call(spec: OpSpec) -> str:
    operands = [o.name + "*" * o.many + "?" * o.optional for o in spec.operands]
    attrs = [a.name if a.default is None else f"{a.name}={a.default}" for a in spec.attrs]
    inside = ", ".join(operands) + (f"; {', '.join(attrs)}" if attrs else "")
    return f"{spec.name}({inside})"


def _derivative(spec: OpSpec) -> str:
    if "none" in spec.derivative:
        return spec.derivative["none"]
    return ", ".join(f"{name}: {_code(text)}" for name, text in spec.derivative.items())


def _tolerance(spec: OpSpec) -> str:
    if not spec.tolerance:
        return "exact"
    relative, absolute = spec.within("f32")
    return f"{relative:g} + {absolute:g} (f32)"


def _functions() -> Iterator[str]:
    yield "## Functions of derivatives\n"
    for text in derivative_functions().values():
        call, _, meaning = text.partition(": ")
        yield f"- {_code(call)}: {meaning}"


def _code(text: str) -> str:
    return f"`{text}`"
