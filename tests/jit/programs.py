"""Random NumPy programs: up to 30 steps over a pool of values, with a bound on rounding errors.

While a program is made it is also run by NumPy. A value is *exact* as long as every way of
computing it gives the same bits (integers, bools, floats that are small whole numbers); only such
values go into steps that jump (comparisons, floor, argmax, sorting). All others carry a bound on
how far two right evaluations may lie apart, found by running each step on disturbed operands too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jit.compare import LAYOUTS, sample, strided

Array = Any
Draw = Callable[[np.random.Generator, Array], "Callable[..., Any] | None"]

_EPSILON = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}
_WHOLE = {2: 2048, 4: 2**20, 8: 2**40}  # whole numbers up to here are exact in floats of this size
_LARGEST = 1e3
_MOST_ELEMENTS = 400


@dataclass(frozen=True)
class Recipe:
    """A kind of step: operands, which dtypes (by NumPy's kind), whether it rounds, and jumps."""

    name: str
    draw: Draw
    operands: int = 1
    kinds: str = "fiub"
    rounds: bool = False
    jumps: bool = False


@dataclass
class Value:
    """What NumPy computed, and how far right answers may lie from it (0: not at all)."""

    array: Array
    error: float = 0.0


@dataclass
class Program:
    """Steps over a pool that starts with the inputs; calling it runs them on any arrays."""

    inputs: list[Array]
    steps: list[tuple[str, Callable[..., Any], tuple[int, ...]]] = field(default_factory=list)
    outputs: tuple[int, ...] = ()

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        pool = list(arrays)
        for _, call, places in self.steps:
            pool.append(call(*(pool[place] for place in places)))
        return tuple(pool[place] for place in self.outputs)

    def __str__(self) -> str:
        rows = [f"v{i} = {a.dtype}{list(a.shape)}" for i, a in enumerate(self.inputs)]
        for number, (name, _, places) in enumerate(self.steps, len(self.inputs)):
            rows.append(f"v{number} = {name}({', '.join(f'v{p}' for p in places)})")
        return "\n".join([*rows, f"return {self.outputs}"])


def make_program(seed: int, most: int = 30) -> tuple[Program, list[Value]]:
    """A program and what NumPy makes of it."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(1, 7, 2)
    shapes = [(a, b), (b,), (a, 1), (2, a, b), (a, b), ()]
    kinds = ("f32", "f32", "f64", "f16", "i32", "i64", "u8", "i8", "bool")
    inputs = [_input(rng, shapes[rng.integers(6)], str(rng.choice(kinds))) for _ in range(3)]
    program = Program([strided(x, str(rng.choice(LAYOUTS))) for x in inputs])
    pool = [Value(x) for x in program.inputs]
    wanted = int(rng.integers(3, most + 1))
    for _ in range(20 * wanted):
        if len(program.steps) == wanted:
            break
        _add_step(rng, program, pool)
    last = range(max(3, len(pool) - 5), len(pool))
    program.outputs = tuple(last)
    return program, [pool[place] for place in last]


def _input(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    array = sample(rng, tuple(int(e) for e in shape), dtype)
    return np.round(array) if array.dtype.kind == "f" and rng.random() < 0.6 else array


def _add_step(rng: np.random.Generator, program: Program, pool: list[Value]) -> None:
    recipe = RECIPES[rng.integers(len(RECIPES))]
    # prefer late values, so that programs are deep
    places = [min(int(rng.integers(len(pool)) + rng.integers(3)), len(pool) - 1)
              for _ in range(recipe.operands)]  # fmt: skip
    values = [pool[place] for place in places]
    if any(value.array.dtype.kind not in recipe.kinds for value in values):
        return
    if recipe.jumps and any(value.error for value in values):
        return
    call = recipe.draw(rng, values[0].array)
    if call is None:
        return
    made = evaluated(recipe, call, values)
    if made is not None:
        program.steps.append((recipe.name, call, tuple(places)))
        pool.append(made)


def evaluated(recipe: Recipe, call: Callable[..., Any], values: Sequence[Value]) -> Value | None:
    """The step's value with its error bound; None where it is no fit step."""
    result = _run(call, [value.array for value in values])
    if result is None or result.size > _MOST_ELEMENTS:
        return None
    if result.dtype.kind in "iub":
        return None if any(value.error for value in values) else Value(result)
    size = result.dtype.itemsize
    wide = result.astype(np.float64)
    if not np.isfinite(wide).all() or np.abs(wide).max(initial=0) > _LARGEST:
        return None
    whole = bool((wide == np.round(wide)).all()) and np.abs(wide).max(initial=0) <= _WHOLE[size]
    if whole and not recipe.rounds and not any(value.error for value in values):
        return Value(result)
    error = 8 * _EPSILON[size] * max(float(np.abs(wide).max(initial=0)), 1e-3)
    for sign in (1, -1):
        moved = [_disturbed(value, sign) for value in values]
        other = _run(call, moved)
        if other is None or not np.isfinite(other.astype(np.float64)).all():
            return None
        error += 2 * float(np.abs(other.astype(np.float64) - wide).max(initial=0))
    return Value(result, error) if error < 0.05 * max(1.0, np.abs(wide).max(initial=0)) else None


def _disturbed(value: Value, sign: int) -> Array:
    if value.array.dtype.kind != "f":
        return value.array
    least = _EPSILON[value.array.dtype.itemsize] * np.abs(value.array.astype(np.float64))
    step = sign * np.maximum(least, value.error)
    return (value.array.astype(np.float64) + step).astype(value.array.dtype)


def _run(call: Callable[..., Any], arrays: Sequence[Array]) -> Array | None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(call(*arrays))
        except (TypeError, ValueError, IndexError, OverflowError):
            return None


# -- the steps -----------------------------------------------------------------------------------
def _plain(function: Callable[..., Any]) -> Draw:
    return lambda rng, x: function


def _inside(function: Callable[..., Any], domain: Callable[[Any], Any]) -> Draw:
    """A function that is only defined on a part of the line."""
    return lambda rng, x: lambda v: function(domain(v))


def _axis(function: Callable[..., Any], *, several: bool = False) -> Draw:
    def draw(rng: np.random.Generator, x: Array) -> Callable[..., Any] | None:
        if not x.ndim or 0 in x.shape:
            return None
        keep = bool(rng.integers(2))
        choice = rng.integers(3)
        axis: Any = int(rng.integers(x.ndim)) - (x.ndim if rng.integers(2) else 0)
        if several and choice == 0:
            axis = None
        if several and choice == 1 and x.ndim > 1:
            axis = (0, x.ndim - 1)
        return lambda v: function(v, axis=axis, keepdims=keep)

    return draw


def _along(function: Callable[..., Any], **fixed: Any) -> Draw:
    def draw(rng: np.random.Generator, x: Array) -> Callable[..., Any] | None:
        if not x.ndim:
            return None
        axis = int(rng.integers(x.ndim))
        return lambda v: function(v, axis=axis, **fixed)

    return draw


def _slices(rng: np.random.Generator, x: Array) -> Callable[..., Any] | None:
    key = []
    for extent in x.shape:
        low, high = sorted(int(v) for v in rng.integers(0, extent + 1, 2))
        step = int(rng.choice([1, 1, 2, -1]))
        key.append(slice(low, high, step) if step > 0 else slice(None, None, step))
        if rng.random() < 0.2 and extent:
            key[-1] = int(rng.integers(-extent, extent))
        if rng.random() < 0.1:
            key.append(None)
    made = tuple(key)
    if 0 in x[made].shape and rng.random() < 0.9:
        return None
    return lambda v: v[made]


def _picked(rng: np.random.Generator, x: Array) -> Callable[..., Any] | None:
    if not x.ndim or not x.shape[0]:
        return None
    listed = [int(v) for v in rng.integers(-x.shape[0], x.shape[0], 3)]
    return lambda v: v[listed]


def _looked_up(rng: np.random.Generator, x: Array) -> Callable[..., Any] | None:
    if not x.ndim or not x.shape[0]:
        return None
    extent = x.shape[0]

    def look(v: Any, i: Any) -> Any:
        if i.dtype.kind == "f":  # NumPy takes a float scalar, by accident, and refuses float arrays
            raise TypeError("an index must be an integer")
        return np.take(v, i % extent, axis=0)

    return look


def _reshaped(rng: np.random.Generator, x: Array) -> Callable[..., Any] | None:
    if not x.size:
        return None
    divisors = [d for d in range(1, x.size + 1) if x.size % d == 0]
    first = int(rng.choice(divisors))
    return lambda v: v.reshape(first, -1)


def _permuted(rng: np.random.Generator, x: Array) -> Callable[..., Any] | None:
    perm = tuple(int(v) for v in rng.permutation(x.ndim))
    return lambda v: v.transpose(perm)


def _padded(rng: np.random.Generator, x: Array) -> Callable[..., Any] | None:
    widths = [tuple(int(v) for v in rng.integers(0, 3, 2)) for _ in range(x.ndim)]
    mode = str(rng.choice(["constant", "edge"]))
    return (lambda v: np.pad(v, widths, mode=mode)) if x.ndim and x.size else None


def _cast(rng: np.random.Generator, x: Array) -> Callable[..., Any]:
    to = str(rng.choice(["float32", "float64", "float16", "int32", "int64"]))
    return lambda v: v.astype(to)


def _scaled(rng: np.random.Generator, x: Array) -> Callable[..., Any]:
    number = [2, 3, -1, 0.5, 1.5, np.float32(0.25)][rng.integers(6)]
    return [lambda v: v * number, lambda v: number - v, lambda v: v + number][rng.integers(3)]


def _rolled(rng: np.random.Generator, x: Array) -> Callable[..., Any]:
    by = int(rng.integers(-3, 4))
    return lambda v: np.roll(v, by)


def _wide(function: Callable[..., Any]) -> Draw:
    """Only of matrices."""
    return lambda rng, x: function if x.ndim >= 2 else None


def _unary(name: str, kinds: str = "f") -> Recipe:
    return Recipe(name, _plain(getattr(np, name)), 1, kinds, rounds=True)


_FLOATS = [
    _unary(name)
    for name in ("exp", "expm1", "exp2", "sin", "cos", "tanh", "arctan", "arcsinh", "sinh", "cosh",
                 "cbrt", "tan")
] + [
    Recipe(name, _inside(getattr(np, name), lambda v: abs(v) + 0.5), 1, "f", rounds=True)
    for name in ("sqrt", "log", "log2", "log10", "log1p", "reciprocal")
] + [
    Recipe(name, _inside(getattr(np, name), lambda v: np.clip(v, -0.9, 0.9)), 1, "f", True)
    for name in ("arcsin", "arccos", "arctanh")
] + [
    Recipe("arccosh", _plain(lambda v: np.arccosh(abs(v) + 1.5)), 1, "f", rounds=True),
    Recipe("divide", _plain(lambda a, b: a / (abs(b) + 0.5)), 2, "f", rounds=True),
    Recipe("hypot", _plain(np.hypot), 2, "f", rounds=True),
    Recipe("arctan2", _plain(lambda a, b: np.arctan2(a, abs(b) + 0.5)), 2, "f", rounds=True),
    Recipe("logaddexp", _plain(np.logaddexp), 2, "f", rounds=True),
    Recipe("power", _plain(lambda a, b: (abs(a) + 0.5) ** np.clip(b, -2, 2)), 2, "f", rounds=True),
    Recipe("softmax", _plain(lambda v: np.exp(v - v.max(-1, keepdims=True))), 1, "f", rounds=True),
]  # fmt: skip

_EXACT = [
    Recipe(name, _plain(getattr(np, name)), 2, "fiub")
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "fmax", "fmin")
] + [
    Recipe(name, _plain(getattr(np, name)), 1, "fiu")
    for name in ("negative", "absolute", "square", "positive")
] + [
    Recipe("where", _plain(lambda c, a, b: np.where(c > 0, a, b)), 3, "fiub", jumps=True),
    Recipe("scaled", _scaled, 1, "fiub"),
    Recipe("clip", _plain(lambda v: np.clip(v, -2, 3)), 1, "fi"),
    Recipe("astype", _cast, 1, "fiub", jumps=True),
    Recipe("copysign", _plain(np.copysign), 2, "f", jumps=True),
]  # fmt: skip

_JUMPING = [
    Recipe(name, _plain(getattr(np, name)), 2, "fiub", jumps=True)
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
                 "logical_and", "logical_or", "logical_xor")
] + [
    Recipe(name, _plain(getattr(np, name)), 1, "fiu", jumps=True)
    for name in ("sign", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite",
                 "logical_not", "signbit")
] + [
    Recipe(name, _plain(getattr(np, name)), 2, "iub", jumps=True)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
] + [
    Recipe("floor_divide", _plain(np.floor_divide), 2, "iu", jumps=True),
    Recipe("remainder", _plain(np.remainder), 2, "iu", jumps=True),
    Recipe("fmod", _plain(lambda a, b: np.fmod(a, abs(b) + 1)), 2, "fi", jumps=True),
    Recipe("invert", _plain(np.invert), 1, "iub", jumps=True),
    Recipe("shift", _plain(lambda v: (v << 2) ^ (v >> 1)), 1, "iu", jumps=True),
    Recipe("integer power", _plain(lambda a, b: a ** (b & 3)), 2, "iu", jumps=True),
]  # fmt: skip

_REDUCING = [
    Recipe("sum", _axis(np.sum, several=True), 1, "fiub"),
    Recipe("prod", _axis(np.prod), 1, "iub"),
    Recipe("mean", _axis(np.mean, several=True), 1, "fiu", True),
    Recipe("var", _axis(np.var), 1, "f", rounds=True),
    Recipe("max", _axis(np.max, several=True), 1, "fiub"), Recipe("min", _axis(np.min), 1, "fiub"),
    Recipe("any", _axis(np.any, several=True), 1, "fiub", jumps=True),
    Recipe("all", _axis(np.all), 1, "fiub", jumps=True),
    Recipe("argmax", _axis(np.argmax), 1, "fiu", jumps=True),
    Recipe("argmin", _axis(np.argmin), 1, "fiu", jumps=True),
    Recipe("cumsum", _along(np.cumsum), 1, "fiub"), Recipe("cumprod", _along(np.cumprod), 1, "iu"),
    Recipe("sort", _along(np.sort), 1, "fiub"),
    Recipe("argsort", _along(np.argsort, kind="stable"), 1, "fiu", jumps=True),
    Recipe("matmul", _wide(lambda a, b: a @ np.swapaxes(b, -1, -2)), 2, "fi", rounds=True),
]  # fmt: skip

_MOVING = [
    Recipe("slice", _slices), Recipe("pick", _picked), Recipe("reshape", _reshaped),
    Recipe("take", _looked_up, 2, "fiu", jumps=True), Recipe("transpose", _permuted),
    Recipe("pad", _padded), Recipe("roll", _rolled), Recipe("flip", _plain(np.flip)),
    Recipe("concatenate", _plain(lambda a, b: np.concatenate([a, b], axis=-1)), 2),
    Recipe("stack", _plain(lambda a, b: np.stack([a, b])), 2),
    Recipe("tile", _plain(lambda v: np.tile(v, 2))), Recipe("ravel", _plain(np.ravel)),
    Recipe("repeat", _plain(lambda v: np.repeat(v, 2))),
    Recipe("tril", _wide(np.tril)), Recipe("outer", _plain(np.multiply.outer), 2, "fi"),
    Recipe("diagonal", _wide(np.diagonal)), Recipe("expand_dims", _plain(lambda v: v[..., None])),
    Recipe("broadcast", _plain(lambda v: np.broadcast_to(v, (2, *v.shape)))),
]  # fmt: skip

RECIPES = [*_FLOATS, *_EXACT, *_JUMPING, *_REDUCING, *_MOVING]
