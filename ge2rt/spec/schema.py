"""The schema of a kernels file: every fault at once, each with its place in the file.

pydantic checks the structure, :mod:`ge2rt.spec.meaning` what names mean. This module imports
pydantic and is imported late: a file that was checked before is read from its snapshot.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import PydanticCustomError

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec.expr import HOST, Language, parse
from ge2rt.spec.faults import path_text, registry_error
from ge2rt.spec.lists import MOST_ITEMS
from ge2rt.spec.marks import Document, Path
from ge2rt.spec.meaning import meaning_faults
from ge2rt.spec.reference import REFERENCE
from ge2rt.spec.suggest import did_you_mean, hinted

# Words that cannot be parameter names in CUDA C++.
_CXX = frozenset(
    re.findall(
        r"\w+",
        """
        auto bool break case catch char class const continue default delete do double else enum
        extern false float for friend goto if inline int long namespace new operator private public
        register return short signed sizeof static struct switch template this throw true try
        typedef union unsigned using virtual void volatile while
        """,
    )
)
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*$")


def _wrong(message: str) -> PydanticCustomError:
    # the braces of pydantic's own templates must not be looked for in our text
    return PydanticCustomError("ge2rt", "{message}", {"message": message})


def _identifier(value: str) -> str:
    if not _IDENTIFIER.match(value) or value in _CXX or keyword.iskeyword(value):
        raise _wrong(f"{value!r} cannot be a name: letters, digits and _, no word of C++ or Python")
    return value


def _matching(pattern: str, what: str) -> Callable[[str], str]:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.match(value):
            raise _wrong(f"expected {what}, got {value!r}")
        return value

    return check


def _expression(language: Language) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise _wrong(f"expected an expression, got {_show(value)}")
        try:
            parse(value if isinstance(value, str) else repr(value), language)
        except InvalidArgumentError as fault:
            raise _wrong(fault.record.message) from None
        return value

    return check


def _shape(value: Any) -> Any:
    if isinstance(value, str):
        return _expression(HOST)(value)
    if not isinstance(value, list):
        raise _wrong(f"expected a list of names and numbers, or an expression, got {_show(value)}")
    stars = 0
    for part in value:
        if isinstance(part, int) and not isinstance(part, bool) and part >= 0:
            continue
        name = part.removeprefix("*").removesuffix("?") if isinstance(part, str) else ""
        if not _IDENTIFIER.match(name):
            raise _wrong(f'a shape takes names, "*NAME" and numbers, not {_show(part)}')
        stars += part.startswith("*")
    if stars > 1:
        raise _wrong('a shape can have one "*NAME" only')
    return value


def _extent(value: Any) -> Any:
    if isinstance(value, str):
        return _expression(HOST)(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(f"expected an extent or an expression, got {_show(value)}")
    return value


Identifier = Annotated[str, AfterValidator(_identifier)]
KernelName = Annotated[str, AfterValidator(_matching(r"[a-z][a-z0-9_]*$", "a lower case name"))]
OpName = Annotated[str, AfterValidator(_matching(r"[A-Z][A-Z0-9_]*$", "an upper case op type"))]
Host = Annotated[Any, PlainValidator(_expression(HOST))]
Meaning = Annotated[Any, PlainValidator(_expression(REFERENCE))]
Shape = Annotated[Any, PlainValidator(_shape)]
Launch3 = Annotated[list[Host], Field(min_length=1, max_length=3)]
Size = Annotated[int, Field(ge=0)]
Extent = Annotated[Any, PlainValidator(_extent)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class BufferEntry(_Model):
    """An item of ``inputs`` or ``outputs``."""

    name: Identifier
    dtype: str
    shape: Shape
    optional: bool = False
    layouts: list[Literal["rowmajor", "strided", "NCHW", "NHWC"]] = []
    overlap: list[str] = []
    inout: bool = False
    many: Annotated[int, Field(ge=1, le=MOST_ITEMS)] | None = None
    within: Annotated[list[Host], Field(min_length=2, max_length=3)] | None = None
    doc: str = ""


class AttrEntry(_Model):
    """A value of ``attrs``."""

    type: Literal["int", "float", "bool", "str", "ints", "dtype"] | None = None
    default: Any = None
    required: bool = False
    choices: list[Any] = []
    min: float | None = None
    max: float | None = None
    runtime: bool = False
    wide: bool = False
    doc: str = ""


class IterateEntry(_Model):
    """A value of ``iterate``."""

    over: Annotated[list[str], Field(min_length=1)]
    axes: Host = None
    view: dict[str, Host] = {}


class LaunchEntry(_Model):
    """``launch``."""

    grid: Launch3
    block: Launch3
    shared: Host = None
    when: Host = None


class ThenEntry(LaunchEntry):
    """An item of ``then``."""

    entry: KernelName


class WorkspaceEntry(_Model):
    """A value of ``workspace``."""

    dtype: str
    size: Host


class SpecializeEntry(_Model):
    """``specialize``."""

    dims: Literal["auto", "static", "dynamic"] = "auto"


class ToleranceEntry(_Model):
    """A value of ``tolerance``."""

    rtol: Annotated[float, Field(ge=0)] = 0.0
    atol: Annotated[float, Field(ge=0)] = 0.0


class CasesEntry(_Model):
    """``cases``: hints for the cases that ``ge2rt check`` makes."""

    dims: dict[str, list[Extent]] = {}
    ranks: dict[str, list[list[Size]]] = {}
    attrs: list[dict[str, Any]] = []
    values: dict[str, Annotated[list[Host], Field(min_length=2, max_length=2)]] = {}


class KernelEntry(_Model):
    """An item of ``kernels``."""

    name: KernelName
    op: OpName
    template: str
    score: int
    inputs: list[BufferEntry] = []
    outputs: Annotated[list[BufferEntry], Field(min_length=1)]
    launch: LaunchEntry
    then: list[ThenEntry] = []
    workspace: dict[Identifier, WorkspaceEntry] = {}
    doc: str = ""
    parity: str = ""
    aliases: list[KernelName] = []
    replace: bool = False
    types: dict[Identifier, Annotated[list[str], Field(min_length=1)]] = {}
    attrs: dict[Identifier, AttrEntry] = {}
    let: dict[Identifier, Host] = {}
    iterate: dict[Identifier, IterateEntry] = {}
    tunables: dict[Identifier, Annotated[list[int], Field(min_length=1)]] = {}
    prefer: dict[str, Host] = {}
    requires: list[Host] = []
    flags: dict[str, bool] = {}
    min_mnk: Annotated[list[Size], Field(min_length=3, max_length=3)] | None = None
    specialize: SpecializeEntry = SpecializeEntry()
    options: list[str] = []
    reference: Meaning = None
    tolerance: dict[str, ToleranceEntry] = {}
    param_block: Literal["", "gemm_basic", "gemm_forward_ex", "gemm_backward_ex"] = ""
    backward: Annotated[str, AfterValidator(_matching(r"[A-Z][A-Z0-9_]*$|$", "an op type"))] = ""
    cases: CasesEntry = CasesEntry()


class FileEntry(_Model):
    """A whole kernels file."""

    api_version: int
    kernels: list[KernelEntry]
    include: list[str] = []


# Where a mapping with fixed keys stands: (path without indices and free names) -> model.
_MODELS: Mapping[tuple[str, ...], type[_Model]] = {
    (): FileEntry,
    ("kernels",): KernelEntry,
    ("kernels", "inputs"): BufferEntry,
    ("kernels", "outputs"): BufferEntry,
    ("kernels", "attrs"): AttrEntry,
    ("kernels", "iterate"): IterateEntry,
    ("kernels", "launch"): LaunchEntry,
    ("kernels", "then"): ThenEntry,
    ("kernels", "workspace"): WorkspaceEntry,
    ("kernels", "specialize"): SpecializeEntry,
    ("kernels", "tolerance"): ToleranceEntry,
    ("kernels", "cases"): CasesEntry,
}

_EXPECTED: Mapping[str, str] = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def check_kernels(path: FilePath, document: Document, folders: Sequence[FilePath]) -> None:
    """Raise :class:`RegistryError`, whose ``faults`` are every fault of the file, if there is one.

    Templates lie in one of ``folders``.
    """
    faults = list(_faults(document, folders))
    if faults:
        ordered = sorted(set(faults), key=lambda f: f[0])
        raise registry_error(path, [f"{path}:{m[0]}:{m[1]} {text}" for m, text in ordered])


Fault = tuple[tuple[int, int], str]


def _faults(document: Document, folders: Sequence[FilePath]) -> Iterable[Fault]:
    for mark, where, message in document.faults:
        yield mark, _say(where, message)
    broken: set[Path] = set()
    try:
        FileEntry.model_validate(document.value)
    except ValidationError as fault:
        for error in fault.errors(include_url=False):
            where, message, on_key = _translate(error, document)
            if error["type"] != "extra_forbidden":
                broken.add(where[:3])
            yield document.mark(where, key=on_key), _say(where, message)
    kernels = document.value.get("kernels") if isinstance(document.value, dict) else None
    for where, message, on_key in meaning_faults(kernels, folders, broken):
        yield document.mark(where, key=on_key), _say(where, message)


def _translate(error: Any, document: Document) -> tuple[Path, str, bool]:
    where: Path = tuple(error["loc"])
    on_key = bool(where) and where[-1] == "[key]"
    where = where[:-1] if on_key else where
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return where[:-1], f"missing key {where[-1]!r}", False
    if kind == "extra_forbidden":
        known = list(_model_at(where[:-1]).model_fields)
        return where, hinted("unknown key", str(where[-1]), known, 40), True
    if kind == "literal_error":
        return where, _not_a_choice(context["expected"], error["input"]), on_key
    if kind in _EXPECTED:
        return where, f"expected {_EXPECTED[kind]}, got {_show(error['input'])}", on_key
    if kind in ("too_short", "too_long"):
        least = kind == "too_short"
        bound = f"at least {context['min_length']}" if least else f"at most {context['max_length']}"
        return where, f"expected {bound} items, got {context['actual_length']}", on_key
    if kind == "ge2rt":
        return where, context["message"], on_key
    return (
        where,
        f"{error['msg'][:1].lower()}{error['msg'][1:]}, got {_show(error['input'])}",
        on_key,
    )


def _not_a_choice(expected: str, got: Any) -> str:
    known = [word for word in re.findall(r"'([^']*)'", expected) if word]
    hint = did_you_mean(got, known) if isinstance(got, str) else ""
    return f"expected {' | '.join(known)}, got {_show(got)}" + (f". {hint}" if hint else "")


def _model_at(path: Path) -> type[_Model]:
    words = tuple(p for p in path if isinstance(p, str))
    return _MODELS.get(words) or _MODELS[words[:2]]


def _say(where: Path, message: str) -> str:
    return f"{path_text(where)}: {message}" if where else message


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value)[:80]
