"""One checked entry of a kernels file -> :class:`KernelSpec`.

The entry must have passed :mod:`ge2rt.spec.schema`; nothing is checked here again but expressions,
which are parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ge2rt.spec.expr import Expression, checked
from ge2rt.spec.model import (
    AttrSpec,
    BufferSpec,
    IterateSpec,
    KernelSpec,
    LaunchSpec,
    Tolerance,
    WorkspaceSpec,
)

Entry = Mapping[str, Any]

_TYPE_NAMES: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str", list: "ints"}


def template_folders(folder: Path) -> tuple[Path, Path]:
    """Where the templates of a kernels file in ``folder`` are looked for, in order."""
    return folder / "templates", folder


def attr_type(entry: Entry) -> str:
    """The type of an attribute: stated, or that of its default or choices ("" when unclear)."""
    if "type" in entry:
        return str(entry["type"])
    given = [entry["default"]] if entry.get("default") is not None else []
    kinds = {_TYPE_NAMES.get(type(v), "") for v in [*given, *entry.get("choices", ())]}
    return "float" if kinds == {"int", "float"} else kinds.pop() if len(kinds) == 1 else ""


def build_kernel(entry: Entry, *, folder: str = "", source: str = "") -> KernelSpec:
    """The frozen declaration of a checked entry."""
    shape = entry.get("min_mnk")
    return KernelSpec(
        name=entry["name"],
        op=entry["op"],
        template=entry["template"],
        score=entry["score"],
        inputs=tuple(_buffer(b, "input") for b in entry.get("inputs", ())),
        outputs=tuple(_buffer(b, "output") for b in entry["outputs"]),
        launch=_launch(entry["launch"]),
        then=tuple(_launch(e) for e in entry.get("then", ())),
        workspace=tuple(
            WorkspaceSpec(name, w["dtype"], checked(w["size"]))
            for name, w in entry.get("workspace", {}).items()
        ),
        types={name: tuple(dtypes) for name, dtypes in entry.get("types", {}).items()},
        attrs={name: attr_spec(name, a) for name, a in entry.get("attrs", {}).items()},
        lets=_named(entry.get("let", {})),
        iterate=tuple(_iterate(name, i) for name, i in entry.get("iterate", {}).items()),
        tunables={name: tuple(values) for name, values in entry.get("tunables", {}).items()},
        prefer=_named(entry.get("prefer", {})),
        requires=tuple(checked(text) for text in entry.get("requires", ())),
        flags=dict(entry.get("flags", {})),
        min_mnk=(shape[0], shape[1], shape[2]) if shape else None,
        dims=entry.get("specialize", {}).get("dims", "auto"),
        options=tuple(entry.get("options", ())),
        reference=checked(entry["reference"]) if "reference" in entry else None,
        tolerance={name: _tolerance(t) for name, t in entry.get("tolerance", {}).items()},
        param_block=entry.get("param_block", ""),
        backward=entry.get("backward", ""),
        aliases=tuple(entry.get("aliases", ())),
        doc=entry.get("doc", ""),
        parity=entry.get("parity", ""),
        cases=entry.get("cases", {}),
        source=source,
        folder=folder,
    )


def _named(entries: Entry) -> tuple[tuple[str, Expression], ...]:
    return tuple((name, checked(value)) for name, value in entries.items())


def _buffer(entry: Entry, role: str) -> BufferSpec:
    shape, within = entry["shape"], entry.get("within")
    rest: dict[str, Any] = {k: tuple(entry[k]) for k in ("layouts", "overlap") if entry.get(k)}
    return BufferSpec(
        name=entry["name"],
        role=role,
        dtype=entry["dtype"],
        pattern=None if isinstance(shape, str) else tuple(shape),
        formula=checked(shape) if isinstance(shape, str) else None,
        optional=entry.get("optional", False),
        inout=entry.get("inout", False),
        many=entry.get("many") or 0,
        within=tuple(checked(limit) for limit in within) if within else None,
        doc=entry.get("doc", ""),
        **rest,
    )


def attr_spec(name: str, entry: Entry) -> AttrSpec:
    """One value of ``attrs``; its type must be clear."""
    kind = attr_type(entry)
    return AttrSpec(
        name=name,
        type=kind,
        default=_default(kind, entry.get("default")),
        required=entry.get("required", False),
        choices=tuple(entry.get("choices", ())),
        minimum=entry.get("min"),
        maximum=entry.get("max"),
        runtime=entry.get("runtime", False),
        wide=entry.get("wide", False),
        doc=entry.get("doc", ""),
    )


def _default(kind: str, value: Any) -> Any:
    if kind == "ints" and value is not None:
        return tuple(value) if isinstance(value, list) else (value,)
    is_whole = kind == "float" and isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_whole else value  # what else is no number is refused by its check


def _iterate(name: str, entry: Entry) -> IterateSpec:
    axes = entry.get("axes")
    return IterateSpec(
        name,
        tuple(entry["over"]),
        checked(axes) if axes is not None else None,
        views={operand: checked(text) for operand, text in entry.get("view", {}).items()},
    )


def _launch(entry: Entry) -> LaunchSpec:
    shared, when = entry.get("shared"), entry.get("when")
    return LaunchSpec(
        grid=tuple(checked(e) for e in entry["grid"]),
        block=tuple(checked(e) for e in entry["block"]),
        shared=checked(shared) if shared is not None else None,
        entry=entry.get("entry", ""),
        when=checked(when) if when is not None else None,
    )


def _tolerance(entry: Entry) -> Tolerance:
    return Tolerance(float(entry.get("rtol", 0.0)), float(entry.get("atol", 0.0)))
