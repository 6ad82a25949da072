"""Bounds on what a template may ask for, so that no kernels file can take the machine's memory.

Loops and calls are counted for each rendering; texts and lists are measured before they are made.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

from ge2rt.base.errors import CompileError

MAX_ITEMS = 100_000  # characters of a repeated text, items of a list
MAX_TEXT = 4_000_000
_MAX_STEPS = 2_000_000  # items of ranges and calls in one rendering
_CALL_STEPS = 10
_MAX_POWER_BITS = 256
_WIDTH = re.compile(r"\d{5,}|\*")

# Filters whose result can be far larger than what goes in, is another one in every process, or is
# for other languages than ours.
DROPPED_FILTERS = (
    "attr", "batch", "center", "filesizeformat", "forceescape", "pprint", "random", "slice",
    "striptags", "truncate", "urlencode", "urlize", "wordwrap", "xmlattr",
)  # fmt: skip


class _Steps(threading.local):
    left = 0


_steps = _Steps()


def begin() -> None:
    """A rendering begins in this thread."""
    _steps.left = _MAX_STEPS


def spend(count: int) -> None:
    """Count items of loops and calls; CompileError when a rendering takes too many."""
    _steps.left -= count
    if _steps.left < 0:
        raise CompileError(f"the template takes more than {_MAX_STEPS} steps")


def bounded_range(*limits: int) -> range:
    """The global ``range``."""
    made = range(*limits)
    if len(made) > MAX_ITEMS:
        raise CompileError(f"range({', '.join(map(str, limits))}) has more than {MAX_ITEMS} items")
    spend(len(made))
    return made


def check_operator(operator: str, left: Any, right: Any) -> None:
    """Refuse ``left operator right`` when its result would be too large."""
    if operator == "**":
        whole = isinstance(left, int) and isinstance(right, int)
        if whole and (right < 0 or abs(left).bit_length() * right > _MAX_POWER_BITS):
            raise CompileError(f"{left} ** {right} is out of bounds in a template")
    elif operator == "*":
        for text, count in ((left, right), (right, left)):
            if isinstance(text, (str, list, tuple)) and isinstance(count, int):
                _repeated(len(text) * count)
    elif operator == "%" and isinstance(left, str):
        check_format(left)
    elif operator == "+" and isinstance(left, (str, list, tuple)):
        _sized(len(left) + (len(right) if isinstance(right, (str, list, tuple)) else 0))


def check_format(text: str) -> None:
    """Refuse a format with a width of many digits."""
    if _WIDTH.search(text):
        raise CompileError(f"the width in the format {text[:60]!r} is out of bounds")


def check_call(function: Any, args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse a method of a text, number or list whose result would be too large."""
    spend(_CALL_STEPS)
    function = getattr(function, "__wrapped__", function)  # the sandbox wraps str.format
    owner = getattr(function, "__self__", None)
    if not isinstance(owner, (str, int, float, list, tuple, dict)):
        return
    for value in (*args, *named.values()):
        if isinstance(value, int):
            _repeated(abs(value))
    name = getattr(function, "__name__", "")
    if name in ("format", "format_map") and isinstance(owner, str):
        check_format(owner)
    elif name == "replace" and isinstance(owner, str) and len(args) > 1:
        replaced(owner, str(args[0]), str(args[1]))
    elif name == "join" and isinstance(owner, str) and args:
        _sized(sum(len(str(part)) + len(owner) for part in args[0]))


def replaced(text: str, old: str, new: str, count: int | None = None) -> str:
    """The filter ``replace``."""
    _sized(len(text) + text.count(old) * len(new))
    return text.replace(old, new, -1 if count is None else count)


def concatenated(parts: Sequence[Any]) -> str:
    """What ``a ~ b`` makes."""
    texts = [str(part) for part in parts]
    _sized(sum(map(len, texts)))
    return "".join(texts)


def indented(inner: Callable[..., str]) -> Callable[..., str]:
    """The filter ``indent``, with a bounded width."""

    def indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
        step = width if isinstance(width, int) else len(width)
        _sized(len(text) + (text.count("\n") + 1) * step)
        return inner(text, width, first, blank)

    return indent


def summed(values: Iterable[Any]) -> Any:
    """The filter ``sum``, of numbers: lists would grow with the square of their count."""
    return sum(values)


def formatted(text: str, *args: Any, **named: Any) -> str:
    """The filter ``format``: printf's, with bounded widths."""
    check_format(text)
    return text % (named or args)


class Generator(CodeGenerator):
    """Jinja's code generator, with bounded ``~``."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """``a ~ b``, measured."""
        self.write("environment.concatenated((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


def _repeated(length: int) -> None:
    if length > MAX_ITEMS:
        raise CompileError(f"a repetition of {length} characters or items in a template")


def _sized(length: int) -> None:
    if length > MAX_TEXT:
        raise CompileError(f"a text or list of {length} characters or items in a template")
