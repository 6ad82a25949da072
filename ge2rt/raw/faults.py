"""A failed compilation of a kernel from expressions, told by the caller's own text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

from ge2rt.base.errors import CompileError
from ge2rt.build.diagnostics import CompileDiagnostic, refusal
from ge2rt.build.records import Source
from ge2rt.raw.text import GENERATED

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[()\[\]{}]', re.DOTALL
)


@dataclass(frozen=True)
class _Part:
    """A text of the caller's: its name in messages, and the lines of the whole that it takes."""

    name: str
    text: str
    end: int  # the rendered line (1-based) behind it

    def at(self, offset: int, message: str) -> CompileDiagnostic:
        """An error about the character at ``offset``."""
        before = self.text[:offset].split("\n")
        line = self.text.split("\n")[len(before) - 1]
        shown = f"  {line}\n  {' ' * len(before[-1])}^"
        return CompileDiagnostic(
            self.name, len(before), len(before[-1]) + 1, "error", message, shown
        )


def retold(fault: CompileError, source: Source) -> CompileError:
    """The same failure, with its errors where the caller can mend them.

    The compiler finds that an expression is not finished in the line that follows, which is ours;
    that is told at the end of the caller's text. What else it says of our lines follows from that,
    or from a part's brackets that do not match, and is left out.
    """
    messages = fault.record.extra.get("diagnostics", ())
    foreign = [m for m in messages if m.severity == "error" and _is_ours(m)]
    if not foreign:
        return fault
    parts = _parts(source)
    ends = {part.end: part for part in parts}
    told = [found for part in parts if (found := _unmatched(part))]
    if not told:
        told = [_at_end(m, ends[m.rendered_line]) for m in foreign if m.rendered_line in ends]
    told += [m for m in messages if m.severity == "error" and not _is_ours(m)]
    if not told:
        return fault
    return refusal(
        tuple(told), source, fault.record.kernel, arch=fault.record.extra["arch"],
        log=fault.record.extra["log"],
    )  # fmt: skip


def _is_ours(message: CompileDiagnostic) -> bool:
    return message.file.endswith(GENERATED)


def _parts(source: Source) -> list[_Part]:
    lines, found, end = source.text.split("\n"), [], 1
    for name, origins in groupby(source.line_map.lines, key=lambda origin: origin[0]):
        begin, end = end, end + len(list(origins))
        if not name.endswith(GENERATED):
            found.append(_Part(name, "\n".join(lines[begin - 1 : end - 1]), end))
    return found


def _unmatched(part: _Part) -> CompileDiagnostic | None:
    """The first bracket without its counterpart."""
    opened: list[re.Match[str]] = []
    for token in _TOKEN.finditer(part.text):
        if token[0] in _CLOSING:
            opened.append(token)
        elif token[0] in _CLOSING.values():
            if not opened or _CLOSING[opened[-1][0]] != token[0]:
                return part.at(token.start(), f'nothing is open that this "{token[0]}" closes')
            opened.pop()
    if opened:
        return part.at(opened[-1].start(), f'this "{opened[-1][0]}" is never closed')
    return None


def _at_end(message: CompileDiagnostic, part: _Part) -> CompileDiagnostic:
    """A message about the line behind a part, at the part's end."""
    return part.at(len(part.text.rstrip()), f"{message.text} at the end of this text")
