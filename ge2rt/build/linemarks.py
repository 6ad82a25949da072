"""Marks in rendered text that say which template line it came from; removed before compiling.

A mark stands in front of the first text of a template line. Lines without one (they begin with an
expression inside a macro) count as the line after their predecessor's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

from ge2rt.build.records import LineMap

_MARK = re.compile("\ue000([^\ue000\ue001\n]*):([0-9]+)\ue001")
_CAPTURES = frozenset({"macro", "call", "filter"})


class LineMarks(Extension):
    """Puts a mark into the data of every template line that is printed."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Jinja's hook: the tokens of one template, with marks in them."""
        return _Marker(stream.name or "").run(stream)


class _Marker:
    """State of one walk over a template's tokens."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begun = 0  # the last line with something other than blanks in it
        self.marked = 0  # the last line that has its mark
        self.leads = 0  # the last line that begins with an expression
        self.captures: list[str] = []  # open macros...: their text may be compared or tested

    def run(self, stream: TokenStream) -> Iterator[Token]:
        words: list[str] = []  # of the block tag that is open
        for token in stream:
            if token.type == "data":
                yield Token(token.lineno, "data", self._data(token))
                continue
            if token.type == "variable_begin" and token.lineno > self.begun:
                self.leads = token.lineno
                if not self.captures:
                    yield Token(token.lineno, "data", self._mark(token.lineno))
            words = [] if token.type == "block_begin" else [*words, token.type, token.value]
            if token.type == "block_end":
                self._block(words)
            self.begun = max(self.begun, token.lineno)
            yield token

    def _block(self, words: list[str]) -> None:
        if len(words) < 2 or words[0] != "name":
            return
        word = words[1]
        # `set x = 1` captures nothing; `set x` and `set x | filter` capture text
        if word in _CAPTURES or (word == "set" and words[4:5] in (["block_end"], ["pipe"])):
            self.captures.append(word)
        elif word.startswith("end") and self.captures and word[3:] == self.captures[-1]:
            self.captures.pop()

    def _mark(self, line: int) -> str:
        self.marked = line
        return f"\ue000{self.name}:{line}\ue001"

    def _data(self, token: Token) -> str:
        done = []
        for line, piece in enumerate(token.value.split("\n"), start=token.lineno):
            text = piece.lstrip(" \t")
            if text and self._wanted(line):
                piece = piece[: len(piece) - len(text)] + self._mark(line) + text
            if text:
                self.begun = max(self.begun, line)
            done.append(piece)
        return "\n".join(done)

    def _wanted(self, line: int) -> bool:
        if line > self.begun:
            return True
        return self.marked != line and (not self.captures or self.leads == line)


def take_marks(marked: str) -> tuple[str, LineMap]:
    """The text without marks, and where each of its lines came from."""
    lines: list[tuple[str, int]] = []
    clean: list[str] = []
    name, at = "", 0
    for line in marked.split("\n"):
        found = _innermost(line)
        if found is not None:
            name, at = found.group(1), int(found.group(2))
        lines.append((name, at if found is not None else at + 1))
        clean.append(_MARK.sub("", line))
    return "\n".join(clean), LineMap(tuple(lines))


def _innermost(line: str) -> re.Match[str] | None:
    """The mark of the line's first text: the last of several that stand before it."""
    marks = list(_MARK.finditer(line))
    chosen = marks[0] if marks else None
    for mark in marks[1:]:
        if chosen is None or line[chosen.end() : mark.start()].strip():
            break
        chosen = mark
    return chosen
