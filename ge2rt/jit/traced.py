"""``Traced``: what a jitted function sees in place of its arrays.

It answers to NumPy's operators, ufuncs, functions and methods by writing nodes; its shape and dtype
are known, its values are not. In-place forms change which node it stands for: it then behaves as
the NumPy array would, and others that share its memory may not be read any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ge2rt.base.errors import InvalidTypeError
from ge2rt.ir.graph import Node
from ge2rt.jit.faults import ControlFlowError, control_flow, not_covered
from ge2rt.jit.scope import Trace, active, asked_by_own_code, current, where
from ge2rt.jit.table import call_function, call_ufunc


@dataclass
class Memory:
    """What arrays that would share memory in NumPy have in common: how often it was written."""

    version: int = 0
    writer: str = ""  # file:line
    last: Traced | None = None  # which array was used to write


class Concretise(BaseException):  # a signal that no handler of the user's may take
    """The function wants the value of Python numbers it was called with: trace again with these."""

    def __init__(self, leaves: frozenset[int]) -> None:
        self.leaves = leaves
        super().__init__(leaves)
        trace = active()
        if trace is not None:  # even a bare except of the user's does not end it
            trace.asked = self


Binary = Callable[["Traced", Any], Any]


def _binary(ufunc: np.ufunc) -> Binary:
    def operator(self: Traced, other: Any) -> Any:
        if _defers(self, other):
            return NotImplemented
        self.ask_beside(other, ufunc.__name__)
        return _scalar(call_ufunc(ufunc, "__call__", (self, other), {}))

    return operator


def _reflected(ufunc: np.ufunc) -> Binary:
    def operator(self: Traced, other: Any) -> Any:
        self.ask_beside(other, ufunc.__name__)
        return _scalar(call_ufunc(ufunc, "__call__", (other, self), {}))

    return operator


def _in_place(ufunc: np.ufunc) -> Binary:
    def operator(self: Traced, other: Any) -> Traced:
        self.ask_beside(other, ufunc.__name__)
        result = _scalar(call_ufunc(ufunc, "__call__", (self, other), {}))
        if self.weak or self.scalar:  # a number has no memory: the name gets another one
            return result  # type: ignore[no-any-return]
        return self.store(result, ufunc.__name__)

    return operator


def _unary(ufunc: np.ufunc) -> Callable[[Traced], Any]:
    def operator(self: Traced) -> Any:
        return _scalar(call_ufunc(ufunc, "__call__", (self,), {}))

    return operator


def _scalar(result: Any) -> Any:
    """What a ufunc gives: NumPy's scalars in place of arrays without axes."""
    for each in result if type(result) is tuple else (result,):
        if isinstance(each, Traced) and not each.shape:
            each.scalar = True
    return result


def _function_result(function: Callable[..., Any], result: Any, *, of_scalar: bool) -> Any:
    """What a function gives: a scalar too, but for those that make and show arrays."""
    return result if function in _GIVE_ARRAYS and not of_scalar else _scalar(result)


_GIVE_ARRAYS = {
    np.where, np.select, np.choose, np.copy, np.reshape, np.ravel, np.squeeze, np.transpose,
    np.swapaxes, np.moveaxis, np.rollaxis, np.broadcast_to, np.broadcast_arrays, np.zeros_like,
    np.ones_like, np.full_like, np.empty_like, np.flip, np.roll, np.diagonal,
}  # fmt: skip


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        result = call_function(function, (self, *args), kwargs)
        return _function_result(function, result, of_scalar=self.scalar)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = f"As ``numpy.{function.__name__}``."
    return method


def _asks(name: str) -> Callable[[Traced], NoReturn]:
    def asks(self: Traced) -> NoReturn:
        self.ask(f"{name}()")

    return asks


def _defers(self: Traced, other: Any) -> bool:
    """Whether an unknown type should have its reflected operator tried first."""
    return getattr(type(other), "__array_ufunc__", self) is None


class Traced:
    """A symbolic array of a trace in progress.

    ``weak`` is int or float for what stands for a Python number, whose dtype gives way to others.
    ``leaves`` are the Python numbers of the call that it is made of, if of nothing else, and
    ``span`` is between what it lies where these are integers and it is a result of them.
    ``scalar`` marks what is a NumPy scalar, which is not changed in place. ``weak`` is bool for
    comparisons of Python numbers.
    """

    __array_priority__ = 1000.0
    __slots__ = (
        "__weakref__", "_node", "_trace", "leaves", "memory", "origin", "scalar", "span", "version",
        "weak",
    )  # fmt: skip

    def __init__(
        self, node: Node, *, memory: Memory | None = None, weak: type | None = None,
        leaves: frozenset[int] = frozenset(), span: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        self._node = node
        self._trace: Trace = current()
        self.memory = memory or Memory()
        self.version = self.memory.version
        self.weak = weak
        self.leaves = leaves
        self.span = span
        self.scalar = False
        self.origin: Any = None  # (array, index) of a view made by indexing

    # -- what it stands for --------------------------------------------------------------------
    @property
    def node(self) -> Node:
        """The node it stands for; refused after the trace, or when its memory was written."""
        if self._trace.closed or current() is not self._trace:
            raise InvalidTypeError(
                "a traced array is used outside the function that was traced", where=where(),
                next_step="return it from the jitted function instead of keeping it elsewhere",
            )  # fmt: skip
        if self.version != self.memory.version:
            raise InvalidTypeError(
                f"this array shares memory with one that was changed in place at "
                f"{self.memory.writer}", where=where(),
                next_step="write y = y + 1 instead of y += 1 there, or take a .copy() first",
            )  # fmt: skip
        if self._trace.changed:
            self._trace.read(self.memory)
        return self._node

    def store(self, value: Any, name: str = "assignment") -> Traced:
        """What ``x += y`` does: the same array with ``value``'s elements, in its own dtype."""
        from ge2rt.jit.promote import fitted  # late: it needs this class

        node = fitted(value, self, name)
        self.memory.version += 1
        self.memory.writer = where()
        self.memory.last = self
        self.version = self.memory.version
        self._node = node
        self._trace.wrote(self.memory)
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, known while tracing."""
        return self._node.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return self._node.type.element.numpy

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._node.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._node.type.size

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._node.type.element.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._node.type.nbytes

    @property
    def T(self) -> Any:
        """Axes reversed."""
        return call_function(np.transpose, (self,), {})

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        return call_function(np.swapaxes, (self, -1, -2), {})

    @property
    def real(self) -> Traced:
        """Itself: complex arrays are not traced."""
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidTypeError("len() of a 0-d array", where=where(), next_step="use .size")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            if self.weak:
                self.ask("iter()")
            raise InvalidTypeError(
                "iteration over a 0-d array", where=where(), next_step="iterate over an axis"
            )
        return (self[index] for index in range(self.shape[0]))

    def __repr__(self) -> str:
        if self.weak and self.leaves and not asked_by_own_code():
            raise Concretise(self.leaves)
        return f"<traced {self._node.type}>"

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """For ``isinstance`` in the user's code: of a number of the call, and of an array."""
        if asked_by_own_code():
            return Traced
        if self.weak and self.leaves:
            raise Concretise(self.leaves)
        return self.dtype.type if self.scalar else np.ndarray

    # -- what is not known while tracing ---------------------------------------------------------
    def ask(self, asked: str) -> NoReturn:
        """Refuse, or start again with known values where these are Python numbers of the call."""
        if self.leaves:
            raise Concretise(self.leaves)
        raise control_flow(asked, where(), got=str(self._node.type))

    def ask_beside(self, other: Any, asked: str) -> None:
        """Have a Python number's value known beside what is no number: ``[0] * n``, ``n * 1j``."""
        if self.weak and not isinstance(other, _NUMBERS) and not hasattr(other, "dtype"):
            self.ask(asked)

    __bool__ = _asks("bool")
    __int__ = _asks("int")
    __float__ = _asks("float")
    __complex__ = _asks("complex")
    __index__ = _asks("index")
    __hash__ = _asks("hash")  # a Python number may be the key of a dict
    __trunc__, __floor__, __ceil__ = _asks("trunc"), _asks("floor"), _asks("ceil")
    item = _asks("item")
    tolist = _asks("tolist")
    tobytes = _asks("tobytes")

    def __contains__(self, value: object) -> bool:
        self.ask("in")

    def __str__(self) -> str:
        return format(self)

    def __format__(self, spec: str) -> str:
        if self.leaves or spec:
            self.ask("format()")
        return repr(self)  # a text for whoever looks at a trace

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        if self.leaves:  # np.arange(n), np.full(3, n)
            raise Concretise(self.leaves)
        raise ControlFlowError(
            "a traced array cannot become a NumPy array: Python control flow and plain NumPy cannot"
            " see values that are not known while the function is traced",
            where=where(),
            next_step="leave numpy.asarray out, use numpy.stack for a list, and make an array that "
            "is assigned to with like=x: numpy.zeros(shape, like=x), or numpy.zeros_like(x)",
        )  # fmt: skip

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _scalar(_of_numpy(call_ufunc(ufunc, method, inputs, kwargs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = _of_numpy(call_function(function, args, kwargs))
        return _function_result(function, result, of_scalar=False)

    def __getattr__(self, name: str) -> Any:
        if self.weak and self.leaves and hasattr(self.weak, name):
            raise Concretise(self.leaves)  # n.bit_length()
        if name in ("backward", "grad", "requires_grad_"):
            raise AttributeError(
                f"{where()}: a traced array has no attribute {name!r}: inside of a jitted function"
                " gradients come from ge2rt.grad and ge2rt.value_and_grad"
            )
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a traced array has no attribute {name!r}")
        raise not_covered(f"ndarray.{name}", where())

    # -- operators -------------------------------------------------------------------------------
    __add__, __radd__, __iadd__ = _binary(np.add), _reflected(np.add), _in_place(np.add)
    __sub__, __rsub__ = _binary(np.subtract), _reflected(np.subtract)
    __isub__ = _in_place(np.subtract)
    __mul__, __rmul__ = _binary(np.multiply), _reflected(np.multiply)
    __imul__ = _in_place(np.multiply)
    __truediv__, __rtruediv__ = _binary(np.divide), _reflected(np.divide)
    __itruediv__ = _in_place(np.divide)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide), _reflected(np.floor_divide)
    __ifloordiv__ = _in_place(np.floor_divide)
    __mod__, __rmod__ = _binary(np.remainder), _reflected(np.remainder)
    __imod__ = _in_place(np.remainder)
    __divmod__, __rdivmod__ = _binary(np.divmod), _reflected(np.divmod)
    __matmul__, __rmatmul__ = _binary(np.matmul), _reflected(np.matmul)
    __imatmul__ = _in_place(np.matmul)
    __and__, __rand__ = _binary(np.bitwise_and), _reflected(np.bitwise_and)
    __iand__ = _in_place(np.bitwise_and)
    __or__, __ror__ = _binary(np.bitwise_or), _reflected(np.bitwise_or)
    __ior__ = _in_place(np.bitwise_or)
    __xor__, __rxor__ = _binary(np.bitwise_xor), _reflected(np.bitwise_xor)
    __ixor__ = _in_place(np.bitwise_xor)
    __lshift__, __rlshift__ = _binary(np.left_shift), _reflected(np.left_shift)
    __ilshift__ = _in_place(np.left_shift)
    __rshift__, __rrshift__ = _binary(np.right_shift), _reflected(np.right_shift)
    __irshift__ = _in_place(np.right_shift)
    __lt__, __le__ = _binary(np.less), _binary(np.less_equal)
    __gt__, __ge__ = _binary(np.greater), _binary(np.greater_equal)
    __eq__, __ne__ = _binary(np.equal), _binary(np.not_equal)
    __neg__, __pos__ = _unary(np.negative), _unary(np.positive)
    __abs__, __invert__ = _unary(np.absolute), _unary(np.invert)

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            self._refuse_modulus()
        from ge2rt.jit.rules.pointwise import power_operator  # late: it needs this class

        return _scalar(power_operator(self, exponent))

    def _refuse_modulus(self) -> NoReturn:
        if self.leaves:
            raise Concretise(self.leaves)
        raise not_covered("pow() with a modulus", where(), next_step="write x**n % modulus")

    def __rpow__(self, base: Any) -> Any:
        from ge2rt.jit.rules.pointwise import power_operator  # late: it needs this class

        return _scalar(power_operator(base, self))

    def __ipow__(self, exponent: Any) -> Traced:  # type: ignore[misc] # pow() has a third operand
        result = self**exponent
        return result if self.weak or self.scalar else self.store(result, "power")

    def __round__(self, digits: int = 0) -> Any:
        self.ask("round()")

    def __getitem__(self, index: Any) -> Any:
        from ge2rt.jit.rules.indexing import get_item  # late: it needs this class

        return get_item(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        from ge2rt.jit.rules.assignment import set_item  # late: it needs this class

        set_item(self, index, value)

    # -- methods ---------------------------------------------------------------------------------
    sum, prod, mean = _method(np.sum), _method(np.prod), _method(np.mean)
    max, min, ptp = _method(np.max), _method(np.min), _method(np.ptp)
    var, std = _method(np.var), _method(np.std)
    all, any = _method(np.all), _method(np.any)
    argmax, argmin = _method(np.argmax), _method(np.argmin)
    cumsum, cumprod = _method(np.cumsum), _method(np.cumprod)
    argsort = _method(np.argsort)
    dot, take, repeat = _method(np.dot), _method(np.take), _method(np.repeat)
    clip, round = _method(np.clip), _method(np.round)
    squeeze, swapaxes = _method(np.squeeze), _method(np.swapaxes)
    ravel = _method(np.ravel)
    diagonal, trace, nonzero = _method(np.diagonal), _method(np.trace), _method(np.nonzero)
    copy = _method(np.copy)

    def conj(self) -> Any:
        """As ``ndarray.conj`` of real numbers: a copy."""
        return self if self.weak else self.copy()

    conjugate = __copy__ = conj

    def __deepcopy__(self, memo: Any) -> Any:
        return self.conj()

    def flatten(self, order: str = "C") -> Any:
        """As ``ndarray.flatten``: a copy."""
        return self.ravel(order=order).copy()

    def transpose(self, *axes: Any) -> Any:
        """As ``ndarray.transpose``: axes as a tuple, one by one, or none to reverse them."""
        given = axes[0] if len(axes) == 1 and not _is_index(axes[0]) else axes or None
        return call_function(np.transpose, (self, given), {})

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """As ``ndarray.reshape``: a shape as a tuple or one by one, one extent may be -1."""
        given = shape[0] if len(shape) == 1 else shape
        return call_function(np.reshape, (self, given), {"order": order})

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
        copy: bool = True,
    ) -> Traced:  # fmt: skip
        """As ``ndarray.astype``."""
        from ge2rt.jit.promote import convert, known  # late: it needs this class

        if not copy and known(dtype) == self.dtype:
            return self
        made = convert(self, dtype, casting)
        made.scalar = self.scalar
        return made

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, **more: Any) -> None:
        """As ``ndarray.sort``: in place."""
        keywords = {"axis": axis, "kind": kind, "order": order, **more}
        self.store(call_function(np.sort, (self,), keywords), "sort")

    def fill(self, value: Any) -> None:
        """As ``ndarray.fill``: in place."""
        self[...] = value


_NUMBERS = (bool, int, float, np.ndarray, np.generic)


def _of_numpy(result: Any) -> Any:
    """What NumPy's functions make of Python numbers is NumPy's: not weak, as ``np.sqrt(2)``."""
    if isinstance(result, Traced) and result.weak:
        return Traced(result.node, leaves=result.leaves)
    return tuple(map(_of_numpy, result)) if type(result) is tuple else result


def _is_index(value: Any) -> bool:
    return isinstance(value, (int, np.integer))


def shared(view: Node, base: Traced) -> Traced:
    """A traced array whose NumPy counterpart is a view of ``base``."""
    if base.weak:
        return Traced(view)
    return Traced(view, memory=base.memory)
