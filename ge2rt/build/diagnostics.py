"""NVRTC's log as records, mapped back to the template."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ge2rt.base.errors import CompileError
from ge2rt.build import headers
from ge2rt.build.records import Source

# Sources are compiled under this folder so that no current directory gets into the output.
PREFIX = "/ge2rt/"
_HEAD = re.compile(
    r"(?P<file>.*?)\((?P<line>\d+)\): (?P<severity>catastrophic error|error|warning|remark|note)"
    r"(?: #[\w-]+)?: (?P<text>.*)"
)
_AT_END = re.compile(r"At end of source: (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)")
_MISSING = re.compile(r"(?:cannot|could not) open source file \"([^\"]+)\"")
_UNDEFINED = re.compile(r"identifier \"(\w+)\" is undefined")
_HEADER_OF = (
    (re.compile(r"half2?|__half2?|__(half|float)2(half|float)\w*"), "cuda_fp16.h"),
    (re.compile(r"(__)?nv_bfloat16\w*|__(bfloat16|float)2(bfloat16|float)\w*"), "cuda_bf16.h"),
    (re.compile(r"__nv_fp8\w*"), "cuda_fp8.h"),
)
_SEMICOLON = 'expected a ";"'
_SHOWN = 8


@dataclass(frozen=True)
class CompileDiagnostic:
    """One message of the compiler. ``file`` and ``line`` are the template's where it is known."""

    file: str
    line: int
    column: int  # 1-based, 0: unknown
    severity: str  # "error" | "warning" | "remark" | "note" (to the message before it)
    text: str
    shown: str = ""  # the line of source, and a caret below it
    rendered_line: int = 0  # line of the rendered source, 0 when the message is about a header

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")
        if self.rendered_line and self.rendered_line != self.line:
            at += f" (rendered line {self.rendered_line})"
        return f"{at}: {self.severity}: {self.text}" + (f"\n{self.shown}" if self.shown else "")


def parse_log(log: str, source: Source | None = None) -> tuple[CompileDiagnostic, ...]:
    """The messages of a log in order; those about ``source`` point at its template."""
    found: list[tuple[CompileDiagnostic, list[str]]] = []
    for line in log.splitlines():
        match, at_end = _HEAD.fullmatch(line), _AT_END.fullmatch(line)
        if match:
            found.append((_first(match, source), []))
        elif at_end and source is not None:
            found.append((_last(at_end["text"], source), []))
        elif found and line.startswith("  "):
            found[-1][1].append(line[2:])
    messages = [_completed(message, lines) for message, lines in found]
    return tuple(_before(m, source) if source and m.text == _SEMICOLON else m for m in messages)


def _first(match: re.Match[str], source: Source | None) -> CompileDiagnostic:
    file, line = match["file"].removeprefix(PREFIX), int(match["line"])
    severity = "error" if match["severity"].endswith("error") else match["severity"]
    if source is None or file != source.name:
        return CompileDiagnostic(file, line, 0, severity, match["text"])
    name, at = source.line_map.find(line)
    return CompileDiagnostic(name or file, at, 0, severity, match["text"], rendered_line=line)


def _last(text: str, source: Source) -> CompileDiagnostic:
    """A message about the end of the text, where something is still open."""
    line = len(source.text.splitlines())
    name, at = source.line_map.find(line)
    text = f"{text} at the end of the text"
    return CompileDiagnostic(name or source.name, at, 0, "error", text, rendered_line=line)


def _completed(message: CompileDiagnostic, lines: list[str]) -> CompileDiagnostic:
    """With the lines that follow the head: more text, then perhaps a source line and its caret."""
    caret = next((i for i, line in enumerate(lines) if line.strip() == "^"), 0)
    told = lines[: caret - 1] if caret else lines
    text = " ".join([message.text, *(line.strip() for line in told if line.strip())])
    if not caret:
        return replace(message, text=text)
    shown = f"  {lines[caret - 1]}\n  {lines[caret]}"
    return replace(message, text=text, column=lines[caret].index("^") + 1, shown=shown)


def _before(message: CompileDiagnostic, source: Source) -> CompileDiagnostic:
    """The message that a semicolon is missing in front of a line, at the end of that before it."""
    lines = source.text.split("\n")[: message.rendered_line]
    if not lines or lines[-1][: message.column - 1].strip():
        return message  # about a header, or something stands before it in its line
    at = next((n for n in range(len(lines) - 1, 0, -1) if _is_code(lines[n - 1])), 0)
    text = lines[at - 1].rstrip() if at else ""
    if not text or text.endswith("*/"):
        return message
    file, line = source.line_map.find(at)
    return replace(
        message, file=file or message.file, line=line, column=len(text) + 1, rendered_line=at,
        shown=f"  {text}\n  {' ' * len(text)}^",
    )  # fmt: skip


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("//")


def failure(log: str, source: Source, kernel: str, arch: str) -> CompileError:
    """The error for a log of a failed compilation: its first errors, and what to do."""
    messages = parse_log(log, source)
    if not any(m.severity == "error" for m in messages):
        return CompileError(
            f"NVRTC refused the compilation for {arch}\n{log.strip()}", kernel=kernel,
            where=source.name,
        )  # fmt: skip
    return refusal(messages, source, kernel, arch=arch, log=log)


def refusal(
    messages: tuple[CompileDiagnostic, ...], source: Source, kernel: str, *, arch: str, log: str
) -> CompileError:
    """The error for messages of which at least one is an error. Warnings are not shown."""
    groups = _with_notes(messages)
    first, count = groups[0][0], len(groups)
    text = "\n".join(str(m) for group in groups[:_SHOWN] for m in group)
    more = f"\n... and {count - _SHOWN} more errors" if count > _SHOWN else ""
    return CompileError(
        f"{count} error{'s' * (count > 1)} for {arch}\n{text}{more}",
        kernel=kernel, where=f"{first.file}:{first.line}",
        next_step=_advice(first.text, source),
        extra={"diagnostics": messages, "log": log, "arch": arch},
    )  # fmt: skip


def _with_notes(messages: tuple[CompileDiagnostic, ...]) -> list[list[CompileDiagnostic]]:
    """Each error with the notes that follow it."""
    groups: list[list[CompileDiagnostic]] = []
    noted = False
    for message in messages:
        if message.severity == "error":
            groups.append([message])
        elif noted and message.severity == "note":
            groups[-1].append(message)
        noted = message.severity == "error" or (noted and message.severity == "note")
    return groups


def _advice(text: str, source: Source) -> str:
    """The next step for the mistakes that templates begin with, or an empty string."""
    templated = source.name.endswith(".j2")
    missing = _MISSING.search(text)
    if missing:
        return headers.advice(missing[1], templated=templated)
    undefined = _UNDEFINED.search(text)
    if undefined is None:
        return ""
    name = undefined[1]
    header = next((file for names, file in _HEADER_OF if names.fullmatch(name)), "")
    if header:
        how = "{{ headers }} (what the dtypes need) or " if templated else ""
        return f"begin the text with {how}#include <{header}>"
    entry = re.search(rf"\b{re.escape(source.entry)}\(([^)]*)\)", source.text)
    if templated and entry and re.search(rf"\b{name} *(,|$)", entry[1]):
        return (
            f"this is the shape-generic form, where {name} is an argument of the kernel: hand it "
            "on to the functions that use it"
        )
    if templated and name.isupper():
        return f"if {name} is a name of the declaration, write {{{{ {name} }}}}"
    return ""
