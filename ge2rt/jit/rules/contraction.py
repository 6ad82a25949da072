"""Products: matmul with batches, dot and its kin, tensordot, einsum through matmul."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.graph import Node
from ge2rt.jit.promote import Kind, broadcast, cast, joint, kind_of, known, lift, resolve
from ge2rt.jit.rules.pointwise import outer as ufunc_outer
from ge2rt.jit.rules.shapes import axes_of, integers, moveaxis, ravel, reshaped, transposed
from ge2rt.jit.scope import emit, where
from ge2rt.jit.table import UFUNCS, rule
from ge2rt.jit.traced import Traced


def product_dtype(*kinds: Kind) -> np.dtype[Any]:
    """The dtype of a product of matrices: that of an elementwise product (bf16 stays bf16)."""
    dtype: np.dtype[Any] = resolve(np.multiply, (kinds[0], kinds[-1]))[-1]
    return dtype


def matmul(ufunc: np.ufunc, x: Any, y: Any, *, dtype: Any = None) -> Traced:
    """``numpy.matmul``: batches broadcast, 1-D operands are a row and a column."""
    a, b = lift(x), lift(y)
    if not a.shape or not b.shape:
        raise InvalidArgumentError(
            "matmul of a 0-d array", where=where(), next_step="use * to scale by a number"
        )
    kind = product_dtype(kind_of(a), kind_of(b)) if dtype is None else np.dtype(dtype)
    left, right = cast(a.node, kind), cast(b.node, kind)
    if a.ndim == 1:
        left = reshaped(left, (1, *left.shape))
    if b.ndim == 1:
        right = reshaped(right, (*right.shape, 1))
    if left.shape[-1] != right.shape[-2]:
        raise InvalidArgumentError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit", where=where(), detail="shape",
            expected=f"{left.shape[-1]} rows in the second", got=f"{right.shape[-2]}",
            next_step="transpose an operand, e.g. by x.T or numpy.swapaxes(x, -1, -2)",
        )  # fmt: skip
    made = batched(left, right)
    shape = list(made.shape)
    if b.ndim == 1:
        shape.pop()
    if a.ndim == 1:
        shape.pop(-2 if b.ndim > 1 else -1)
    return Traced(reshaped(made, shape))


def batched(a: Node, b: Node) -> Node:
    """The product of stacks of matrices, batches broadcast; a plain right matrix keeps one."""
    if len(b.shape) == 2 and len(a.shape) > 2:  # one matrix for all rows: no batch at all
        rows = math.prod(a.shape[:-1])
        flat = emit("matmul", reshaped(a, (rows, a.shape[-1])), b)
        return reshaped(flat, (*a.shape[:-1], b.shape[-1]))
    batch = joint(a.shape[:-2], b.shape[:-2])
    left, right = broadcast(a, (*batch, *a.shape[-2:])), broadcast(b, (*batch, *b.shape[-2:]))
    return emit("matmul", left, right)


def _matrix_vector(ufunc: np.ufunc, x: Any, y: Any, **options: Any) -> Traced:
    return matmul(ufunc, x, lift(y)[..., None], **options)[..., 0]  # type: ignore[no-any-return]


def _vector_matrix(ufunc: np.ufunc, x: Any, y: Any, **options: Any) -> Traced:
    return matmul(ufunc, lift(x)[..., None, :], y, **options)[..., 0, :]  # type: ignore[no-any-return]


def _vectors(ufunc: np.ufunc, x: Any, y: Any, *, axis: int = -1, **options: Any) -> Traced:
    a, b = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    return matmul(ufunc, a[..., None, :], b[..., None], **options)[..., 0, 0]  # type: ignore[no-any-return]


_PRODUCTS: dict[str, Callable[..., Any]] = {
    "matmul": matmul, "matvec": _matrix_vector, "vecmat": _vector_matrix, "vecdot": _vectors,
}  # fmt: skip
UFUNCS.update(_PRODUCTS)


@rule(np.dot)
def dot(a: Any, b: Any) -> Any:
    """``numpy.dot``."""
    x, y = lift(a), lift(b)
    if not x.shape or not y.shape:
        return _scaled(x, y)
    return tensordot(x, y, ((-1,), (-2 if y.ndim > 1 else -1,)))


def _scaled(x: Traced, y: Traced) -> Any:
    """A product with a scalar. NumPy makes arrays of both first: no number of Python's is weak."""
    return Traced(x.node) * Traced(y.node)


@rule(np.vdot)
def vdot(a: Any, b: Any) -> Any:
    """``numpy.vdot``."""
    return matmul(np.matmul, ravel(a), ravel(b))


@rule(np.inner)
def inner(a: Any, b: Any) -> Any:
    """``numpy.inner``."""
    x, y = lift(a), lift(b)
    return tensordot(x, y, ((-1,), (-1,))) if x.shape and y.shape else _scaled(x, y)


@rule(np.outer)
def outer(a: Any, b: Any) -> Any:
    """``numpy.outer``."""
    return ufunc_outer("multiply")(ravel(a), ravel(b))


rule(getattr(np.linalg, "outer", None))(outer)
rule(getattr(np, "vecdot", None))(lambda x1, x2: _vectors(np.matmul, x1, x2))


@rule(np.tensordot, getattr(np.linalg, "tensordot", None))
def tensordot(a: Any, b: Any, axes: Any = 2) -> Traced:
    """``numpy.tensordot``: one product of matrices."""
    x, y = lift(a), lift(b)
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        sides = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    else:
        sides = integers(axes[0], "an axis"), integers(axes[1], "an axis")
    left, right = axes_of(sides[0], x.ndim), axes_of(sides[1], y.ndim)
    if [x.shape[i] for i in left] != [y.shape[i] for i in right]:
        raise InvalidArgumentError(
            f"tensordot: shapes {x.shape} and {y.shape} do not fit along {sides}", where=where(),
            detail="shape", next_step="the summed axes must be equally long",
        )  # fmt: skip
    free_x = [i for i in range(x.ndim) if i not in left]
    free_y = [i for i in range(y.ndim) if i not in right]
    kind = product_dtype(kind_of(x), kind_of(y))
    depth = math.prod(x.shape[i] for i in left)
    rows, columns = [x.shape[i] for i in free_x], [y.shape[i] for i in free_y]
    first = transposed(cast(x.node, kind), [*free_x, *left])
    second = transposed(cast(y.node, kind), [*right, *free_y])
    made = emit(
        "matmul", reshaped(first, (math.prod(rows), depth)),
        reshaped(second, (depth, math.prod(columns))),
    )  # fmt: skip
    return Traced(reshaped(made, (*rows, *columns)))


# -- einsum --------------------------------------------------------------------------------------
@rule(np.einsum)
def einsum(*operands: Any, dtype: Any = None) -> Traced:
    """``numpy.einsum``: pairs from left to right, each one product of matrices."""
    if not isinstance(operands[0], str):
        operands = _spelt(operands)
    values = [lift(value) for value in operands[1:]]
    terms, result = _parse(operands[0], values)
    kind = None if dtype is None else known(dtype)
    for value in values:
        kind = value.dtype if kind is None else product_dtype(kind, kind_of(value))
    first = _Term(cast(values[0].node, kind), terms[0]).plain()
    for place, value in enumerate(values[1:], 1):
        needed = set(result).union(*terms[place + 1 :])
        first = _pair(first, _Term(cast(value.node, kind), terms[place]).plain(), needed)
    return Traced(first.summed(set(result)).ordered(result))


class _Term:
    """A node and a letter for each of its axes."""

    def __init__(self, node: Node, letters: str) -> None:
        self.node, self.letters = node, letters

    def extent(self, letter: str) -> int:
        return self.node.shape[self.letters.index(letter)]

    def plain(self) -> _Term:
        """Letters named twice become their diagonal."""
        value, letters = Traced(self.node), self.letters
        for letter in sorted(set(letters)):
            while letters.count(letter) > 1:
                first = letters.index(letter)
                second = letters.index(letter, first + 1)
                value = value.diagonal(0, first, second)
                letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :]
                letters += letter
        return _Term(value.node, letters)

    def summed(self, needed: set[str]) -> _Term:
        """Without the letters that nobody needs."""
        axes = tuple(i for i, letter in enumerate(self.letters) if letter not in needed)
        if not axes:
            return self
        kept = "".join(letter for letter in self.letters if letter in needed)
        op = "any" if self.node.dtype == "bool" else "sum"
        return _Term(emit(op, self.node, axes=axes), kept)

    def ordered(self, letters: str) -> Node:
        """The node with its axes in this order."""
        return transposed(self.node, [self.letters.index(letter) for letter in letters])

    def spread(self, letters: str, extents: dict[str, int]) -> Node:
        """The node with axes for all these letters, 1 long where it has none."""
        mine = [letter for letter in letters if letter in self.letters]
        node = self.ordered("".join(mine))
        node = broadcast(node, [extents[letter] for letter in mine])
        return reshaped(node, [extents[le] if le in self.letters else 1 for le in letters])


def _pair(a: _Term, b: _Term, needed: set[str]) -> _Term:
    """Two terms as one: letters in both and not needed are summed."""
    a, b = a.summed(needed | set(b.letters)), b.summed(needed | set(a.letters))
    shared = [letter for letter in a.letters if letter in b.letters]
    extents = _extents((a, b))
    batch = "".join(letter for letter in shared if letter in needed)
    depth = "".join(letter for letter in shared if letter not in needed)
    rows = "".join(letter for letter in a.letters if letter not in shared)
    columns = "".join(letter for letter in b.letters if letter not in shared)
    letters = batch + rows + columns
    if not depth:
        shape = [extents[letter] for letter in letters]
        sides = [broadcast(term.spread(letters, extents), shape) for term in (a, b)]
        return _Term(emit("mul", *sides), letters)
    size = [math.prod(extents[le] for le in group) for group in (rows, depth, columns)]
    outer_shape = [extents[letter] for letter in batch]
    left = reshaped(a.spread(batch + rows + depth, extents), (*outer_shape, size[0], size[1]))
    right = reshaped(b.spread(batch + depth + columns, extents), (*outer_shape, size[1], size[2]))
    made = emit("matmul", left, right)
    return _Term(reshaped(made, [extents[letter] for letter in letters]), letters)


def _extents(terms: Sequence[_Term]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for term in terms:
        for letter, extent in zip(term.letters, term.node.shape, strict=True):
            have = extents.get(letter, 1)
            if 1 not in (have, extent) and have != extent:
                raise InvalidArgumentError(
                    f"einsum: letter {letter!r} stands for {have} and for {extent}", where=where(),
                    detail="shape", next_step="equal letters need equal extents",
                )  # fmt: skip
            extents[letter] = max(have, extent) if 0 not in (have, extent) else 0
    return extents


def _parse(text: str, values: Sequence[Traced]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, ``...`` as letters of its own."""
    inputs, arrow, output = text.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if len(parts) != len(values):
        raise InvalidArgumentError(
            f"einsum: {len(parts)} terms for {len(values)} arrays", got=text, where=where(),
            next_step="give one term for each array, separated by commas",
        )  # fmt: skip
    free = [chr(code) for code in range(0x3B1, 0x3B1 + 24)]  # no user writes these
    terms, widest = [], 0
    for part, value in zip(parts, values, strict=True):
        dots = value.ndim - len(part.replace("...", ""))
        if dots < 0 or (dots > 0 and "..." not in part):
            raise InvalidArgumentError(
                f"einsum: term {part!r} for an array of {value.ndim} axes", where=where(),
                detail="shape", next_step="give a letter for each axis, or ...",
            )  # fmt: skip
        widest = max(widest, dots if "..." in part else 0)
        terms.append(part.replace("...", "".join(free[24 - dots : 24])))
    dotted = "".join(free[24 - widest :])
    if arrow:
        result = output.replace("...", dotted)
    else:
        joined = "".join(terms)
        result = dotted + "".join(
            le for le in sorted(set(joined)) if joined.count(le) == 1 and le not in dotted
        )
    unknown = set(result) - set("".join(terms))
    if unknown or len(set(result)) != len(result):
        raise InvalidArgumentError(
            f"einsum: the result {output!r} does not follow from {inputs!r}", where=where(),
            next_step="name letters of the operands, each once",
        )  # fmt: skip
    return terms, result


def _spelt(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The form with lists of axis numbers, as text."""
    rest, arrays, parts = list(operands), [], []
    while len(rest) > 1:
        arrays.append(rest.pop(0))
        parts.append(_letters(rest.pop(0)))
    text = ",".join(parts) + (f"->{_letters(rest[0])}" if rest else "")
    return (text, *arrays)


def _letters(axes: Any) -> str:
    return "".join("..." if axis is Ellipsis else chr(97 + axis) for axis in axes)
