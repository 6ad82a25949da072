"""Ufuncs: each is resolved as NumPy resolves it, its operands cast, broadcast and combined."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.graph import Node
from ge2rt.jit.intervals import result_span
from ge2rt.jit.promote import (
    Kind,
    cast,
    common_shape,
    full,
    join,
    kind_of,
    known,
    lift,
    materialise,
    resolve,
)
from ge2rt.jit.scope import emit, where
from ge2rt.jit.table import UFUNCS, rule
from ge2rt.jit.traced import Traced

Emit: TypeAlias = "Callable[[list[Node], str], Node | tuple[Node, ...]]"


@dataclass(frozen=True)
class Pointwise:
    """A ufunc: how its nodes are made of operands that have the loop's dtypes, and result's name.

    ``python`` computes it on plain Python numbers, for weak operands.
    """

    build: Emit

    def __call__(self, ufunc: np.ufunc, *values: Any, dtype: Any = None) -> Any:
        """What the call of ``ufunc`` builds."""
        if len(values) != ufunc.nin:
            raise InvalidArgumentError(
                f"numpy.{ufunc.__name__} takes {ufunc.nin} operands", got=str(len(values)),
                where=where(), next_step="assign the result instead of passing out",
            )  # fmt: skip
        early = _early_comparison(ufunc, values)
        if early is not None:
            return early
        python = dtype is None and all(map(_is_number, values))
        if python:
            values = _as_python_does(ufunc.__name__, values)
        kinds = tuple(kind_of(value) for value in values)
        if ufunc.__name__ == "power":
            _know_exponent(kinds, values[1])
        leaves = _leaves(values)
        span = result_span(ufunc.__name__, values, leaves) if python else None
        loop = resolve(ufunc, kinds, dtype)
        shape = common_shape(*values)
        nodes = [materialise(v, d, shape) for v, d in zip(values, loop, strict=False)]
        made = self.build(nodes, dtype_of(loop[-1]).name)
        weak = _weak_result(loop[-1]) if python else None
        if isinstance(made, tuple):
            return tuple(Traced(node, weak=weak, leaves=leaves, span=span) for node in made)
        return Traced(made, weak=weak, leaves=leaves, span=span)


def _know_exponent(kinds: tuple[Kind, ...], exponent: Any) -> None:
    """Have a Python exponent of integers compiled in: a negative one is refused, as by NumPy."""
    whole = all(kind is int or (kind is not float and np.dtype(kind).kind in "iub")
                for kind in kinds)  # fmt: skip
    if whole and isinstance(exponent, Traced) and exponent.leaves:
        exponent.ask("**")


def _leaves(values: tuple[Any, ...]) -> frozenset[int]:
    """The Python numbers of the call that a result is made of, if it is made of nothing else."""
    found: frozenset[int] = frozenset()
    for value in values:
        if isinstance(value, Traced) and not value.leaves:
            return frozenset()
        if isinstance(value, Traced):
            found |= value.leaves
        elif not isinstance(value, (bool, int, float)):
            return frozenset()
    return found


def _is_number(value: Any) -> bool:
    """Whether it is a number of Python's."""
    if isinstance(value, Traced):
        return value.weak is not None
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def _as_python_does(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python's truth values are integers to all but the logical functions, and `&`, `|`, `^`."""
    among = name.startswith("bitwise") and all(map(_is_truth, values))
    if among or name.startswith("logical"):
        return values
    return tuple(_as_integer(value) if _is_truth(value) else value for value in values)


def _is_truth(value: Any) -> bool:
    return value.weak is bool if isinstance(value, Traced) else isinstance(value, bool)


def _as_integer(value: Any) -> Any:
    if not isinstance(value, Traced):
        return int(value)
    return Traced(cast(value.node, np.int64), weak=int, leaves=value.leaves, span=(0, 1))


def _weak_result(result: np.dtype[Any]) -> type:
    """Python numbers among themselves stay Python numbers."""
    if result == np.bool_:
        return bool
    return float if dtype_of(result).is_float else int


def direct(op: str) -> Pointwise:
    """A ufunc that is one op."""
    return Pointwise(lambda nodes, result: emit(op, *nodes))


def _identity(nodes: list[Node], result: str) -> Node:
    return nodes[0]


def _whole(op: str) -> Pointwise:
    """Rounding: integers are whole already."""
    return Pointwise(
        lambda nodes, result: emit(op, *nodes) if nodes[0].type.element.is_float else nodes[0]
    )


def _test(op: str, otherwise: bool) -> Pointwise:
    """A question about floats that integers answer alike."""

    def build(nodes: list[Node], result: str) -> Node:
        if nodes[0].type.element.is_float:
            return emit(op, nodes[0])
        return full(nodes[0].shape, np.bool_, otherwise)

    return Pointwise(build)


def _scaled(factor: float) -> Pointwise:
    """A product with a constant."""

    def build(nodes: list[Node], result: str) -> Node:
        return emit("mul", nodes[0], full(nodes[0].shape, nodes[0].dtype, factor))

    return Pointwise(build)


def _absolute(nodes: list[Node], result: str) -> Node:
    return nodes[0] if nodes[0].dtype == "bool" else emit("abs", nodes[0])


def _reciprocal(nodes: list[Node], result: str) -> Node:
    (x,) = nodes
    if x.type.element.is_float:
        return emit("reciprocal", x)
    inverse = _truncated_quotient(full(x.shape, x.dtype, 1), x)
    if x.dtype not in ("i32", "i64"):
        return inverse
    low = full(x.shape, x.dtype, int(np.iinfo(x.type.element.numpy).min))  # of 0, as on x86
    return emit("select", emit("eq", x, full(x.shape, x.dtype, 0)), low, inverse)


def _truncated_quotient(a: Node, b: Node) -> Node:
    """C's integer division: toward zero."""
    floored = emit("floordiv", a, b)
    if a.type.element.kind == "uint":
        return floored
    zero = full(a.shape, a.dtype, 0)
    short = emit("ne", emit("mul", floored, b), a)
    apart = emit("logical_xor", emit("lt", a, zero), emit("lt", b, zero))
    up = emit("logical_and", emit("logical_and", short, apart), emit("ne", b, zero))
    return emit("add", floored, emit("cast", up, dtype=a.dtype))


def _fmod(nodes: list[Node], result: str) -> Node:
    a, b = nodes
    if a.type.element.is_float:
        return emit("fmod", a, b)
    if a.type.element.kind == "uint":
        return emit("mod", a, b)
    remainder = emit("mod", a, b)  # the sign of b; fmod has that of a
    zero = full(a.shape, a.dtype, 0)
    apart = emit("logical_xor", emit("lt", a, zero), emit("lt", b, zero))
    wrong = emit("logical_and", apart, emit("ne", remainder, zero))
    return emit("select", wrong, emit("sub", remainder, b), remainder)


def _by_kind(floats: str, others: str) -> Pointwise:
    """One op for floats, another for the rest."""
    return Pointwise(
        lambda nodes, result: emit(floats if nodes[0].type.element.is_float else others, *nodes)
    )


def _divmod(nodes: list[Node], result: str) -> tuple[Node, Node]:
    return emit("floordiv", *nodes), emit("mod", *nodes)


def _modf(nodes: list[Node], result: str) -> tuple[Node, Node]:
    whole = emit("trunc", nodes[0])
    infinite = emit("isinf", nodes[0])
    rest = emit("sub", nodes[0], whole)
    zero = full(whole.shape, whole.dtype, 0.0)
    return emit("copysign", emit("select", infinite, zero, rest), nodes[0]), whole


def _logaddexp2(nodes: list[Node], result: str) -> Node:
    ln2 = full(nodes[0].shape, nodes[0].dtype, math.log(2.0))
    scaled = [emit("mul", node, ln2) for node in nodes]
    return emit("div", emit("logaddexp", *scaled), ln2)


def _heaviside(nodes: list[Node], result: str) -> Node:
    x, middle = nodes
    zero, one = full(x.shape, x.dtype, 0.0), full(x.shape, x.dtype, 1.0)
    step = emit("select", emit("lt", x, zero), zero, one)
    return emit("select", emit("isnan", x), x, emit("select", emit("eq", x, zero), middle, step))


def _power(nodes: list[Node], result: str) -> Node:
    base, exponent = nodes
    if base.type.element.kind == "int" and exponent.op == "full" and exponent.attrs["value"] < 0:  # type: ignore[operator]
        raise InvalidArgumentError(
            "integers to negative integer powers are not integers", where=where(),
            next_step="make the base or the exponent a float",
        )  # fmt: skip
    return emit("pow", base, exponent)


def _logical(op: str) -> Pointwise:
    """Operands are taken for true where they are not 0."""
    return Pointwise(lambda nodes, result: emit(op, *(cast(node, np.bool_) for node in nodes)))


_SIGNED_ORDER = {
    # (op of a signed a with an unsigned b): what holds where a is negative
    "eq": False, "ne": True, "lt": True, "le": True, "gt": False, "ge": False,
}  # fmt: skip
_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _comparison(op: str) -> Pointwise:
    def build(nodes: list[Node], result: str) -> Node:
        a, b = nodes
        if a.dtype == b.dtype:
            return emit(op, a, b)
        if a.dtype == "u64":  # NumPy compares i64 with u64 by value
            return _signed_unsigned(_SWAPPED[op], b, a)
        return _signed_unsigned(op, a, b)

    return Pointwise(build)


def _signed_unsigned(op: str, a: Node, b: Node) -> Node:
    negative = emit("lt", a, full(a.shape, a.dtype, 0))
    known = full(a.shape, np.bool_, _SIGNED_ORDER[op])
    return emit("select", negative, known, emit(op, cast(a, "u64"), b))


_DIRECT = {
    "add": "add", "multiply": "mul", "divide": "div", "subtract": "sub",
    "floor_divide": "floordiv", "remainder": "mod", "negative": "neg", "sign": "sign",
    "square": "square", "sqrt": "sqrt", "cbrt": "cbrt", "exp": "exp", "exp2": "exp2",
    "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "arcsin", "arccos": "arccos",
    "arctan": "arctan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "arcsinh",
    "arccosh": "arccosh", "arctanh": "arctanh", "arctan2": "atan2", "hypot": "hypot",
    "maximum": "maximum", "minimum": "minimum", "copysign": "copysign",
    "logaddexp": "logaddexp", "bitwise_and": "bitand", "bitwise_or": "bitor",
    "bitwise_xor": "bitxor", "invert": "invert", "left_shift": "shl", "right_shift": "shr",
    "erf": "erf", "expit": "sigmoid", "float_power": "pow",
}  # fmt: skip

UFUNCS.update({name: direct(op) for name, op in _DIRECT.items()})
UFUNCS.update({
    "positive": Pointwise(_identity), "conjugate": Pointwise(_identity),
    "absolute": Pointwise(_absolute), "fabs": Pointwise(_absolute),
    "reciprocal": Pointwise(_reciprocal), "power": Pointwise(_power),
    "floor": _whole("floor"), "ceil": _whole("ceil"), "trunc": _whole("trunc"),
    "rint": _whole("round"),
    "isnan": _test("isnan", False), "isinf": _test("isinf", False),
    "isfinite": _test("isfinite", True), "signbit": _test("signbit", False),
    "fmax": _by_kind("fmax", "maximum"), "fmin": _by_kind("fmin", "minimum"),
    "fmod": Pointwise(_fmod), "divmod": Pointwise(_divmod), "modf": Pointwise(_modf),
    "logaddexp2": Pointwise(_logaddexp2), "heaviside": Pointwise(_heaviside),
    "deg2rad": _scaled(math.pi / 180), "radians": _scaled(math.pi / 180),
    "rad2deg": _scaled(180 / math.pi), "degrees": _scaled(180 / math.pi),
    "logical_and": _logical("logical_and"), "logical_or": _logical("logical_or"),
    "logical_xor": _logical("logical_xor"), "logical_not": _logical("logical_not"),
    "equal": _comparison("eq"), "not_equal": _comparison("ne"), "less": _comparison("lt"),
    "less_equal": _comparison("le"), "greater": _comparison("gt"),
    "greater_equal": _comparison("ge"),
})  # fmt: skip


def _early_comparison(ufunc: np.ufunc, values: tuple[Any, ...]) -> Traced | None:
    """A Python integer that the other's integer dtype cannot hold: the answer is one for all."""
    if ufunc.nin != 2 or ufunc.__name__ not in _ORDER:
        return None
    for number, other in (values, values[::-1]):
        if type(number) is int and isinstance(other, Traced) and not other.weak:
            element = dtype_of(other.dtype)
            if not element.is_integer:
                continue
            info = np.iinfo(other.dtype)
            if not info.min <= number <= info.max:
                sample = 0 if values[0] is other else number  # any element is like 0 to it
                swapped = number if values[0] is other else 0
                answer = _ORDER[ufunc.__name__](sample, swapped)
                return Traced(full(other.shape, np.bool_, answer))
    return None


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b, "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b, "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}  # fmt: skip


def power_operator(base: Any, exponent: Any) -> Any:
    """``base ** exponent``, with NumPy's short cuts for the exponents 2, 1, 0.5 and -1."""
    if kind_of(base) == np.bool_ and isinstance(exponent, Traced) and exponent.leaves:
        exponent.ask("**")  # the dtype of the result depends on it
    if type(exponent) in (int, float) and not base.weak:
        short = _POWERS.get(float(exponent))
        whole = type(exponent) is int and exponent == 2  # 2.0 makes floats of integers
        if short is not None and (whole or dtype_of(base.dtype).is_float):
            return UFUNCS[short](getattr(np, short), base)
    if kind_of(base) is int and kind_of(exponent) is int:
        if isinstance(exponent, Traced):
            exponent.ask("**")  # where it is negative, Python has a float
        elif exponent < 0:
            base.ask("**")
    return UFUNCS["power"](np.power, base, exponent)


_POWERS = {2.0: "square", 1.0: "positive", 0.5: "sqrt", -1.0: "reciprocal"}


@rule(np.where)
def choose(condition: Any, *branches: Any) -> Traced:
    """``numpy.where`` with three arguments."""
    if len(branches) != 2:
        from ge2rt.jit.faults import not_covered

        raise not_covered(
            "numpy.where with one argument", where(), "the result's shape depends on values",
            "use numpy.where(condition, a, b)",
        )  # fmt: skip
    dtype = join([kind_of(branch) for branch in branches])
    shape = common_shape(condition, *branches)
    nodes = [materialise(branch, dtype, shape) for branch in branches]
    return Traced(emit("select", materialise(condition, np.bool_, shape), *nodes))


@rule(np.clip)
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None,
    dtype: Any = None,
) -> Traced:  # fmt: skip
    """``numpy.clip``: NaN passes; a bound may be None, or an int that no integer is beyond."""
    low = a_min if a_min is not None else min
    high = a_max if a_max is not None else max
    element = dtype_of(lift(a).dtype)
    if element.is_integer:
        info = np.iinfo(element.numpy)
        low = None if type(low) is int and low <= info.min else low
        high = None if type(high) is int and high >= info.max else high
    bounds = [bound for bound in (low, high) if bound is not None]
    if not bounds:
        return Traced(lift(a).node)
    if len(bounds) == 1:
        ufunc = np.maximum if high is None else np.minimum
        made: Traced = UFUNCS[ufunc.__name__](ufunc, a, bounds[0], dtype=dtype)
        return made
    kind = join([kind_of(value) for value in (a, *bounds)]) if dtype is None else known(dtype)
    shape = common_shape(a, *bounds)
    return Traced(emit("clamp", *(materialise(value, kind, shape) for value in (a, low, high))))


@rule(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Traced:
    """``numpy.select``: the first condition that holds decides."""
    result = default
    dtype = join([kind_of(value) for value in (*choicelist, default)])
    shape = common_shape(*condlist, *choicelist, default)
    result = materialise(default, dtype, shape)
    for condition, branch in zip(reversed(condlist), reversed(choicelist), strict=True):
        held = materialise(condition, np.bool_, shape)
        result = emit("select", held, materialise(branch, dtype, shape), result)
    return Traced(result)


@rule(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Traced:
    """``numpy.nan_to_num``."""
    value = lift(x)
    if not dtype_of(value.dtype).is_float:
        return Traced(value.node)
    info = _limits(value.dtype)
    node, shape, dtype = value.node, value.shape, value.dtype
    rows = (
        (emit("isnan", node), nan),
        (emit("eq", node, full(shape, dtype, np.inf)), info[1] if posinf is None else posinf),
        (emit("eq", node, full(shape, dtype, -np.inf)), info[0] if neginf is None else neginf),
    )
    for condition, replacement in rows:
        node = emit("select", condition, materialise(replacement, dtype, shape), node)
    return Traced(node)


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.name == "bfloat16":
        most = float.fromhex("0x1.fep127")
        return -most, most
    info = np.finfo(dtype)
    return float(info.min), float(info.max)


@rule(np.round, np.around)
def round_(a: Any, decimals: int = 0) -> Traced:
    """``numpy.round`` to a number of decimals: scaled, rounded to even, scaled back."""
    value = lift(a)
    if not dtype_of(value.dtype).is_float:
        if decimals >= 0:
            return Traced(value.node)
        from ge2rt.jit.faults import not_covered

        raise not_covered("numpy.round of integers to negative decimals", where())
    if decimals == 0:
        return Traced(emit("round", value.node))
    factor = full(value.shape, value.dtype, 10.0 ** abs(decimals))
    first, last = ("mul", "div") if decimals > 0 else ("div", "mul")
    return Traced(emit(last, emit("round", emit(first, value.node, factor)), factor))


@rule(np.fix)
def fix(x: Any) -> Traced:
    """``numpy.fix``."""
    made: Traced = UFUNCS["trunc"](np.trunc, x)
    return made


@rule(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Traced:
    """``numpy.isclose``."""
    x, y = lift(a), lift(b)
    near = abs(x - y) <= atol + rtol * abs(y)
    close = near & np.isfinite(y) | (x == y)
    if equal_nan:
        close = close | (np.isnan(x) & np.isnan(y))
    return close  # type: ignore[no-any-return]


@rule(np.real, np.real_if_close)
def real(val: Any) -> Traced:
    """``numpy.real``: nothing complex is traced."""
    return lift(val)


@rule(np.sinc)
def sinc(x: Any) -> Traced:
    """``numpy.sinc``."""
    scaled = np.pi * lift(x)
    safe = choose(scaled == 0, 1.0e-20, scaled)
    return unary(np.sin, safe) / safe  # type: ignore[no-any-return]


def unary(ufunc: np.ufunc, value: Traced) -> Traced:
    """A ufunc of one operand on a traced array."""
    made: Traced = UFUNCS[ufunc.__name__](ufunc, value)
    return made


def outer(ufunc_name: str) -> Callable[..., Any]:
    """``ufunc.outer``: the ufunc of every pair."""

    def build(a: Any, b: Any, **options: Any) -> Any:
        x, y = lift(a), lift(b)
        wide = emit("reshape", x.node, shape=(*x.shape, *(1,) * len(y.shape)))
        first = Traced(wide, weak=x.weak)
        return UFUNCS[ufunc_name](getattr(np, ufunc_name), first, y, **options)

    return build
