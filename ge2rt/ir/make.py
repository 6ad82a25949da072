"""Making nodes: attributes made plain, operands checked, the result type inferred by the table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.ir.graph import Node, TensorType
from ge2rt.ir.infer import SHAPE_RULES
from ge2rt.ir.ops import OPS, Operand, OpSpec

ACTIVATIONS = (
    "none", "relu", "relu_where", "leaky_relu", "gelu", "gelu_erf", "silu", "sigmoid", "tanh",
)  # fmt: skip


class ValueRangeError(InvalidArgumentError, OverflowError):
    """-1: a Python integer that its dtype cannot hold."""


def make(op: str, *inputs: Node, where: str = "", **attrs: Any) -> Node:
    """A node of ``op``. ``where`` is the user's ``file:line``.

    Raises :class:`InvalidArgumentError` (``ValueError``) for shapes, axes and attributes that do
    not fit, :class:`InvalidTypeError` (``TypeError``) for dtypes, :class:`ValueRangeError`
    (``OverflowError``) for an integer out of range.
    """
    spec = OPS.get(op)
    if spec is None:
        raise InvalidArgumentError(f"unknown op {op!r}", next_step="ge2rt/ops.yaml lists the ops")
    plain = _attributes(spec, attrs)
    types = [node.type for node in inputs]
    try:
        dtype = _operand_dtype(spec, types) if types or spec.kind != "leaf" else ""
        result = _RESULT[spec.result](dtype, plain)
        if "value" in plain:
            plain["value"] = scalar(plain["value"], result)
        shape = SHAPE_RULES[spec.shape](op, types, plain)
    except InvalidArgumentError as fault:
        raise fault.about(where=where) from None
    return Node(op, inputs, TensorType(shape, result), MappingProxyType(plain), where)


def input_node(shape: Sequence[int], dtype: str, name: str = "", where: str = "") -> Node:
    """A graph input."""
    type_ = TensorType(_shape("input", "shape", shape), _dtype("input", "dtype", dtype))
    return Node("input", (), type_, MappingProxyType({"name": name}), where)


_RESULT: Mapping[str, Callable[[str, Mapping[str, Any]], str]] = {
    "same": lambda dtype, attrs: dtype,
    "dtype": lambda dtype, attrs: str(attrs["dtype"]),
    "bool": lambda dtype, attrs: "bool",
    "i64": lambda dtype, attrs: "i64",
}


def _operand_dtype(spec: OpSpec, types: Sequence[TensorType]) -> str:
    """The dtype that the operands of class T share."""
    roles = _roles(spec, len(types))
    dtypes = [t.dtype for t, role in zip(types, roles, strict=True) if role.types == "T"]
    indices = {t.dtype for t, role in zip(types, roles, strict=True) if role.types == "index"}
    for type_, role in zip(types, roles, strict=True):
        if not _ADMITTED[role.types](type_.dtype, spec, dtypes):
            raise InvalidTypeError(
                f"{spec.name}: operand {role.name} cannot be {type_.dtype}", detail="dtype",
                expected=_EXPECTED[role.types].format(types=", ".join(spec.types)),
                next_step="cast it first",
            )  # fmt: skip
    if len(set(dtypes)) > 1 or len(indices) > 1:
        raise InvalidTypeError(
            f"{spec.name}: operands differ in dtype", expected="one dtype", detail="dtype",
            got=", ".join(map(str, types)), next_step="cast the operands first",
        )  # fmt: skip
    return dtypes[0]


_ADMITTED: Mapping[str, Callable[[str, OpSpec, Sequence[str]], bool]] = {
    "T": lambda dtype, spec, _: DTYPES[dtype].kind in spec.types,
    "bool": lambda dtype, spec, _: dtype == "bool",
    "index": lambda dtype, spec, _: DTYPES[dtype].is_integer,
    "mask": lambda dtype, spec, dtypes: dtype in ("bool", "f32", dtypes[0]),
}
_EXPECTED = {
    "T": "a dtype of class {types}", "bool": "bool", "index": "integers",
    "mask": "bool, f32 or the dtype of the other operands",
}  # fmt: skip


def _roles(spec: OpSpec, count: int) -> list[Operand]:
    """The declared operand each of ``count`` inputs belongs to."""
    roles = list(spec.operands)
    if roles and roles[-1].many:
        roles += [roles[-1]] * (count - len(roles))
    while len(roles) > count and roles[-1].optional:
        roles.pop()
    if len(roles) != count:
        listed = ", ".join(o.name + "*" * o.many + "?" * o.optional for o in spec.operands)
        raise InvalidArgumentError(
            f"{spec.name}: {count} operands", expected=listed or "no operands",
            next_step=f"see the row {spec.name!r} of ge2rt/ops.yaml",
        )  # fmt: skip
    return roles


def _attributes(spec: OpSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes in the table's order, as plain values."""
    plain: dict[str, Any] = {}
    for attr in spec.attrs:
        value = given.get(attr.name, attr.default)
        if value is None:
            raise InvalidArgumentError(
                f"{spec.name}: attribute {attr.name!r} is missing", expected=f"a {attr.type}",
                next_step=f"see the row {spec.name!r} of ge2rt/ops.yaml",
            )  # fmt: skip
        plain[attr.name] = _PLAIN[attr.type](spec.name, attr.name, value)
    if len(given) > len(plain) or given.keys() - plain.keys():
        raise InvalidArgumentError(
            f"{spec.name}: unknown attribute {sorted(given.keys() - plain.keys())[0]!r}",
            expected=", ".join(plain) or "no attributes",
            next_step=f"see the row {spec.name!r} of ge2rt/ops.yaml",
        )  # fmt: skip
    return plain


def _int(op: str, name: str, value: Any) -> int:
    try:
        return int(operator.index(value))
    except TypeError:
        raise _wrong(op, name, value, "an int") from None


def _ints(op: str, name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)):
        raise _wrong(op, name, value, "a tuple of ints")
    return tuple(v if type(v) is int else _int(op, name, v) for v in value)


def _shape(op: str, name: str, value: Any) -> tuple[int, ...]:
    shape = _ints(op, name, value)
    if min(shape, default=0) < 0:
        raise InvalidArgumentError(
            f"{op}: {name} {shape} has a negative extent", detail="shape",
            next_step="work out unknown extents first",
        )  # fmt: skip
    return shape


def _dtype(op: str, name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in DTYPES or DTYPES[value].kind == "storage":
        known = ", ".join(d.name for d in DTYPES.values() if d.kind != "storage")
        raise _wrong(op, name, value, f"one of {known}")
    return value


def _float(op: str, name: str, value: Any) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    raise _wrong(op, name, value, "a float")


def _bool(op: str, name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _wrong(op, name, value, "a bool")


def _str(op: str, name: str, value: Any) -> str:
    if value not in ACTIVATIONS:
        raise InvalidArgumentError(
            f"{op}: unknown {name} {value!r}", expected=", ".join(ACTIVATIONS),
            next_step="apply another function to the result",
        )  # fmt: skip
    return str(value)


def _value(op: str, name: str, value: Any) -> bool | int | float:
    if isinstance(value, (bool, int, float)):
        return value
    raise _wrong(op, name, value, "a Python bool, int or float")


_PLAIN: Mapping[str, Callable[[str, str, Any], Hashable]] = {
    "int": _int, "ints": _ints, "axes": _ints, "shape": _shape, "dtype": _dtype,
    "float": _float, "bool": _bool, "str": _str, "value": _value,
}  # fmt: skip


def _wrong(op: str, name: str, value: Any, expected: str) -> InvalidTypeError:
    return InvalidTypeError(
        f"{op}: attribute {name!r} cannot be used", expected=expected, got=repr(value)[:80],
        next_step=f"see the row {op!r} of ge2rt/ops.yaml",
    )  # fmt: skip


def scalar(value: bool | int | float, dtype: str) -> bool | int | float:
    """A Python number as the plain value of a constant of ``dtype``: bool, int or float."""
    element = DTYPES[dtype]
    if element.is_float:
        try:
            return float(value)
        except OverflowError:
            raise _out_of_range(value, dtype) from None
    if element.kind == "bool":
        return bool(value)
    if isinstance(value, float) and not value.is_integer():
        raise InvalidTypeError(
            f"{value!r} is no value of {dtype}", expected="a whole number", detail="dtype",
            next_step="round it, or use a floating point dtype",
        )  # fmt: skip
    bits = element.itemsize * 8
    low, high = (-(1 << bits - 1), 1 << bits - 1) if element.kind == "int" else (0, 1 << bits)
    if not low <= value < high:
        raise _out_of_range(value, dtype)
    return int(value)


def _out_of_range(value: float, dtype: str) -> ValueRangeError:
    return ValueRangeError(
        f"{value!r:.80} does not fit {dtype}", detail="dtype",
        next_step="use a wider dtype, e.g. x.astype(numpy.int64)",
    )  # fmt: skip
