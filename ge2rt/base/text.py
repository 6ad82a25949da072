"""Short texts for messages, of foreign objects too: their own code is never run."""

from __future__ import annotations

from typing import Any

_LONG = 60
_ITEMS = 8


def show(value: Any) -> str:
    """A short text of any object on one line; its type where it is not plain.

    Only exact built-in types are printed by value: a subclass could do anything in its ``repr``.
    """
    kind = type(value)
    if kind is str:
        return repr(value[:_LONG]) + ("..." if len(value) > _LONG else "")
    if kind is int and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    if kind in (int, float, bool, type(None)):
        return repr(value)
    if kind in (list, tuple) and all(_is_plain(v) for v in value[:_ITEMS]):
        inner = ", ".join(show(v) for v in value[:_ITEMS])
        return f"[{inner}{', ...' if len(value) > _ITEMS else ''}]"
    return f"an object of type {kind.__name__}"


def _is_plain(value: Any) -> bool:
    return type(value) in (str, int, float, bool, type(None))


def counted(count: int, what: str, plural: str = "s") -> str:
    """A number of things."""
    return f"{count} {what}{plural if count != 1 else ''}"


def one_line(text: str, limit: int) -> str:
    """``text`` without line breaks and control characters, cut to about ``limit`` characters."""
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text)} characters)"
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    return char if char.isprintable() else repr(char)[1:-1]
