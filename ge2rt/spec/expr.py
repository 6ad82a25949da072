"""The small safe language of kernels.yaml: Python's expression syntax, our own evaluator.

Nothing is ever handed to ``eval``. Numbers, strings, names, arithmetic, comparisons, ``and or
not``, ``a if c else b``, tuples, indexing, and calls of the functions of a :class:`Language`. Sizes
are bounded, so that no expression of a file can take the memory of the machine.

A comment at the end (``"N > 0  # an empty reduction has no maximum"``) becomes the ``note`` that a
refusal shows.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ge2rt.base.errors import Ge2rtError, InvalidArgumentError
from ge2rt.base.locks import ForkLock
from ge2rt.base.once import cached_property
from ge2rt.spec.functions import HOST_FUNCTIONS
from ge2rt.spec.suggest import hinted

MAX_TEXT = 4096
MAX_DEPTH = 64
MAX_BITS = 256
MAX_ITEMS = 10_000

_FAULTS = (
    TypeError, ValueError, ZeroDivisionError, OverflowError, IndexError, KeyError, AttributeError,
)  # fmt: skip

_MISFIT = re.compile(r"unexpected keyword argument|positional argument|multiple values")

# Python 3.11 raises a SystemError where two threads make syntax trees at once
_parsing = ForkLock()

Binary = Callable[[Any, Any], Any]


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.ndarray, np.generic))


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ValueError(f"the number has more than {MAX_BITS} bits")
    if isinstance(value, tuple) and len(value) > MAX_ITEMS:
        raise ValueError(f"the tuple has more than {MAX_ITEMS} items")
    return value


def _arithmetic(symbol: str, function: Binary) -> Binary:
    def apply(left: Any, right: Any) -> Any:
        if not (_number(left) and _number(right)):
            raise TypeError(f"{symbol} takes numbers, not {_kind(left)} and {_kind(right)}")
        return _bounded(function(left, right))

    return apply


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return _bounded(left + right)
    return _plain_add(left, right)


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        # bit_length - 1 bounds the result's bits from below, before it is computed
        if (abs(left).bit_length() - 1) * right > MAX_BITS:
            raise ValueError(f"the number has more than {MAX_BITS} bits")
        if abs(left) <= 1:
            right = right % 2 or 2
    result = left**right
    if isinstance(result, complex):
        raise ValueError("a negative number to a fractional power")
    return result


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


_plain_add = _arithmetic("+", operator.add)

ARITHMETIC: dict[type[ast.operator], Binary] = {
    ast.Add: _add,
    ast.Sub: _arithmetic("-", operator.sub),
    ast.Mult: _arithmetic("*", operator.mul),
    ast.Div: _arithmetic("/", operator.truediv),
    ast.FloorDiv: _arithmetic("//", operator.floordiv),
    ast.Mod: _arithmetic("%", operator.mod),
    ast.Pow: _arithmetic("**", _power),
    ast.MatMult: _arithmetic("@", operator.matmul),
}

_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}

_COMPARE: dict[type[ast.cmpop], Binary] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
}


_OPERATORS = ARITHMETIC.keys() | _UNARY.keys()


@dataclass(frozen=True)
class Language:
    """The functions an expression may call, and what its binary operators do."""

    functions: Mapping[str, Callable[..., Any]]
    binary: Mapping[type[ast.operator], Binary] = field(default_factory=lambda: ARITHMETIC)


HOST = Language(HOST_FUNCTIONS)


@dataclass(frozen=True)
class Expression:
    """An expression, parsed when its parts are asked for. Equal texts are equal expressions."""

    text: str

    @cached_property
    def tree(self) -> ast.expr:
        """The syntax tree."""
        return _syntax(self.text)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names it reads."""
        return frozenset(n.id for n in _walk(self.tree, self.text) if isinstance(n, ast.Name))

    @cached_property
    def calls(self) -> frozenset[str]:
        """The functions it calls."""
        called = (n.func for n in _walk(self.tree, self.text) if isinstance(n, ast.Call))
        return frozenset(f.id for f in called if isinstance(f, ast.Name))

    @cached_property
    def note(self) -> str:
        """The comment behind it."""
        return _note(self.text.strip(), self.tree)

    def evaluate(self, names: Mapping[str, Any], language: Language = HOST) -> Any:
        """The value with ``names`` bound; InvalidArgumentError says what is wrong and where."""
        return _Evaluation(self.text, names, language).value(self.tree)

    def __str__(self) -> str:
        return self.text


def parse(text: str, language: Language = HOST) -> Expression:
    """Parse and check ``text``; InvalidArgumentError names the column of what is not allowed."""
    expression = Expression(text)
    for node in _walk(expression.tree, text):
        _check_node(node, text, language)
    return expression


def checked(value: float | str) -> Expression:
    """The expression of a YAML scalar that was checked before; numbers stand for themselves."""
    return Expression(value if isinstance(value, str) else repr(value))


def _syntax(text: str) -> ast.expr:
    if len(text) > MAX_TEXT:
        raise InvalidArgumentError(f"expression is longer than {MAX_TEXT} characters")
    try:
        with _parsing:
            return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as fault:
        raise _fault(text, (fault.offset or 1) - 1, f"syntax: {fault.msg}") from None
    except (ValueError, MemoryError, RecursionError) as fault:
        raise InvalidArgumentError(
            f"expression cannot be parsed: {fault or 'it is nested too deeply'}"
        ) from None


def constant(value: float | str) -> Expression:
    """An expression from a YAML scalar: numbers stand for themselves."""
    return parse(value if isinstance(value, str) else repr(value))


def _note(text: str, tree: ast.expr) -> str:
    line = text.splitlines()[-1] if text else ""
    tail = line.encode()[tree.end_col_offset or 0 :].decode() if "\n" not in text else ""
    return tail.partition("#")[2].strip()


def _walk(tree: ast.expr, text: str) -> Iterator[ast.expr]:
    """Expression nodes, without the names of called functions; depth is bounded."""
    stack: list[tuple[ast.AST, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise _fault(text, getattr(node, "col_offset", 0), "it is nested too deeply")
        if isinstance(node, ast.expr):
            yield node
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.Call) and child is node.func and isinstance(child, ast.Name):
                continue
            stack.append((child, depth + 1))


def _check_node(node: ast.expr, text: str, language: Language) -> None:
    if type(node) not in _RULES:
        raise _fault(
            text, node.col_offset, f"{_NOT_ALLOWED.get(type(node), 'this')} is not allowed"
        )
    if isinstance(node, ast.Constant):
        if not (node.value is None or isinstance(node.value, (bool, int, float, str))):
            raise _fault(text, node.col_offset, f"{node.value!r} is not allowed")
        _guard(text, node, lambda: _bounded(node.value))
    elif isinstance(node, (ast.BinOp, ast.UnaryOp)) and type(node.op) not in _OPERATORS:
        raise _fault(text, node.col_offset, "this operator is not allowed")
    elif isinstance(node, ast.Call):
        _check_call(node, text, language)


def _check_call(node: ast.Call, text: str, language: Language) -> None:
    if not isinstance(node.func, ast.Name):
        raise _fault(text, node.col_offset, _NOT_A_NAME + _without_module(node.func, language))
    if any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords
    ):
        raise _fault(text, node.col_offset, "* and ** arguments are not allowed")
    name = node.func.id
    if name not in language.functions:
        message = hinted(f"unknown function {name!r}", name, language.functions)
        raise _fault(text, node.col_offset, message)


_NOT_A_NAME = "only functions of the table can be called, by their bare names"


def _without_module(called: ast.expr, language: Language) -> str:
    """The hint for ``np.clip(...)``."""
    name = called.attr if isinstance(called, ast.Attribute) else ""
    return f"; write {name}(...)" if name in language.functions else ""


_NOT_ALLOWED: dict[type[ast.expr], str] = {
    ast.Attribute: "access to attributes",
    ast.Lambda: "lambda",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.NamedExpr: "assignment",
    ast.JoinedStr: "a formatted string",
    ast.Starred: "unpacking",
    ast.Dict: "a dictionary",
    ast.Set: "a set",
    ast.Await: "await",
    ast.Yield: "yield",
}


def _fault(text: str, column: int, message: str) -> InvalidArgumentError:
    lead = len(text) - len(text.lstrip())
    return InvalidArgumentError(f"expression {text!r}, column {column + lead + 1}: {message}")


def _guard(text: str, node: ast.expr, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Ge2rtError as fault:
        raise _fault(text, node.col_offset, fault.record.message + _expected(fault)) from None
    except _FAULTS as fault:
        raise _fault(text, node.col_offset, _say(fault)) from None


def _say(fault: Exception) -> str:
    if isinstance(fault, ZeroDivisionError):
        return "division by zero"
    if isinstance(fault, OverflowError):
        return "the number is too large"
    return str(fault) or type(fault).__name__


def _expected(fault: Ge2rtError) -> str:
    parts = [f"{k} {v}" for k in ("expected", "got") if (v := getattr(fault.record, k))]
    return "; " + ", ".join(parts) if parts else ""


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose refusal of its arguments says what it takes, by the table's name."""

    def apply(*args: Any, **kw: Any) -> Any:
        try:
            return function(*args, **kw)
        except TypeError as fault:
            if not _MISFIT.search(str(fault)):
                raise
            raise TypeError(_takes(name, function, fault)) from None

    return apply


def _takes(name: str, function: Callable[..., Any], fault: TypeError) -> str:
    import inspect  # late: only messages need it

    try:
        taken = inspect.signature(function).parameters.values()
    except ValueError:  # a function written in C may not tell
        return str(fault)
    names = [
        p.name + ("" if p.default is p.empty else f"={p.default!r}")
        for p in taken if p.kind is not p.KEYWORD_ONLY
    ]  # fmt: skip
    return f"{name} takes ({', '.join(names)})"


class _Evaluation:
    """One run over a tree."""

    def __init__(self, text: str, names: Mapping[str, Any], language: Language) -> None:
        self.text, self.names, self.language = text, names, language

    def value(self, node: ast.expr) -> Any:
        return _RULES[type(node)](self, node)

    def guard(self, node: ast.expr, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        return _guard(self.text, node, lambda: function(*args, **kw))

    def name(self, node: ast.Name) -> Any:
        try:
            return self.names[node.id]
        except KeyError:
            message = hinted(f"name {node.id!r} is not known here", node.id, self.names)
            raise _fault(self.text, node.col_offset, message) from None

    def binary(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        return self.guard(node, self.language.binary[type(node.op)], left, right)

    def unary(self, node: ast.UnaryOp) -> Any:
        return self.guard(node, _UNARY[type(node.op)], self.value(node.operand))

    def compare(self, node: ast.Compare) -> Any:
        left = self.value(node.left)
        result: Any = True
        for op, item in zip(node.ops, node.comparators, strict=True):
            right = self.value(item)
            result = self.guard(node, _COMPARE[type(op)], left, right)
            if len(node.ops) > 1 and not self.guard(node, bool, result):
                return result
            left = right
        return result

    def logic(self, node: ast.BoolOp) -> Any:
        stop_at = isinstance(node.op, ast.Or)
        result: Any = None
        for item in node.values:
            result = self.value(item)
            if self.guard(node, bool, result) is stop_at:
                break
        return result

    def choice(self, node: ast.IfExp) -> Any:
        taken = self.guard(node, bool, self.value(node.test))
        return self.value(node.body if taken else node.orelse)

    def items(self, node: ast.Tuple | ast.List) -> Any:
        return tuple(self.value(item) for item in node.elts)

    def index(self, node: ast.Subscript) -> Any:
        return self.guard(node, operator.getitem, self.value(node.value), self.value(node.slice))

    def slice(self, node: ast.Slice) -> Any:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if p is None else self.value(p) for p in parts))

    def call(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        functions = self.language.functions or {}
        args = [self.value(a) for a in node.args]
        kw = {str(k.arg): self.value(k.value) for k in node.keywords}
        result = self.guard(node, _named(name, functions[name]), *args, **kw)
        return self.guard(node, _bounded, result)


_RULES: dict[type[ast.expr], Callable[[_Evaluation, Any], Any]] = {
    ast.Constant: lambda _, node: node.value,
    ast.Name: _Evaluation.name,
    ast.BinOp: _Evaluation.binary,
    ast.UnaryOp: _Evaluation.unary,
    ast.Compare: _Evaluation.compare,
    ast.BoolOp: _Evaluation.logic,
    ast.IfExp: _Evaluation.choice,
    ast.Tuple: _Evaluation.items,
    ast.List: _Evaluation.items,
    ast.Subscript: _Evaluation.index,
    ast.Slice: _Evaluation.slice,
    ast.Call: _Evaluation.call,
}
