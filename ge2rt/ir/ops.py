"""The op table: ``ops.yaml`` as frozen records. ``OPS["exp"]`` reads the file when first asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ge2rt.base.errors import RegistryError
from ge2rt.ir.formula import names, parse

FILE = Path(__file__).parents[1] / "ops.yaml"

KINDS = frozenset({
    "leaf", "pointwise", "view", "reduce", "contract", "index", "scatter", "scan", "sort", "fused",
})  # fmt: skip
CLASSES = ("float", "int", "uint", "bool")  # the kinds of base.dtypes that have arithmetic
RESULTS = frozenset({"same", "dtype", "bool", "i64"})
SHAPES = frozenset({
    "given", "same", "broadcast", "transpose", "reshape", "slice", "reduce", "reduce_one",
    "matmul", "gather", "concat", "pad", "scatter", "along", "gemm", "attention",
})  # fmt: skip
ATTR_TYPES = frozenset({
    "shape", "dtype", "value", "int", "ints", "axes", "float", "bool", "str",
})  # fmt: skip
OPERAND_TYPES = frozenset({"T", "bool", "index", "mask"})
LOWERINGS = frozenset({
    "fused", "view", "GEMM_BIAS_ACT", "ATTENTION", "SCATTER_ROWS", "SCAN", "SORT",
})  # fmt: skip
COLUMNS = (
    "name", "kind", "operands", "attrs", "types", "result", "shape", "numpy", "cuda",
    "derivative", "lowering", "tolerance", "doc",
)  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """One operand; ``many``: any number of them; ``types`` is T, bool, index or mask."""

    name: str
    types: str = "T"
    many: bool = False
    optional: bool = False


@dataclass(frozen=True)
class AttrSpec:
    """One attribute; ``default`` is None where it must be given."""

    name: str
    type: str
    default: Any = None


@dataclass(frozen=True)
class OpSpec:
    """One row of ``ops.yaml``; the file's head says what each column holds.

    ``cuda`` and ``derivative`` may be ``{"none": reason}``. ``tolerance`` maps a dtype to
    ``(rtol, atol)`` and is empty where results are exact.
    """

    name: str
    kind: str
    operands: tuple[Operand, ...]
    attrs: tuple[AttrSpec, ...]
    types: tuple[str, ...]
    result: str
    shape: str
    numpy: str
    cuda: Mapping[str, str]
    derivative: Mapping[str, str]
    lowering: str
    tolerance: Mapping[str, tuple[float, float]]
    doc: str

    @property
    def pointwise(self) -> bool:
        """Whether each element of the result depends on one element of each operand."""
        return self.kind == "pointwise"

    def expression(self, operand: str, result: str = "") -> str:
        """The C++ text for a dtype class of the operands, and of the result where that matters."""
        found = self.cuda.get(f"{operand}->{result}") or self.cuda.get(operand)
        if found is None:
            reason = self.cuda.get("none", f"{self.name} is not for {operand}")
            raise RegistryError(f"no CUDA expression of {self.name}: {reason}")
        return found

    def within(self, dtype: str) -> tuple[float, float]:
        """``(rtol, atol)`` for results of this dtype; zeros where they must be equal."""
        return self.tolerance.get(dtype, (0.0, 0.0))


class _Table(Mapping[str, OpSpec]):
    """The shipped table, read when first used; forget it by ``load.cache_clear()``."""

    def __getitem__(self, name: str) -> OpSpec:
        return load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(load())

    def __len__(self) -> int:
        return len(load())


OPS: Mapping[str, OpSpec] = _Table()


@lru_cache(maxsize=1)
def load() -> Mapping[str, OpSpec]:
    """The shipped rows by name, in the file's order."""
    return read_ops(FILE.read_text(encoding="utf-8"), str(FILE))


def derivative_functions() -> Mapping[str, str]:
    """Functions that derivative texts may call besides ops, and what they mean."""
    from ge2rt.spec.marks import read_yaml  # late: only documentation and checks ask

    found = read_yaml(FILE.read_text(encoding="utf-8")).value["derivative_functions"]
    return MappingProxyType(found)


def read_ops(text: str, where: str = "ops.yaml") -> Mapping[str, OpSpec]:
    """Rows of a text in the form of ``ops.yaml``.

    Raises :class:`RegistryError` with all ``faults``, each with its line and row.
    """
    from ge2rt.spec.marks import MarksFault, read_yaml  # late: import stays light

    try:
        document = read_yaml(text)
    except MarksFault as fault:
        raise _refused(where, [f"{where}:{fault.mark[0]}: {fault.message}"]) from None
    faults = [f"{where}:{mark[0]}: {message}" for mark, _, message in document.faults]
    value = document.value if isinstance(document.value, dict) else {}
    rows = value.get("ops")
    rows = rows if isinstance(rows, list) else []
    if not rows:
        faults.append(f"{where}:1: there is no list 'ops'")
    callable_names = {str(row.get("name")) for row in rows if isinstance(row, dict)}
    callable_names |= set(value.get("derivative_functions") or ())
    specs: dict[str, OpSpec] = {}
    for i, row in enumerate(rows):
        line = document.mark(("ops", i))[0]
        found = list(_row_faults(row, callable_names, specs))
        faults += [f"{where}:{line}: {_title(row, i)}: {fault}" for fault in found]
        if not found:
            specs[row["name"]] = _spec(row)
    if faults:
        raise _refused(where, faults)
    return MappingProxyType(specs)


def _refused(where: str, faults: list[str]) -> RegistryError:
    text = "\n".join(faults)
    return RegistryError(
        f"{len(faults)} faults in {where}:\n{text}", faults=tuple(faults),
        next_step="mend the rows named; the file's head says what each column holds",
    )  # fmt: skip


def _title(row: Any, index: int) -> str:
    name = row.get("name") if isinstance(row, dict) else None
    return f"op {name!r}" if isinstance(name, str) else f"row {index + 1}"


def _row_faults(row: Any, known: set[str], seen: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(row, dict):
        yield "a row is a mapping of columns"
        return
    missing = [column for column in COLUMNS if column not in row]
    yield from (f"column {column!r} is missing" for column in missing)
    yield from (f"unknown column {column!r}" for column in row if column not in COLUMNS)
    wrong = [c for c in COLUMNS if c in row and not isinstance(row[c], _COLUMN_TYPES[c])]
    yield from (f"column {c!r} is a {type(row[c]).__name__}" for c in wrong)
    if missing or wrong:
        return
    if row["name"] in seen:
        yield "the name is taken by an earlier row"
    for column, allowed in _CHOICES.items():
        given = row[column] if isinstance(row[column], list) else [row[column]]
        for value in given:
            if value not in allowed:
                yield f"{column} {value!r} is none of {', '.join(sorted(allowed))}"
    yield from _operand_faults(row)
    yield from _cuda_faults(row)
    yield from _derivative_faults(row, known)
    yield from _tolerance_faults(row)


_COLUMN_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "name": str, "kind": str, "operands": list, "attrs": dict, "types": list, "result": str,
    "shape": str, "numpy": str, "cuda": dict, "derivative": dict, "lowering": str,
    "tolerance": (dict, str), "doc": str,
}  # fmt: skip
_CHOICES: Mapping[str, Any] = {
    "kind": KINDS, "types": CLASSES, "result": RESULTS, "shape": SHAPES, "lowering": LOWERINGS,
}  # fmt: skip


def _operand_faults(row: Mapping[str, Any]) -> Iterator[str]:
    for text in row["operands"]:
        operand = _operand(str(text))
        if not operand.name.isidentifier() or operand.types not in OPERAND_TYPES:
            yield f"operand {text!r} is not of the form name, name:type, name* or name?"
    for name, text in row["attrs"].items():
        attr = _attr(name, text)
        if attr.type not in ATTR_TYPES:
            yield f"attribute {name}: {attr.type!r} is none of {', '.join(sorted(ATTR_TYPES))}"


def _cuda_faults(row: Mapping[str, Any]) -> Iterator[str]:
    cuda = row["cuda"]
    if "none" in cuda:
        if len(cuda) > 1:
            yield "cuda has both 'none' and expressions"
        return
    for name in row["types"]:
        if name not in cuda:
            yield f"cuda lacks the dtype class {name!r}"
    for key in cuda:
        if not set(key.split("->")) <= set(CLASSES):
            yield f"cuda: unknown dtype class {key!r}"


def _derivative_faults(row: Mapping[str, Any], known: set[str]) -> Iterator[str]:
    derivative = row["derivative"]
    if "none" in derivative:
        if len(derivative) > 1:
            yield "derivative has both 'none' and formulas"
        return
    operands = [_operand(str(text)) for text in row["operands"]]
    values = {o.name for o in operands} | set(row["attrs"]) | {"g", "y"}
    for operand in operands:
        if operand.types == "T" and operand.name not in derivative:
            yield f"derivative lacks the operand {operand.name!r}"
    for name, text in derivative.items():
        if name not in values - {"g", "y"}:
            yield f"derivative: {name!r} is no operand"
        try:
            used = list(names(parse(str(text))))
        except ValueError as fault:
            yield f"derivative of {name}: {fault}"
            continue
        for word, called in used:
            if word not in (known if called else values):
                yield f"derivative of {name}: unknown {'op' if called else 'name'} {word!r}"


def _tolerance_faults(row: Mapping[str, Any]) -> Iterator[str]:
    tolerance = row["tolerance"]
    if isinstance(tolerance, str):
        if tolerance != "exact":
            yield f"tolerance {tolerance!r} is neither 'exact' nor a mapping"
        return
    for dtype, pair in tolerance.items():
        if not isinstance(pair, dict) or set(pair) != {"rtol", "atol"}:
            yield f"tolerance of {dtype}: give rtol and atol"


def _spec(row: Mapping[str, Any]) -> OpSpec:
    tolerance = {} if row["tolerance"] == "exact" else row["tolerance"]
    return OpSpec(
        name=row["name"], kind=row["kind"],
        operands=tuple(_operand(text) for text in row["operands"]),
        attrs=tuple(_attr(name, text) for name, text in row["attrs"].items()),
        types=tuple(row["types"]), result=row["result"], shape=row["shape"], numpy=row["numpy"],
        cuda=MappingProxyType({k: str(v) for k, v in row["cuda"].items()}),
        derivative=MappingProxyType({k: str(v) for k, v in row["derivative"].items()}),
        lowering=row["lowering"], doc=row["doc"],
        tolerance=MappingProxyType(
            {k: (float(v["rtol"]), float(v["atol"])) for k, v in tolerance.items()}
        ),
    )  # fmt: skip


def _operand(text: str) -> Operand:
    name, _, types = text.partition(":")
    return Operand(name.rstrip("*?"), types or "T", name.endswith("*"), name.endswith("?"))


def _attr(name: str, text: Any) -> AttrSpec:
    kind, _, default = str(text).partition(" = ")
    if not default:
        return AttrSpec(name, kind)
    return AttrSpec(name, kind, _DEFAULTS[kind](default))


_DEFAULTS: Mapping[str, Any] = {"bool": lambda text: text == "true", "int": int, "float": float}
