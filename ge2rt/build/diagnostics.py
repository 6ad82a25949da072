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
    r"(?P<file>.*?)\((?P<line>\d+)\): (?P<severity>catastrophic error|error|warning|remark)"
    r"(?: #[\w-]+)?: (?P<text>.*)"
)
_MISSING = re.compile(r"(?:cannot|could not) open source file \"([^\"]+)\"")
_UNDEFINED = re.compile(r"identifier \"(\w+)\" is undefined")
_HEADER_OF = (
    (re.compile(r"half2?|__half2?|__(half|float)2(half|float)\w*"), "cuda_fp16.h"),
    (re.compile(r"(__)?nv_bfloat16\w*|__(bfloat16|float)2(bfloat16|float)\w*"), "cuda_bf16.h"),
    (re.compile(r"__nv_fp8\w*"), "cuda_fp8.h"),
)
_SHOWN = 8


@dataclass(frozen=True)
class CompileDiagnostic:
    """One message of the compiler. ``file`` and ``line`` are the template's where it is known."""

    file: str
    line: int
    column: int  # 1-based, 0: unknown
    severity: str  # "error" | "warning" | "remark"
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
        match = _HEAD.fullmatch(line)
        if match:
            found.append((_first(match, source), []))
        elif found and line.startswith("  "):
            found[-1][1].append(line[2:])
    return tuple(_completed(message, lines) for message, lines in found)


def _first(match: re.Match[str], source: Source | None) -> CompileDiagnostic:
    file, line = match["file"].removeprefix(PREFIX), int(match["line"])
    severity = "error" if match["severity"].endswith("error") else match["severity"]
    if source is None or file != source.name:
        return CompileDiagnostic(file, line, 0, severity, match["text"])
    name, at = source.line_map.find(line)
    return CompileDiagnostic(name or file, at, 0, severity, match["text"], rendered_line=line)


def _completed(message: CompileDiagnostic, lines: list[str]) -> CompileDiagnostic:
    """With the lines that follow the head: more text, then perhaps a source line and its caret."""
    caret = next((i for i, line in enumerate(lines) if line.strip() == "^"), 0)
    told = lines[: caret - 1] if caret else lines
    text = " ".join([message.text, *(line.strip() for line in told if line.strip())])
    if not caret:
        return replace(message, text=text)
    shown = f"  {lines[caret - 1]}\n  {lines[caret]}"
    return replace(message, text=text, column=lines[caret].index("^") + 1, shown=shown)


def failure(log: str, source: Source, kernel: str, arch: str) -> CompileError:
    """The error for a log of a failed compilation: its first errors, and what to do."""
    messages = parse_log(log, source)
    errors = [m for m in messages if m.severity == "error"]
    if not errors:
        return CompileError(
            f"NVRTC refused the compilation for {arch}", kernel=kernel, got=log.strip(),
            where=source.name,
        )  # fmt: skip
    text = "\n".join(str(m) for m in errors[:_SHOWN])
    more = f"\n... and {len(errors) - _SHOWN} more errors" if len(errors) > _SHOWN else ""
    return CompileError(
        f"{len(errors)} error{'s' * (len(errors) > 1)} for {arch}\n{text}{more}",
        kernel=kernel, where=f"{errors[0].file}:{errors[0].line}",
        next_step=_advice(errors[0].text, source),
        extra={"diagnostics": messages, "log": log},
    )  # fmt: skip


def _advice(text: str, source: Source) -> str:
    """The next step for the mistakes that templates begin with, or an empty string."""
    missing = _MISSING.search(text)
    if missing:
        return headers.advice(missing[1])
    undefined = _UNDEFINED.search(text)
    if undefined is None:
        return ""
    name, templated = undefined[1], source.name.endswith(".j2")
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
