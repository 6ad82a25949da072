"""Between what results of Python integers lie: these have no bounds, those of kernels 64 bits.

A trace holds for Python integers of the call within some number of bits only. Where results of
them would still not fit, it is made again for fewer bits, and at last for the values themselves.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ge2rt.jit.scope import current
from ge2rt.jit.traced import Concretise, Traced

Span: TypeAlias = tuple[int, int]  # least and most

# of integers, tried in turn: products of two, three, four, five of them are exact
BITS = (61, 31, 20, 15, 12, 6)
_ALL: Span = (-(2**63), 2**63 - 1)
EXACT: Span = (-(2**53), 2**53)  # integers that become f64 without rounding
_MOST_BITS = 4096  # of a bound: 7**n is not worked out for any n


class TooWide(Concretise):
    """A result of Python numbers of the call may take more than 64 bits."""


def result_span(name: str, values: Sequence[Any], leaves: frozenset[int]) -> Span | None:
    """Between what the result of a ufunc of Python numbers lies; None where it is no integer.

    The integers of the call that it is made of are narrowed as needed; :class:`TooWide` where that
    does not do.
    """
    whole = [value for value in values if _is_whole(value)]
    if name == "divide" or (name in COMPARISONS and len(whole) < len(values)):
        # these are worked out in f64, Python's are exact
        _require(EXACT, [_span(value, EXACT, tighten=True) for value in whole], leaves)
        return None
    wide = [_span(value, _ALL) for value in whole]
    _require(_ALL, wide, leaves)
    spanned = _RULES.get(name)
    if len(whole) < len(values) or spanned is None:
        return None
    found = spanned(wide)
    if not _holds(_ALL, found):
        bits = current().bits
        found = spanned([_span(v, (-(2**bits), 2**bits - 1), tighten=True) for v in values])
    _require(_ALL, [found], leaves)
    return found


def hold(value: Traced, bounds: Span) -> None:
    """Have a Python integer lie within bounds; :class:`TooWide` where that may not be so."""
    _require(bounds, [_span(value, bounds, tighten=True)], value.leaves)


def _is_whole(value: Any) -> bool:
    return value.weak is int if isinstance(value, Traced) else isinstance(value, int)


def _span(value: Any, bounds: Span, *, tighten: bool = False) -> Span:
    """The span of an operand; an integer of the call is held to lie within ``bounds``."""
    if not isinstance(value, Traced):
        return int(value), int(value)
    if value.span is not None:
        return value.span
    if value.node.op != "input":
        return _ALL  # what stands for a Python number under grad or vmap
    (leaf,) = value.leaves
    if tighten:
        current().narrow(leaf, *bounds)
    return current().ranges.get(leaf, bounds)


def _require(bounds: Span, spans: list[Span], leaves: frozenset[int]) -> None:
    if leaves and not all(_holds(bounds, span) for span in spans):
        raise TooWide(leaves)


def _holds(outer: Span, inner: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


# -- rules -----------------------------------------------------------------------------------------
Rule: TypeAlias = "Callable[[list[Span]], Span]"

_ENDLESS: Span = (-(2**_MOST_BITS), 2**_MOST_BITS)


def _corners(function: Callable[..., int]) -> Rule:
    """For what is monotone in each operand, in whichever direction."""

    def rule(spans: list[Span]) -> Span:
        found = [function(*corner) for corner in itertools.product(*spans)]
        return min(found), max(found)

    return rule


def _absolute(spans: list[Span]) -> Span:
    ((least, most),) = spans
    return (0 if least <= 0 <= most else min(abs(least), abs(most))), max(abs(least), abs(most))


def _left_shift(spans: list[Span]) -> Span:
    least, most = spans[1]
    return _corners(operator.lshift)(spans) if least >= 0 and most < 64 else _ENDLESS


def _right_shift(spans: list[Span]) -> Span:
    (least, most), (low, high) = spans
    if low < 0:
        return _ENDLESS
    return _corners(operator.rshift)([(least, most), (min(low, 64), min(high, 64))])


def _power(spans: list[Span]) -> Span:
    (least, most), (low, high) = spans
    largest = max(abs(least), abs(most))
    if low < 0 or high * largest.bit_length() > _MOST_BITS:
        return _ENDLESS
    return -(largest**high), max(largest**high, 1)


def _bits(spans: list[Span]) -> Span:
    taken = max(max(~bound if bound < 0 else bound for bound in span) for span in spans)
    return -(1 << taken.bit_length()), (1 << taken.bit_length()) - 1


def _quotient(spans: list[Span]) -> Span:
    """No further from 0 than what is divided, or for a remainder than the divisor."""
    largest = max(abs(bound) for span in spans for bound in span)
    return -largest, largest


_RULES: dict[str, Rule] = {
    "add": _corners(operator.add), "subtract": _corners(operator.sub),
    "multiply": _corners(operator.mul), "negative": _corners(operator.neg),
    "positive": _corners(operator.pos), "invert": _corners(operator.invert),
    "absolute": _absolute, "left_shift": _left_shift, "right_shift": _right_shift,
    "power": _power, "bitwise_and": _bits, "bitwise_or": _bits, "bitwise_xor": _bits,
    "floor_divide": _quotient, "remainder": _quotient, "divmod": _quotient,
}  # fmt: skip

COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
