"""What names in a kernels file mean: dtypes, buffers, expression names, templates, duplicates.

The rules are a table. Each takes an entry whose structure may be broken in other places: sections
named in ``broken`` are left out, and names are not judged where a section that gives names is so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from pathlib import PurePosixPath
from typing import Any

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec.attrs import bind_attr
from ge2rt.spec.entries import attr_spec, attr_type
from ge2rt.spec.expr import HOST, Language, parse
from ge2rt.spec.marks import Path
from ge2rt.spec.model import Refusal
from ge2rt.spec.reference import REFERENCE
from ge2rt.spec.suggest import did_you_mean, hinted

Found = tuple[Path, str, bool]  # path, message, whether the key is meant

DEVICE_NAMES = frozenset({"cc", "kind", "tensor_cores"})
TEMPLATE_NAMES = frozenset({
    "kernel", "params", "headers", "is_static", "aligned", "index_t", "arch_cc", "block", "threads",
    "threads_of",
    "buffers", "attributes",
    "range", "namespace", "fail", "loop", "self", "super", "caller", "varargs", "kwargs",
})  # fmt: skip
SPACE_FACTS = ("size", "rank", "shape", "strides", "vec")
# N / 128, N / 128 + 1, (N + 127) / 128
_QUOTIENT = re.compile(r"\(?\s*(\w+)\s*(?:\+[^/]*)?\)?\s*/\s*(\w+)(?:\s*\+.*)?")
_NAMING = ("inputs", "outputs", "types", "attrs", "let", "iterate", "tunables")


@dataclass
class _Scope:
    """An entry with the names it declares."""

    entry: Mapping[str, Any]
    folders: Sequence[FilePath]
    gone: frozenset[str]  # sections that are left out because their structure is broken
    buffers: dict[str, Path] = field(default_factory=dict)
    dims: dict[str, Path] = field(default_factory=dict)
    own: dict[str, Path] = field(default_factory=dict)  # dimensions of the items of lists, "N?"

    def __post_init__(self) -> None:
        for path, buffer in self.each_buffer():
            self.buffers.setdefault(buffer["name"], path)
            shape = buffer["shape"] if isinstance(buffer["shape"], list) else []
            for j, part in enumerate(shape):
                if isinstance(part, str):
                    own = self.own if part.endswith("?") else self.dims
                    own.setdefault(part.strip("*?"), (*path, "shape", j))

    def each_buffer(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        for role in ("inputs", "outputs"):
            for i, buffer in enumerate(self.section(role, ())):
                yield (role, i), buffer

    def section(self, name: str, default: Any) -> Any:
        return self.entry.get(name, default)

    def knows(self, *sections: str) -> bool:
        """Whether the sections are whole, so that a name they do not give is unknown."""
        return not self.gone & set(sections)

    @property
    def values(self) -> set[str]:
        """Names of a bound call, without lets."""
        declared = set(self.section("attrs", {})) | set(self.section("types", {}))
        return declared | set(self.dims) | set(self.buffers)

    @property
    def bound(self) -> set[str]:
        """Names of a bound call."""
        return self.values | set(self.section("let", {}))

    @property
    def spaces(self) -> set[str]:
        """``NAME_size`` and the like of the iteration spaces."""
        return {f"{s}_{fact}" for s in self.section("iterate", {}) for fact in SPACE_FACTS}


def meaning_faults(
    kernels: Any, folders: Sequence[FilePath], broken: Iterable[Path]
) -> Iterator[Found]:
    """All faults of meaning; templates lie in one of ``folders``.

    ``broken``: paths (cut to three parts) of broken structure.
    """
    bad = set(broken)
    if not isinstance(kernels, list) or ("kernels",) in bad:
        return
    yield from _duplicates(kernels)
    for i, entry in enumerate(kernels):
        here: Path = ("kernels", i)
        if here in bad and not isinstance(entry, dict):
            continue
        gone = {p[2] for p in bad if p[:2] == here and len(p) > 2}
        whole = {k: v for k, v in entry.items() if k not in gone}
        scope = _Scope(whole, folders, frozenset(map(str, gone)))
        for rule in RULES:
            for path, message, on_key in rule(scope):
                yield (*here, *path), message, on_key


def _duplicates(kernels: list[Any]) -> Iterator[Found]:
    seen: dict[str, int] = {}
    for i, entry in enumerate(kernels):
        if not isinstance(entry, dict):
            continue
        aliases = entry.get("aliases")
        named: list[tuple[Path, Any]] = [(("name",), entry.get("name"))]
        named += [(("aliases", j), a) for j, a in enumerate(aliases or ()) if aliases]
        for path, name in named:
            if isinstance(name, str) and name in seen:
                yield ("kernels", i, *path), f"{name!r} is taken by kernels[{seen[name]}]", False
            elif isinstance(name, str):
                seen[name] = i


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    return hinted(f"unknown {what} {name!r}", name, sorted(known), 20)


def _unknown_dtype(name: str, types: Iterable[str] = ()) -> str:
    for dtype in DTYPES.values():
        if dtype.numpy_name == name:
            return f"unknown dtype {name!r}. Did you mean {dtype.name!r}?"
    return _unknown("dtype", name, [*types, *DTYPES])


def _one_name_each(scope: _Scope) -> Iterator[Found]:
    seen: dict[str, str] = {}
    sections = ("types", "attrs", "let", "iterate", "tunables")
    given = [((*p, "name"), b["name"], "a buffer") for p, b in scope.each_buffer()]
    for section in sections:
        given += [((section, n), n, f"in {section!r}") for n in scope.section(section, {})]
    for path, name, what in given:
        if name in seen:
            yield path, f"the name {name!r} is used twice: {seen[name]} and {what}", _keyed(path)
        elif name in DEVICE_NAMES:
            yield path, f"the name {name!r} is a fact of the device", _keyed(path)
        elif name in TEMPLATE_NAMES:
            yield path, f"every template has a name {name!r} of its own", _keyed(path)
        seen.setdefault(name, what)
    reserved = {n for n, what in seen.items() if what not in ("in 'attrs'", "in 'let'")}
    yield from _dimensions(scope)
    for name in sorted(scope.dims.keys() & reserved):
        path = next(p for p, n, _ in given if n == name)
        yield path, f"the name {name!r} is used twice: a dimension and {seen[name]}", _keyed(path)


def _dimensions(scope: _Scope) -> Iterator[Found]:
    """Dimensions under names that mean something else."""
    for name, path in scope.dims.items():
        kind = attr_type(attr) if (attr := scope.section("attrs", {}).get(name)) else "int"
        if name in DEVICE_NAMES:
            yield path, f"the name {name!r} is a fact of the device", False
        elif name in TEMPLATE_NAMES:
            yield path, f"every template has a name {name!r} of its own", False
        elif path[0] == "inputs" and name in scope.section("let", {}):
            message = f"the name {name!r} is used twice: a dimension and in 'let'"
            yield ("let", name), message, True
        elif kind not in ("int", "ints", ""):
            message = f"the name {name!r} is used twice: a dimension and a {kind} in 'attrs'"
            yield ("attrs", name), message, True


def _output_extents(scope: _Scope) -> Iterator[Found]:
    """Extents of outputs must follow from the inputs: nothing else could allocate them."""
    if scope.section("param_block", "") or not scope.knows("inputs", "attrs", "let"):
        return  # a block gives the extents of all buffers
    known = set(scope.section("attrs", {})) | set(scope.section("let", {}))
    dims = (*scope.dims.items(), *scope.own.items())
    known |= {name for name, path in dims if path[0] == "inputs"}
    read = {path for path, buffer in scope.each_buffer() if buffer.get("inout")}  # given by callers
    for name, path in dims:
        if name not in known and path[:2] not in read:
            message = f"output extent {name} is not bound by any input, attribute or let"
            yield path, f'{message}; give a formula, such as shape: "(2 * N,)"', False


def _whole_launch(scope: _Scope) -> Iterator[Found]:
    """Grids and blocks are whole numbers: / gives none."""
    for path, geometry in _launches(scope):
        for part in ("grid", "block"):
            blocks = geometry.get("block", ()) if part == "grid" else ()
            for i, text in enumerate(geometry.get(part, ())):
                if isinstance(text, float) or (isinstance(text, str) and _divides(text)):
                    extent, step = _quotient(str(text), blocks, i)
                    written = f"ceildiv({extent}, {step}) or {extent} // {step}"
                    yield (*path, part, i), f"{text} is no whole number; write {written}", False


def _quotient(text: str, block: Sequence[Any], axis: int) -> tuple[str, str]:
    """What is divided by what, for advice; where the text does not tell, by the block's extent."""
    found = _QUOTIENT.fullmatch(text)
    if found:
        return found[1], found[2]
    return "N", str(block[axis]) if axis < len(block) else "256"


def _launches(scope: _Scope) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """``launch`` and the items of ``then``."""
    yield ("launch",), scope.section("launch", {})
    for i, entry in enumerate(scope.section("then", ())):
        yield ("then", i), entry


def _workspaces(scope: _Scope) -> Iterator[Found]:
    """Dtypes of workspaces, and suffixes of further launches that come once."""
    types = scope.section("types", {})
    known = {*DTYPES, *types, *(f"acc:{name}" for name in types)}
    for name, entry in scope.section("workspace", {}).items():
        if scope.knows("types") and entry["dtype"] not in known:
            yield ("workspace", name, "dtype"), _unknown("dtype", entry["dtype"], known), False
    seen: set[str] = set()
    for i, entry in enumerate(scope.section("then", ())):
        if entry["entry"] in seen:
            yield ("then", i, "entry"), f"{entry['entry']!r} is launched already", False
        seen.add(entry["entry"])


def _roles(scope: _Scope) -> Iterator[Found]:
    """What is read before it is written is an output; what bounds values, an input of integers."""
    for i, buffer in enumerate(scope.section("inputs", ())):
        if buffer.get("inout"):
            yield ("inputs", i, "inout"), "an inout buffer stands among the outputs", True
    for path, buffer in scope.each_buffer():
        if buffer.get("within") is None:
            continue
        if path[0] == "outputs":
            yield (*path, "within"), "only the values of inputs have bounds", True
        for j, text in enumerate(buffer["within"]):
            yield from _names(scope, (*path, "within", j), text, scope.bound)


def _lists(scope: _Scope) -> Iterator[Found]:
    """Lists of buffers: as many items in each, so that a call's count says how many."""
    found = [(path, buffer) for path, buffer in scope.each_buffer() if buffer.get("many")]
    for path, buffer in scope.each_buffer():
        shape = buffer["shape"] if isinstance(buffer["shape"], list) else ()
        for j, part in enumerate(shape if not buffer.get("many") else ()):
            if isinstance(part, str) and part.endswith("?"):
                message = f"{part!r} is a dimension of a list's items, and this is no list"
                yield (*path, "shape", j), f"{message}; add `many:`", False
        if found and buffer.get("optional"):
            message = "beside lists no buffer is optional: the count of buffers could not tell"
            yield (*path, "optional"), message, True
    if found and scope.section("param_block", ""):
        yield ("param_block",), "a parameter block has no lists", True
    for path, buffer in found:
        if buffer["many"] != found[0][1]["many"]:
            message = (
                f"all lists have as many items: {found[0][1]['many']}, as in {found[0][1]['name']}"
            )
            yield (*path, "many"), message, False
    yield from _item_names(scope, {buffer["name"] for _, buffer in found})


def _item_names(scope: _Scope, lists: set[str]) -> Iterator[Found]:
    """Names that are those of items, such as X3 beside a list X."""
    sections = ("types", "attrs", "let", "iterate", "tunables", "workspace")
    given = [((*p, "name"), b["name"]) for p, b in scope.each_buffer()]
    given += [((s, n), n) for s in sections for n in scope.section(s, {})]
    given += [(path, name) for name, path in scope.dims.items()]
    for path, name in given:
        base = name.rstrip("0123456789")
        if base != name and base in lists | set(scope.own):
            message = f"the name {name!r} is that of an item of {base!r}"
            yield path, message, _keyed(path)
        if name in scope.own:
            yield path, f"the name {name!r} is used twice: a dimension of items too", _keyed(path)


def _divides(text: str) -> bool:
    """Whether the value of an expression may come from ``/``, not through a function."""
    try:
        found: list[ast.AST] = [parse(text, HOST).tree]
    except InvalidArgumentError:
        return False  # told by the structure's check
    while found:
        node = found.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return True
        if not isinstance(node, (ast.Call, ast.Compare)):
            found += ast.iter_child_nodes(node)
    return False


def _keyed(path: Path) -> bool:
    """Whether the name at ``path`` is a mapping's key (the names of buffers are values)."""
    return path[0] not in ("inputs", "outputs")


def _dtypes(scope: _Scope) -> Iterator[Found]:
    types = scope.section("types", {})
    for name, dtypes in types.items():
        for j, dtype in enumerate(dtypes):
            if dtype not in DTYPES:
                yield ("types", name, j), _unknown_dtype(dtype), False
    for path, buffer in scope.each_buffer():
        dtype = buffer["dtype"]
        if dtype.startswith("attr:"):
            attr = scope.section("attrs", {}).get(dtype[5:])
            if scope.knows("attrs") and (attr is None or attr_type(attr) != "dtype"):
                yield (*path, "dtype"), f"no attribute {dtype[5:]!r} of type dtype", False
        elif dtype not in DTYPES and dtype not in types and scope.knows("types"):
            yield (*path, "dtype"), _unknown_dtype(dtype, types), False


def _tolerances(scope: _Scope) -> Iterator[Found]:
    for dtype in scope.section("tolerance", {}):
        if dtype not in DTYPES:
            yield ("tolerance", dtype), _unknown_dtype(dtype), True


def _buffer_names(scope: _Scope) -> Iterator[Found]:
    inputs = {b["name"] for p, b in scope.each_buffer() if p[0] == "inputs"}
    lists = {b["name"] for p, b in scope.each_buffer() if b.get("many")}
    for path, buffer in scope.each_buffer():
        if path[0] == "inputs" and isinstance(buffer["shape"], str):
            yield (*path, "shape"), "an input's shape is a list of names, not an expression", False
        for j, name in enumerate(buffer.get("overlap", ())):
            if path[0] == "inputs":
                yield (*path, "overlap"), "only outputs can overlap inputs", True
            elif scope.knows("inputs") and name not in inputs:
                yield (*path, "overlap", j), _unknown("input", name, inputs), False
            elif scope.knows("inputs") and (name in lists) != bool(buffer.get("many")):
                yield (*path, "overlap", j), "a list overlaps a list, one buffer one buffer", False
    for space, entry in scope.section("iterate", {}).items():
        for j, name in enumerate(entry["over"]):
            if scope.knows("inputs", "outputs") and name not in scope.buffers:
                path = ("iterate", space, "over", j)
                yield path, _unknown("buffer", name, scope.buffers), False
        for name in entry.get("view", {}):
            if name not in entry["over"]:
                path = ("iterate", space, "view", name)
                yield path, _unknown("operand", name, entry["over"]), True


def _attributes(scope: _Scope) -> Iterator[Found]:
    for name, entry in scope.section("attrs", {}).items():
        kind = attr_type(entry)
        if not kind:
            yield (
                ("attrs", name),
                "the type is not clear from default and choices; add `type:`",
                True,
            )
            continue
        if entry.get("runtime") and kind not in ("int", "float"):
            yield (
                ("attrs", name, "runtime"),
                f"only int and float can be runtime, not {kind}",
                False,
            )
        if entry.get("wide") and (kind not in ("int", "float") or not entry.get("runtime")):
            yield ("attrs", name, "wide"), "only a runtime int or float can be wide", True
        if entry.get("default") is not None:
            bound = bind_attr(attr_spec(name, entry), entry["default"])
            if isinstance(bound, Refusal):
                message = f"the default does not fit: expected {bound.expected}, got {bound.got}"
                yield ("attrs", name, "default"), message, False


def _tunables(scope: _Scope) -> Iterator[Found]:
    known = scope.section("tunables", {})
    for name in scope.section("prefer", {}):
        if scope.knows("tunables") and name not in known:
            yield ("prefer", name), _unknown("tunable", name, known), True


def _template(scope: _Scope) -> Iterator[Found]:
    name = scope.section("template", None)
    if name is None:
        return
    pure = PurePosixPath(name)
    if not name or pure.is_absolute() or ".." in pure.parts or "\\" in name or ":" in name:
        yield ("template",), "a template's name cannot leave its folder", False
        return
    if "\0" in name or not any((f / name).is_file() for f in scope.folders):
        found = [f.name for d in scope.folders for f in d.glob("*.j2")]
        hint = did_you_mean(name, found)
        yield ("template",), f"no template {name!r} here" + (f". {hint}" if hint else ""), False
        return
    file = next(f / name for f in scope.folders if (f / name).is_file())
    home = file.parents[len(pure.parts) - 1].resolve()
    if home not in file.resolve().parents:
        yield ("template",), f"the template {name!r} leaves its folder through a link", False


def _let_names(scope: _Scope) -> Iterator[Found]:
    known = scope.values
    for name, text in scope.section("let", {}).items():
        yield from _names(scope, ("let", name), text, known)
        known = known | {name}


def _expression_names(scope: _Scope) -> Iterator[Found]:
    bound, spaces = scope.bound, scope.spaces
    launch = bound | spaces | DEVICE_NAMES | set(scope.section("tunables", {}))
    for path, buffer in scope.each_buffer():
        if isinstance(buffer["shape"], str):
            yield from _names(scope, (*path, "shape"), buffer["shape"], bound)
    for i, text in enumerate(scope.section("requires", ())):
        yield from _names(scope, ("requires", i), text, bound | DEVICE_NAMES)
    for name, entry in scope.section("iterate", {}).items():
        if entry.get("axes") is not None:
            yield from _names(scope, ("iterate", name, "axes"), entry["axes"], bound)
        for operand, text in entry.get("view", {}).items():
            yield from _names(scope, ("iterate", name, "view", operand), text, bound)
    for name, text in scope.section("prefer", {}).items():
        yield from _names(scope, ("prefer", name), text, launch)
    for path, geometry in _launches(scope):
        for part in ("grid", "block"):
            for i, text in enumerate(geometry.get(part, ())):
                yield from _names(scope, (*path, part, i), text, launch)
        for part in ("shared", "when"):
            yield from _names(scope, (*path, part), geometry.get(part), launch)
    for name, entry in scope.section("workspace", {}).items():
        yield from _names(scope, ("workspace", name, "size"), entry["size"], launch)
    if scope.section("reference", None) is not None:
        yield from _names(scope, ("reference",), scope.entry["reference"], bound, REFERENCE)


def _names(
    scope: _Scope, path: Path, text: Any, known: Iterable[str], language: Language = HOST
) -> Iterator[Found]:
    if not isinstance(text, str) or not scope.knows(*_NAMING):
        return
    try:
        names = parse(text, language).names
    except InvalidArgumentError:
        return  # told by the structure's check
    for name in sorted(names - set(known)):
        yield path, hinted(f"unknown name {name!r} in {text!r}", name, sorted(known), 20), False


def _cases(scope: _Scope) -> Iterator[Found]:
    cases = scope.section("cases", {})
    for part in ("dims", "ranks"):
        for name in cases.get(part, {}):
            known = scope.dims | scope.own
            if scope.knows("inputs", "outputs") and name not in known:
                yield ("cases", part, name), _unknown("dimension", name, known), True
    values = {*scope.dims, *scope.own, *scope.section("attrs", {}), *scope.section("let", {})}
    for name, extents in cases.get("dims", {}).items():
        for i, text in enumerate(extents):
            yield from _names(scope, ("cases", "dims", name, i), text, values)
    for name, bounds in cases.get("values", {}).items():
        if scope.knows("inputs", "outputs") and name not in scope.buffers:
            yield ("cases", "values", name), _unknown("buffer", name, scope.buffers), True
        for i, text in enumerate(bounds):
            yield from _names(scope, ("cases", "values", name, i), text, scope.bound)
    attrs = scope.section("attrs", {})
    for i, given in enumerate(cases.get("attrs", ())):
        for name in given:
            if scope.knows("attrs") and name not in attrs:
                yield ("cases", "attrs", i, name), _unknown("attribute", name, attrs), True


RULES: tuple[Callable[[_Scope], Iterator[Found]], ...] = (
    _one_name_each, _dtypes, _tolerances, _buffer_names, _attributes, _tunables, _template,
    _let_names, _expression_names, _output_extents, _whole_launch, _workspaces, _roles,
    _lists, _cases,
)  # fmt: skip
