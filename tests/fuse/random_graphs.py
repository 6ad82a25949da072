"""Random graphs over all dtypes, and arrays for them; the same seed gives the same graph."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DTYPES
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import input_node, make

FLOATS = ("f32", "f64", "f16", "bf16")
INTS = ("i8", "i32", "i64", "u8", "u32", "u64", "i16", "u16")
_FLOAT_UNARY = (
    "neg", "abs", "sign", "square", "tanh", "sigmoid", "floor", "ceil", "trunc", "round", "sin",
    "erf", "arctan",
)  # fmt: skip
_FLOAT_BINARY = ("add", "sub", "mul", "maximum", "minimum", "fmax", "fmin", "copysign", "mod")
_INT_UNARY = ("neg", "abs", "sign", "square", "invert")
_INT_BINARY = (
    "add", "sub", "mul", "floordiv", "mod", "fmod", "maximum", "minimum", "bitand", "bitor",
    "bitxor", "shl", "shr",
)  # fmt: skip
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


class Maker:
    """Grows one graph, op by op."""

    def __init__(self, seed: int, exact: bool = False) -> None:
        self.random = random.Random(seed)
        self.values: list[Node] = []
        self.inputs: list[Node] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.numbers = np.random.default_rng(seed)
        self.exact = exact

    def graph(self, ops: int) -> Graph:
        shape = tuple(
            self.random.choice((1, 2, 3, 5, 8, 33)) for _ in range(self.random.randint(0, 3))
        )
        for _ in range(self.random.randint(1, 3)):
            self.add_input(shape)
        while len(self.values) < ops + len(self.inputs):
            self.grow()
        count = self.random.randint(1, 3)
        outputs = [self.values[-1], *self.random.sample(self.values, min(count, len(self.values)))]
        return Graph("random", tuple(self.inputs), tuple(outputs))

    def add_input(self, shape: tuple[int, ...]) -> None:
        dtype = self.random.choice((*(() if self.exact else FLOATS), *INTS, "bool", "i64"))
        node = input_node(shape, dtype)
        array = self.array(shape, dtype)
        if self.random.random() < 0.3 and array.ndim:
            wide = np.repeat(array, 2, axis=-1)
            array = wide[..., ::2]
        elif self.random.random() < 0.3 and array.ndim > 1:
            array = np.asfortranarray(array)
        self.inputs.append(node)
        self.values.append(node)
        self.arrays.append(array)

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        to = DTYPES[dtype].numpy
        if dtype == "bool":
            return np.asarray(self.numbers.random(shape) < 0.5)
        if DTYPES[dtype].is_float:
            return np.asarray(self.numbers.normal(size=shape)).astype(to)
        low = 0 if DTYPES[dtype].kind == "uint" else -50
        return np.asarray(self.numbers.integers(low, 50, size=shape)).astype(to)

    def grow(self) -> None:
        value = self.random.choice(self.values[-5:])
        kinds = [
            "unary",
            "binary",
            "view",
            "binary",
            "compare",
            "cast",
            "reduce",
            "index",
            "select",
        ]
        found = getattr(self, f"_{self.random.choice(kinds)}")(value)
        if found is not None and found.type.size <= 4000 and len(found.shape) <= 4:
            self.values.append(found)

    def _unary(self, x: Node) -> Node:
        kind = DTYPES[x.dtype].kind
        if kind == "bool":
            return make("logical_not", x)
        names = _FLOAT_UNARY if kind == "float" else _INT_UNARY
        name = self.random.choice(names)
        return make("square" if kind == "uint" and name == "neg" else name, x)

    def _binary(self, x: Node) -> Node:
        other = self.like(x)
        kind = DTYPES[x.dtype].kind
        if kind == "bool":
            return make(self.random.choice(("logical_and", "logical_or", "logical_xor")), x, other)
        return make(self.random.choice(_FLOAT_BINARY if kind == "float" else _INT_BINARY), x, other)

    def _compare(self, x: Node) -> Node:
        return make(self.random.choice(_COMPARE), x, self.like(x))

    def _cast(self, x: Node) -> Node | None:
        to = self.random.choice((*(() if self.exact else FLOATS), *INTS, "bool"))
        if DTYPES[x.dtype].is_float and DTYPES[to].is_integer:
            x = make("clamp", x, *(self.number(v, x) for v in (0.0, 100.0)))  # NaN casts as it may
            x = make("select", make("eq", x, x), x, self.number(1.0, x))
        return make("cast", x, dtype=to)

    def _select(self, x: Node) -> Node:
        other = self.like(x)
        return make("select", make(self.random.choice(_COMPARE), other, x), x, other)

    def _view(self, x: Node) -> Node:
        kind = self.random.choice(("transpose", "reshape", "slice", "broadcast"))
        rank = len(x.shape)
        if kind == "transpose":
            return make("transpose", x, perm=tuple(self.random.sample(range(rank), rank)))
        if kind == "reshape":
            factors = [e for e in x.shape if e != 1]
            self.random.shuffle(factors)
            if len(factors) > 1 and self.random.random() < 0.5:
                factors = [factors[0] * factors[1], *factors[2:]]
            return make("reshape", x, shape=tuple(factors))
        if kind == "broadcast":
            return make("broadcast", x, shape=(self.random.choice((1, 2, 3)), *x.shape))
        start, step, shape = [], [], []
        for extent in x.shape:
            by = self.random.choice((1, 1, -1, 2)) if extent > 1 else 1
            count = self.random.randint(1, (extent - 1) // abs(by) + 1)
            first = self.random.randint(0, extent - 1 - (count - 1) * abs(by))
            start.append(first if by > 0 else first + count - 1)
            step.append(by)
            shape.append(count)
        return make("slice", x, start=tuple(start), step=tuple(step), shape=tuple(shape))

    def _reduce(self, x: Node) -> Node | None:
        rank = len(x.shape)
        if not rank or x.type.size == 0:
            return None
        axes = tuple(sorted(self.random.sample(range(rank), self.random.randint(1, rank))))
        if x.dtype == "bool":
            return make(self.random.choice(("any", "all", "max", "min")), x, axes=axes)
        op = self.random.choice(("sum", "max", "min", "argmax", "argmin", "sum", "prod"))
        if op == "prod" and not DTYPES[x.dtype].is_integer:
            op = "sum"
        if op.startswith("arg"):
            return make(op, x, axis=axes[0])
        found = make(op, x, axes=axes)
        if self.random.random() < 0.6:
            kept = tuple(1 if a in axes else e for a, e in enumerate(x.shape))
            back = make("broadcast", make("reshape", found, shape=kept), shape=x.shape)
            return make("maximum", back, x)
        return found

    def _index(self, x: Node) -> Node | None:
        rank = len(x.shape)
        if not rank or 0 in x.shape:
            return None
        kind = self.random.choice(("gather", "concat", "pad", "iota"))
        axis = self.random.randrange(rank)
        if kind == "iota":
            if x.dtype == "bool":
                return None
            return make("maximum", x, make("iota", shape=x.shape, dtype=x.dtype, axis=axis))
        if kind == "pad":
            low = tuple(self.random.randint(0, 2) for _ in x.shape)
            high = tuple(self.random.randint(0, 2) for _ in x.shape)
            return make("pad", x, low=low, high=high, value=1)
        if kind == "concat":
            return make("concat", x, self.like(x), axis=axis)
        index = input_node((2, 3), "i64")
        self.inputs.append(index)
        self.values.insert(0, index)
        self.arrays.append(self.numbers.integers(0, x.shape[0], size=(2, 3)))
        return make("gather", x, index)

    def like(self, x: Node) -> Node:
        """Another value of the same type."""
        fits = [v for v in self.values if v.type == x.type]
        small = [
            v for v in self.values
            if v.dtype == x.dtype and len(v.shape) <= len(x.shape) and v.shape != x.shape
            and all(a in (1, b) for a, b in zip(v.shape[::-1], x.shape[::-1], strict=False))
        ]  # fmt: skip
        if small and self.random.random() < 0.5:
            return make("broadcast", self.random.choice(small), shape=x.shape)
        if self.random.random() < 0.3:
            return self.number(self.random.choice((0, 1, 2, 3, 7)), x)
        return self.random.choice(fits)

    def number(self, value: float, x: Node) -> Node:
        given = bool(value) if x.dtype == "bool" else value
        if DTYPES[x.dtype].is_integer:
            given = int(value)
        return make("broadcast", make("full", shape=(), dtype=x.dtype, value=given), shape=x.shape)


def difference(got: Any, want: Any) -> float:
    """The largest difference, relative above 1; NaN and infinities must agree."""
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if got.dtype.kind in "iub":
        return float(np.count_nonzero(got != want))
    a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b) / np.maximum(1.0, np.abs(b)))
    return float(np.max(np.nan_to_num(gap, nan=np.inf), initial=0.0))
