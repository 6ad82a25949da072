"""PTX text to :class:`ge2rt.ptx.ast.Module`: the module level.

Bodies are read by :mod:`ge2rt.ptx.parse_function`, declarations by
:mod:`ge2rt.ptx.parse_variable`, operands by :mod:`ge2rt.ptx.parse_operand`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ge2rt.base.errors import CompileError, Ge2rtError
from ge2rt.ptx import parse_variable, scan
from ge2rt.ptx.ast import Function, Module, Variable
from ge2rt.ptx.parse_function import BodyParser
from ge2rt.ptx.parse_variable import names_twice, parameters, plain_variable, variables
from ge2rt.ptx.scan import NAME, blank_comments, excerpt, integer, line_at, words

_WORD = re.compile(r"\s*\.(\w+)", re.ASCII)
_VERSION = re.compile(r"\s+(\d{1,4})\.(\d{1,4})", re.ASCII)
_TARGET = re.compile(r"\s+(\w+)((?:\s*,\s*\w+)*)", re.ASCII)
_NUMBER = re.compile(r"\s+(\d{1,9})", re.ASCII)
_FILE = re.compile(r'\s+(\d{1,9})\s+"((?:[^"\\\n]|\\.)*)"[^\n]*', re.ASCII)
_SECTION = re.compile(r"[^{;]*\{[^}]*\}", re.ASCII)
_LINE = re.compile(r"[^\n]*")
_ALIAS = re.compile(rf"\s+({NAME})\s*,\s*({NAME})\s*;", re.ASCII)
_DECLARATION = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^;"])*;', re.ASCII)
_HEADER = re.compile(
    rf"\s*(?:\(([^()]*)\))?\s*({NAME})\s*(?:\(([^()]*)\))?([^{{;]*?)\s*([{{;])", re.ASCII
)
_DIRECTIVE = re.compile(r"\s*\.(\w+)\s*((?:\w+\s*,\s*)*\w+|\([^{;]*\))?", re.ASCII)
_EXTENTS = words("maxntid reqntid reqnctapercluster")
_LINKAGE = words("visible weak extern common")


def parse_module(text: str) -> Module:
    """Parse PTX text.

    Raises :class:`CompileError` for text that is not PTX and :class:`UnsupportedError` for PTX that
    the records cannot hold; both name the line as ``ptx:LINE``.
    """
    return _ModuleParser(text.rstrip("\0")).parse()


class _ModuleParser:
    def __init__(self, text: str) -> None:
        self._text = blank_comments(text)
        self._position = 0
        self._counted = (0, 1)  # a position and its line
        self._version: tuple[int, int] | None = None
        self._target = ""
        self._address_size = 64
        self._variables: dict[str, Variable] = {}
        self._functions: dict[str, Function] = {}
        self._declared: dict[str, None] = {}
        self._files: dict[int, str] = {}
        self._loose: dict[str, int] = {}  # symbols used -> line of the function

    def parse(self) -> Module:
        text, position = self._text, 0
        try:
            while True:
                found = _WORD.match(text, position)
                if found is None:
                    break
                self._position = found.start(1) - 1
                position = self._directive(found[1], found.end())
            self._position = position
            if text[position:].strip():
                self._position += len(text[position:]) - len(text[position:].lstrip())
                raise CompileError(f"cannot read {excerpt(text, position)!r}")
            return self._module()
        except Ge2rtError as error:
            raise error.about(where=f"ptx:{line_at(text, self._position)}") from None

    def _line(self) -> int:
        """The line of the current directive, counted on from the last one asked for."""
        position, line = self._counted
        line += self._text.count("\n", position, self._position)
        self._counted = (self._position, line)
        return line

    def _module(self) -> Module:
        if self._version is None or not self._target:
            raise CompileError("no .version and .target: this is not PTX")
        known = self._variables.keys() | self._functions.keys() | self._declared.keys()
        for name, line in self._loose.items():
            if name not in known:
                raise CompileError(f"symbol {name} is not declared", where=f"ptx:{line}")
        externs = tuple(name for name in self._declared if name not in self._functions)
        return Module(
            self._version, self._target, self._address_size, tuple(self._variables.values()),
            self._functions, externs, self._files,
        )  # fmt: skip

    def _directive(self, word: str, position: int) -> int:
        """Read one directive whose name ends at ``position``; returns the position after it."""
        if word in ("global", "const", "shared", "tex"):
            return self._variable(self._position)
        if word in _LINKAGE:
            found = _WORD.match(self._text, position)
            if found and (found[1] in _LINKAGE or found[1] in ("entry", "func")):
                return self._directive(found[1], found.end())
            return self._variable(self._position)
        if word in ("entry", "func"):
            return self._function(word == "entry", position)
        if self._version is None and word != "version":
            raise CompileError(f".{word} stands before .version")
        if word == "alias":
            return self._alias(position)
        return self._plain(word, position)

    def _plain(self, word: str, position: int) -> int:
        pattern = _PLAIN.get(word)
        if pattern is None:
            raise CompileError(f"unknown directive .{word}")
        found = pattern.match(self._text, position)
        if found is None:
            raise CompileError(f"cannot read {excerpt(self._text, self._position)!r}")
        if word == "version":
            self._version = (int(found[1]), int(found[2]))
        elif word == "target":
            self._target = found[1]
        elif word == "address_size":
            self._address_size = int(found[1])
        elif word == "file":
            self._files[int(found[1])] = found[2]
        return found.end()

    def _variable(self, position: int) -> int:
        plain = plain_variable(self._text, position, self._line())
        if plain is not None:
            self._add(plain[0])
            return plain[1]
        found = _DECLARATION.match(self._text, position)
        if found is None:
            raise CompileError(f"cannot read {excerpt(self._text, position)!r}")
        for variable in variables(found[0][:-1], self._line()):
            self._add(variable)
        return found.end()

    def _add(self, variable: Variable) -> None:
        known = self._variables.get(variable.name)
        if known is None or known.extern:
            self._variables[variable.name] = variable
        elif not variable.extern:
            raise CompileError(f"{variable.name} is declared twice")

    def _alias(self, position: int) -> int:
        found = _ALIAS.match(self._text, position)
        if found is None or found[2] not in self._functions:
            raise CompileError(f"cannot read the alias {excerpt(self._text, position)!r}")
        self._functions[found[1]] = replace(self._functions[found[2]], name=found[1])
        return found.end()

    def _function(self, is_entry: bool, position: int) -> int:
        found = _HEADER.match(self._text, position)
        if found is None:
            raise CompileError(f"cannot read the header {excerpt(self._text, self._position)!r}")
        name = found[2]
        returns = parameters(found[1] or "")
        params = parameters(found[3] or "")
        directives = _directives(found[4])
        if twice := names_twice((*returns, *params)):
            raise CompileError(f"parameter {twice} is declared twice")
        if found[5] == ";":
            self._declared[name] = None
            return found.end()
        if name in self._functions:
            raise CompileError(f"function {name} is defined twice")
        line = self._line()
        body = BodyParser(self._text, found.end(), (*returns, *params)).parse()
        for symbol in body.loose:
            self._loose.setdefault(symbol, line)
        self._functions[name] = Function(
            name, is_entry, params, returns, body.registers, body.variables, body.blocks,
            directives, line,
        )  # fmt: skip
        return body.end


_PLAIN: dict[str, re.Pattern[str]] = {
    "version": _VERSION,
    "target": _TARGET,
    "address_size": _NUMBER,
    "file": _FILE,
    "section": _SECTION,
    "loc": _LINE,
}


def _directives(text: str) -> dict[str, tuple[int, ...]]:
    """``.maxntid 256`` -> ``{"maxntid": (256, 1, 1)}``; what has no numbers gets ()."""
    found: dict[str, tuple[int, ...]] = {}
    position = 0
    while position < len(text.rstrip()):
        match = _DIRECTIVE.match(text, position)
        if match is None:
            raise CompileError(f"cannot read the directive {excerpt(text, position)!r}")
        words = (match[2] or "").split(",")
        numbers = [integer(word.strip()) for word in words]
        given = tuple(number for number in numbers if number is not None)
        found[match[1]] = (*given, 1, 1)[:3] if match[1] in _EXTENTS else given
        position = match.end()
    return found


def clear() -> None:
    """Drop the parser's caches."""
    scan.clear()
    parse_variable.clear()
