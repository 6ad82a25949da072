"""The op table: every row has every column, and each column says something that is true."""

from __future__ import annotations

import ast
import re
import types
from typing import Any

import numpy as np
import pytest
import yaml
from ir.samples import array, dtypes_of

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import RegistryError
from ge2rt.ir.evaluate import apply
from ge2rt.ir.formula import names, parse
from ge2rt.ir.infer import SHAPE_RULES
from ge2rt.ir.make import input_node, make
from ge2rt.ir.meaning import MEANING
from ge2rt.ir.ops import (
    COLUMNS,
    FILE,
    OPS,
    SHAPES,
    derivative_functions,
    load,
    read_ops,
)
from ge2rt.spec.numeric import erf

TEXT = FILE.read_text(encoding="utf-8")
ROWS = yaml.safe_load(TEXT)["ops"]


def test_every_op_has_a_meaning_and_a_shape() -> None:
    assert set(MEANING) == set(OPS)
    assert set(SHAPE_RULES) == set(SHAPES) == {spec.shape for spec in OPS.values()}
    assert list(OPS) == [row["name"] for row in ROWS]
    assert len(OPS) == 98


def table(*rows: dict[str, Any]) -> str:
    functions = dict(derivative_functions())
    return yaml.safe_dump({"ops": list(rows), "derivative_functions": functions})


def faults_of(row: dict[str, Any]) -> tuple[str, ...]:
    text = table(*[r for r in ROWS if r["name"] != row.get("name")], row)
    with pytest.raises(RegistryError) as caught:
        read_ops(text, "table")
    assert "mend the rows named" in str(caught.value)
    return caught.value.faults


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_is_named_with_its_row(column: str) -> None:
    for row in (ROWS[0], ROWS[30]):
        without = {key: value for key, value in row.items() if key != column}
        title = f"op {row['name']!r}" if column != "name" else f"row {len(ROWS) + 1}"
        assert any(f"{title}: column {column!r} is missing" in f for f in faults_of(without))


BROKEN = [
    ({"kind": "point"}, "kind 'point' is none of"),
    ({"types": ["float", "half"]}, "types 'half' is none of bool, float"),
    ({"types": ["float", "int"]}, "cuda lacks the dtype class 'int'"),
    ({"result": "f33"}, "result 'f33' is none of"),
    ({"shape": "round"}, "shape 'round' is none of"),
    ({"lowering": "magic"}, "lowering 'magic' is none of"),
    ({"operands": ["x:thing"]}, "operand 'x:thing' is not of the form"),
    ({"attrs": {"axis": "number"}}, "attribute axis: 'number' is none of"),
    ({"cuda": {"float": "x", "half": "x"}}, "cuda: unknown dtype class 'half'"),
    ({"cuda": {"float": "x", "none": "no"}}, "both 'none' and expressions"),
    ({"derivative": {"z": "g"}}, "derivative: 'z' is no operand"),
    ({"derivative": {}}, "derivative lacks the operand 'x'"),
    ({"derivative": {"x": "g * exq(x)"}}, "derivative of x: unknown op 'exq'"),
    ({"derivative": {"x": "g * w"}}, "derivative of x: unknown name 'w'"),
    ({"derivative": {"x": "g *"}}, "'g *' is no formula: invalid syntax"),
    ({"derivative": {"x": "g ** 2"}}, "'g ** 2' cannot be used in a formula"),
    ({"derivative": {"x": "g", "none": "no"}}, "both 'none' and formulas"),
    ({"tolerance": "near"}, "tolerance 'near' is neither"),
    ({"tolerance": {"f32": 1e-6}}, "tolerance of f32: give rtol and atol"),
    ({"doc": 3}, "column 'doc' is a int"),
    ({"colour": "red"}, "unknown column 'colour'"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_faults_are_named(change: dict[str, Any], message: str) -> None:
    row = next(r for r in ROWS if r["name"] == "sqrt") | change
    found = faults_of(row)
    assert any(message in fault and "op 'sqrt'" in fault for fault in found), found


def test_all_faults_come_at_once_with_their_lines() -> None:
    text = TEXT.replace("numpy: np.exp(x),", "").replace("doc: sine}", "doc: sine, colour: red}")
    lines = text.splitlines()
    with pytest.raises(RegistryError) as caught:
        read_ops(text, "ops.yaml")
    exp = next(i for i, line in enumerate(lines, 1) if "{name: exp," in line)
    sine = next(i for i, line in enumerate(lines, 1) if "{name: sin," in line)
    assert caught.value.faults == (
        f"ops.yaml:{exp}: op 'exp': column 'numpy' is missing",
        f"ops.yaml:{sine}: op 'sin': unknown column 'colour'",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("ops: [", "YAML syntax"), ("- 1", "no list 'ops'"), ("ops: [3]", "a row is a mapping")],
)
def test_files_that_are_no_table(text: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        read_ops(text)


def test_a_name_is_taken_once() -> None:
    with pytest.raises(RegistryError, match="op 'full': the name is taken by an earlier row"):
        read_ops(table(*ROWS, ROWS[0]))


def test_the_table_can_be_read_again() -> None:
    first = OPS["exp"]
    load.cache_clear()
    assert OPS["exp"] == first
    assert OPS["exp"] is not first


def test_expressions_by_class() -> None:
    assert OPS["exp"].expression("float") == "exp(x)"
    assert OPS["cast"].expression("int", "bool") == "x != 0"
    assert OPS["cast"].expression("int", "float") == "static_cast<R>(x)"
    with pytest.raises(RegistryError, match="exp is not for int"):
        OPS["exp"].expression("int")
    with pytest.raises(RegistryError, match="a kernel of its own"):
        OPS["matmul"].expression("float")
    assert OPS["exp"].within("f32") == (2e-6, 1e-6)
    assert OPS["abs"].within("f32") == (0.0, 0.0)


@pytest.mark.parametrize("spec", OPS.values(), ids=OPS)
def test_expressions_name_operands_only(spec: Any) -> None:
    """Each expression reads its operands and nothing that C++ or the template does not give."""
    given = {operand.name for operand in spec.operands} if spec.pointwise else {"a", "b"}
    for key, text in spec.cuda.items():
        if key == "none":
            continue
        words = set(_words(text))
        assert words & given, text
        unknown = words - given - _CPP - {"T", "R", "D"}
        assert not unknown, f"{spec.name}: {unknown}"


_CPP = {
    "static_cast", "unsigned", "long", "int", "sizeof", "ull", "fabs", "sqrt", "rsqrt", "cbrt",
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc",
    "rint", "isinf", "isfinite", "signbit", "floor_divide", "floor_modulo", "power", "pow", "atan2",
    "hypot", "fmax", "fmin", "fmod", "copysign",
}  # fmt: skip


def _words(text: str) -> list[str]:
    return re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)


@pytest.mark.parametrize("spec", OPS.values(), ids=OPS)
def test_derivatives_name_known_things(spec: Any) -> None:
    functions = set(OPS) | set(derivative_functions())
    values = {o.name for o in spec.operands} | {a.name for a in spec.attrs} | {"g", "y"}
    for operand, text in spec.derivative.items():
        if operand == "none":
            assert text, spec.name
            continue
        for name, called in names(parse(text)):
            assert name in (functions if called else values)


def test_differentiable_floats_have_derivatives() -> None:
    without = {n for n, s in OPS.items() if "none" in s.derivative and "float" in s.types}
    assert without == {
        "full", "iota", "detach", "sign", "floor", "ceil", "trunc", "round", "isnan", "isinf",
        "isfinite", "signbit", "floordiv", "eq", "ne", "lt", "le", "gt", "ge", "argmax", "argmin",
        "argsort", "gemm_bias_act", "attention",
    }  # fmt: skip


# operands that the texts of column `numpy` are tried on
_TRIED = [n for n, s in OPS.items() if s.kind in ("pointwise", "reduce", "scan", "sort")]
_ATTRS: dict[str, Any] = {"axes": (1,), "axis": 1, "dtype": "f64"}


@pytest.mark.parametrize("op", _TRIED)
def test_the_numpy_text_is_the_meaning(op: str) -> None:
    """The documented NumPy expression gives what the evaluator gives."""
    spec = OPS[op]
    code = compile(spec.numpy, op, "eval")
    ast.parse(spec.numpy, mode="eval")
    rng = np.random.default_rng(len(op))
    for dtype in dtypes_of(op):
        if dtype in ("f16", "bf16"):
            continue  # the text is about the dtype that computes
        kinds = ["bool" if o.types == "bool" else dtype for o in spec.operands]
        operands = [array(rng, (5, 9), kind) for kind in kinds]
        if op in ("floordiv", "mod", "fmod", "pow", "shr", "shl") and dtype[0] in "iu":
            operands[1] = np.abs(operands[1] % 5) + operands[1].dtype.type(1)
        attrs = {a.name: _ATTRS[a.name] for a in spec.attrs}
        names_ = {o.name: v for o, v in zip(spec.operands, operands, strict=True)}
        shown = attrs | ({"dtype": DTYPES[attrs["dtype"]].numpy} if "dtype" in attrs else {})
        scope = {"np": np, "erf": erf, **names_, **shown}
        with np.errstate(all="ignore"):
            wanted = types.FunctionType(code, scope)()
        inputs = [input_node((5, 9), kind) for kind in kinds]
        found = apply(make(op, *inputs, **attrs), operands)
        np.testing.assert_array_equal(found, np.asarray(wanted).astype(found.dtype))
