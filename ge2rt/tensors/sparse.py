"""Sparse tensors: COO and CSR. Indices say where, ``values`` what; elements not named are 0.

Values are tensors: derivatives flow to them, and through products to the dense operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DType
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from ge2rt.base.shapes import size_of
from ge2rt.faces import launch
from ge2rt.tensors import ops
from ge2rt.tensors.autograd import Context, Function
from ge2rt.tensors.making import tensor, zeros
from ge2rt.tensors.operators import Operator
from ge2rt.tensors.tape import no_grad
from ge2rt.tensors.tensor import Tensor

_MOST_SHOWN = 6


class SumRows(Function):
    """``apply(values [M, D], index [M], count)``: row n is the sum of the rows whose index is n."""

    @staticmethod
    def forward(ctx: Context, values: Any, index: Any, count: int) -> Any:
        """By the kernel SCATTER_ROWS, in the order of the rows."""
        ctx.save_for_backward(index)
        if not (count and values.size):
            return zeros(count, values.shape[1], dtype=values.dtype, device=values.device)
        if values.dtype.is_float:
            return Tensor(launch("SCATTER_ROWS", values.array, index.array, count=count))
        rows, where = (each.to("cpu").numpy() for each in (values, index))
        made = np.zeros((count, rows.shape[1]), rows.dtype)
        np.add.at(made, where, rows)
        return tensor(made, device=values.device)

    @staticmethod
    def backward(ctx: Context, *cotangents: Any) -> Any:
        """The rows that each was added to."""
        (index,) = ctx.saved_tensors
        return cotangents[0][index], None, None


class Coo:
    """``indices`` i64 ``[S, n]`` for the first S axes, ``values`` ``[n, ...]`` for the others.

    A place may stand several times: its values are added up (:meth:`coalesce`). ValueError for
    indices outside of ``shape``.
    """

    layout = "coo"
    __array_ufunc__ = None  # NumPy's operators leave a sparse operand to us

    def __init__(
        self, indices: Any, values: Any, shape: Sequence[int] | None = None, *,
        coalesced: bool = False,
    ) -> None:  # fmt: skip
        self.indices: Any = indices if isinstance(indices, Tensor) else tensor(indices, dtype="i64")
        self.values: Any = values if isinstance(values, Tensor) else tensor(values)
        where = self.indices.detach().numpy() if self.indices.device == "cpu" else self._host()
        count = where.shape[0] if where.ndim == 2 else -1
        if count < 1 or not self.values.shape or where.shape[1] != self.values.shape[0]:
            raise InvalidArgumentError(
                "indices and values do not fit", expected="indices [S, n] and values [n, ...]",
                got=f"{list(where.shape)} and {list(self.values.shape)}",
                next_step="give one column of indices for each value",
            )  # fmt: skip
        if shape is None:
            shape = [*(int(n) + 1 for n in where.max(1, initial=-1)), *self.values.shape[1:]]
        self.shape = tuple(int(n) for n in shape)
        if self.shape[count:] != self.values.shape[1:]:
            raise InvalidArgumentError(
                "the shape does not fit the values", got=str(self.shape),
                expected=f"{count} extents, then {list(self.values.shape[1:])}",
                next_step="give the whole tensor's shape",
            )  # fmt: skip
        limits = np.asarray(self.shape[:count])[:, None]
        if ((where < 0) | (where >= limits)).any():
            axis, column = np.argwhere((where < 0) | (where >= limits))[0]
            raise InvalidArgumentError(
                "an index lies outside of the shape", got=str(where[axis, column]),
                expected=f"0 <= i < {self.shape[axis]} along axis {axis}",
                next_step="give a larger shape, or mend the indices",
            )  # fmt: skip
        self._axes = count
        self.coalesced = coalesced

    # -- what it is ------------------------------------------------------------------------------
    @property
    def dtype(self) -> DType:
        """The values' dtype."""
        found: DType = self.values.dtype
        return found

    @property
    def device(self) -> str:
        """The values' device."""
        return str(self.values.device)

    @property
    def requires_grad(self) -> bool:
        """Whether derivatives flow to the values."""
        return bool(self.values.requires_grad)

    @property
    def count(self) -> int:
        """Number of values that are kept, places that stand twice counted twice."""
        return int(self.values.shape[0])

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.shape))
        return f"<Coo [{shown}] {self.dtype.name}, {self.count} of {size_of(self.shape)}>"

    def _host(self) -> Any:
        return self.indices.to("cpu").numpy()

    def rows(self) -> Any:
        """The place of each value among all places, as a NumPy array."""
        extents = self.shape[: self._axes]
        return (
            np.ravel_multi_index(tuple(self._host()), extents) if self.count else np.zeros(0, int)
        )

    # -- forms -----------------------------------------------------------------------------------
    def coalesce(self) -> Coo:
        """Each place once, in order; values of one place are added up."""
        if self.coalesced:
            return self
        places, which = np.unique(self.rows(), return_inverse=True)
        index = tensor(which.astype(np.int64), device=self.device)
        rest = self.values.shape[1:]
        values = SumRows.apply(self._flat(), index, len(places)).reshape(len(places), *rest)
        where = np.stack(np.unravel_index(places, self.shape[: self._axes]))
        return Coo(tensor(where.astype(np.int64), device=self.device), values, self.shape,
                   coalesced=True)  # fmt: skip

    def to_dense(self) -> Any:
        """All elements."""
        index = tensor(self.rows().astype(np.int64), device=self.device)
        made = SumRows.apply(self._flat(), index, size_of(self.shape[: self._axes]))
        return made.reshape(self.shape)

    def to_csr(self) -> Csr:
        """Rows packed: of a matrix."""
        self._is_matrix("to_csr")
        packed = self.coalesce()
        rows, columns = packed._host()
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.shape[0]))])
        return Csr(starts, columns, packed.values, self.shape)

    @property
    def T(self) -> Coo:
        """Of a matrix: rows and columns exchanged."""
        self._is_matrix("T")
        return Coo(self.indices.flip(0), self.values, self.shape[::-1])

    def detach(self) -> Coo:
        """Without a history."""
        return self._with(self.values.detach())

    def astype(self, dtype: Any) -> Coo:
        """With other values."""
        return self._with(self.values.astype(dtype))

    def _flat(self) -> Any:
        return self.values.reshape(self.count, size_of(self.values.shape[1:]))

    def _with(self, values: Any) -> Coo:
        return Coo(self.indices, values, self.shape, coalesced=self.coalesced)

    def _is_matrix(self, what: str) -> None:
        if len(self.shape) != 2 or self._axes != 2:
            raise InvalidArgumentError(
                f"{what} needs a sparse matrix", got=repr(self),
                next_step="use to_dense(), or two sparse axes",
            )  # fmt: skip

    # -- arithmetic ------------------------------------------------------------------------------
    def __add__(self, other: Any) -> Any:
        if isinstance(other, Coo):
            if other.shape != self.shape or other._axes != self._axes:
                raise InvalidArgumentError(
                    "sparse tensors of different shapes", got=f"{self!r} and {other!r}",
                    next_step="sparse operands do not broadcast: use to_dense()",
                )  # fmt: skip
            where = ops.concat([self.indices, other.indices], axis=1)
            return Coo(where, ops.concat([self.values, other.values]), self.shape)
        return self.to_dense() + other

    __radd__ = __add__

    def __mul__(self, factor: Any) -> Coo:
        if not isinstance(factor, (int, float)) and getattr(factor, "shape", None) != ():
            raise InvalidTypeError(
                "a sparse tensor is multiplied with numbers only",
                next_step="multiply values, or use to_dense()",
            )  # fmt: skip
        return self._with(self.values * factor)

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __truediv__(self, divisor: Any) -> Coo:
        return self._with(self.values / divisor)

    def __neg__(self) -> Coo:
        return self * -1

    def __matmul__(self, dense: Any) -> Any:
        self._is_matrix("@")
        right: Any = dense if isinstance(dense, Tensor) else tensor(dense, device=self.device)
        if right.ndim not in (1, 2) or right.shape[0] != self.shape[1]:
            raise InvalidArgumentError(
                "operands of @ do not fit", got=f"{list(self.shape)} and {list(right.shape)}",
                expected=f"[{self.shape[1]}] or [{self.shape[1]}, n]", next_step="transpose one",
            )  # fmt: skip
        rows, columns = self.indices[0], self.indices[1]
        taken = right[columns]
        factors = self.values.reshape(-1, *(1,) * (right.ndim - 1))
        found = taken * factors
        width = size_of(right.shape[1:])
        made = SumRows.apply(found.reshape(self.count, width), rows, self.shape[0])
        return made.reshape(self.shape[0], *right.shape[1:])

    def __rmatmul__(self, dense: Any) -> Any:
        left: Any = dense if isinstance(dense, Tensor) else tensor(dense, device=self.device)
        turned = left if left.ndim == 1 else left.T
        found = self.T @ turned
        return found if left.ndim == 1 else found.T

    def multiply_(self, factor: float) -> Coo:
        """Multiply the values in place."""
        with no_grad():
            self.values.multiply_(factor)
        return self

    def isfinite(self) -> Any:
        """Which values are finite."""
        return self.values.isfinite()

    def __ge2rt_function__(
        self, op: Operator, args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """What operators on tensors do with a sparse operand."""
        if op.name not in _OPERATORS or options:
            raise UnsupportedError(
                f"{op.name} of a sparse tensor", expected=", ".join(_OPERATORS),
                next_step="use to_dense(), or the values alone",
            )  # fmt: skip
        return _OPERATORS[op.name](*args)


def _either_way(name: str) -> Callable[[Any, Any], Any]:
    """A commutative operation as the sparse operand has it."""

    def run(a: Any, b: Any) -> Any:
        sparse, other = (a, b) if isinstance(a, Coo) else (b, a)
        return getattr(sparse, name)(other)

    return run


_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "add": _either_way("__add__"),
    "multiply": _either_way("__mul__"),
    "matmul": lambda a, b: a @ b if isinstance(a, Coo) else b.__rmatmul__(a),
    "negative": lambda a: -a,
}


class Csr:
    """A matrix by rows: row r has the columns ``columns[starts[r]:starts[r + 1]]``.

    ``starts`` ``[M + 1]`` and ``columns`` ``[n]`` are integers, ``values`` ``[n]`` a tensor.
    """

    layout = "csr"
    __array_ufunc__ = None

    def __init__(self, starts: Any, columns: Any, values: Any, shape: Sequence[int]) -> None:
        self.starts = np.asarray(starts, np.int64)
        self.columns = np.asarray(columns, np.int64)
        ends = (self.starts[0], self.starts[-1]) if self.starts.size else (-1, -1)
        steps = np.diff(self.starts)
        if (
            self.starts.shape != (shape[0] + 1,)
            or (steps < 0).any()
            or ends != (0, len(self.columns))
        ):
            raise InvalidArgumentError(
                "starts do not fit", argument="starts", got=str(self.starts[:_MOST_SHOWN]),
                expected=f"{shape[0] + 1} numbers from 0 up to {len(self.columns)}",
                next_step="starts[r] is where row r begins",
            )  # fmt: skip
        rows = np.repeat(np.arange(shape[0]), steps)
        self.coo = Coo(np.stack([rows, self.columns]), values, shape)

    @property
    def values(self) -> Any:
        """The elements that are kept."""
        return self.coo.values

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.coo.shape

    def __repr__(self) -> str:
        return repr(self.coo).replace("Coo", "Csr")

    def to_coo(self) -> Coo:
        """With a row for each value."""
        return self.coo

    def to_dense(self) -> Any:
        """All elements."""
        return self.coo.to_dense()

    def __matmul__(self, dense: Any) -> Any:
        return self.coo @ dense

    def __rmatmul__(self, dense: Any) -> Any:
        return self.coo.__rmatmul__(dense)


def from_dense(x: Any) -> Coo:
    """The elements of a tensor that are not 0; derivatives flow back to it."""
    where = np.stack(np.nonzero(x.detach().to("cpu").numpy())).astype(np.int64)
    if not x.shape:
        raise InvalidArgumentError("a 0-d tensor has no axes", next_step="reshape it to [1]")
    indices = tensor(where, device=x.device)
    return Coo(indices, x[tuple(indices)], x.shape, coalesced=True)
