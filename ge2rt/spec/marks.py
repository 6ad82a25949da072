"""YAML text -> plain values, with line and column of every node.

Only plain types come out: dict (string keys), list, str, int, float, bool, None. Scalars follow
YAML 1.2's core schema: ``1e-5`` is a number, ``no`` is a word. Duplicate keys are faults, aliases
and ``<<`` merges work, and their expansion is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yaml import events

MAX_BYTES = 8 << 20
MAX_NODES = 200_000
MAX_DEPTH = 50

Path = tuple["str | int", ...]
Mark = tuple[int, int]  # line and column, from 1

_WORDS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT = re.compile(r"[-+]?[0-9]+$|0x[0-9a-fA-F]+$|0o[0-7]+$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$")
_MAX_DIGITS = 100
_TAGS = {"!", "tag:yaml.org,2002:str"}


class MarksFault(Exception):
    """One fault that ends the reading: where it is and what it is."""

    def __init__(self, mark: Mark, message: str) -> None:
        self.mark, self.message = mark, message
        super().__init__(message)


@dataclass(frozen=True)
class Document:
    """Values, the mark of each value and of each mapping key, and faults that did not stop it."""

    value: Any
    marks: Mapping[Path, Mark]
    keys: Mapping[Path, Mark]
    faults: tuple[tuple[Mark, Path, str], ...]

    def mark(self, path: Path, *, key: bool = False) -> Mark:
        """Where ``path`` stands; the nearest parent's mark when it has none of its own."""
        if key and path in self.keys:
            return self.keys[path]
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path, (1, 1))


def read_yaml(data: bytes | str) -> Document:
    """The document of ``data``; :class:`MarksFault` for syntax, encoding, tags and bombs."""
    import yaml  # late: a cached call reads a snapshot instead

    text = _decode(data)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder()
    try:
        reader = loader(text)
        try:
            return builder.document(reader)
        finally:
            reader.dispose()
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        where = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what = ": ".join(p for p in (fault.context, fault.problem) if p)
        raise MarksFault(where, f"YAML syntax: {what}{_hint(fault.problem or '')}") from None
    except yaml.reader.ReaderError as fault:
        where = _position(text, fault.position)
        raise MarksFault(where, f"YAML syntax: {fault.reason}") from None
    except yaml.YAMLError as fault:
        raise MarksFault((1, 1), f"YAML syntax: {fault}") from None


# a part of what the readers say -> what to do
_HINTS: Mapping[str, str] = {
    "mapping values are not allowed": "quote the text: a colon followed by a space starts a"
    " mapping; or the line is indented too deep",
    "cannot start any token": "indent by spaces, and quote a text that begins with @ % ` or a tab",
    "expected ',' or": "close the bracket, and quote texts that hold commas, brackets or quotes",
    "expected node content": "close the bracket, or give a value",
    "expected key": "keys of one mapping begin in the same column",
    "expected <block end>": "keys of one mapping begin in the same column",
    "expected '-' indicator": "the items of one list begin in the same column",
    "unexpected end of stream": "close the quote",
    "expected ':'": "a key is followed by a colon and a space",
    "undefined alias": "quote a text that begins with *",
    "expected alphabetic or numeric": "quote a text that begins with * or &",
}


def _hint(problem: str) -> str:
    found = next((hint for part, hint in _HINTS.items() if part in problem), "")
    return f"; {found}" if found else ""


def _decode(data: bytes | str) -> str:
    if len(data) > MAX_BYTES:
        raise MarksFault((1, 1), f"the file is larger than {MAX_BYTES >> 20} MiB")
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        before = data[: fault.start].decode("utf-8", "replace")
        raise MarksFault(_position(before, len(before)), "the file is not UTF-8 text") from None


def _position(text: str, index: int) -> Mark:
    before = text[:index]
    return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1


class _Builder:
    """Builds the tree from parser events."""

    def __init__(self) -> None:
        self.marks: dict[Path, Mark] = {}
        self.keys: dict[Path, Mark] = {}
        self.faults: list[tuple[Mark, Path, str]] = []
        self.anchors: dict[str, tuple[Any, int] | None] = {}  # value and its expanded nodes
        self.nodes = 0

    def document(self, reader: Any) -> Document:
        from yaml import events

        self.next = reader.get_event
        event = self.next()
        while not isinstance(event, (events.DocumentStartEvent, events.StreamEndEvent)):
            event = self.next()
        value = None
        if isinstance(event, events.DocumentStartEvent):
            value = self.node(self.next(), ())
            self.next()
            event = self.next()
        if not isinstance(event, events.StreamEndEvent):
            raise MarksFault(_start(event), "a second YAML document begins here; one is read")
        return Document(value, self.marks, self.keys, tuple(self.faults))

    def count(self, event: Any, nodes: int = 1) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise MarksFault(_start(event), f"more than {MAX_NODES} values after expansion")

    def node(self, event: events.Event, path: Path) -> Any:
        mark = _start(event)
        self.marks[path] = mark
        if len(path) > MAX_DEPTH:
            raise MarksFault(mark, f"nested deeper than {MAX_DEPTH} levels")
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self.alias(event)
        anchor = getattr(event, "anchor", None)
        if anchor:
            self.anchors[anchor] = None
        before = self.nodes
        self.count(event)
        value = _READ[kind](self, event, path)
        if anchor:
            self.anchors[anchor] = (value, self.nodes - before)
        return value

    def alias(self, event: Any) -> Any:
        if event.anchor not in self.anchors:
            raise MarksFault(_start(event), f"no anchor &{event.anchor} before this alias")
        found = self.anchors[event.anchor]
        if found is None:
            raise MarksFault(_start(event), f"the alias *{event.anchor} stands inside its anchor")
        self.count(event, found[1])
        return found[0]

    def scalar(self, event: Any, path: Path) -> Any:
        plain, text = event.implicit[0], event.value
        if event.tag is not None and event.tag not in _TAGS:
            raise MarksFault(_start(event), f"the tag {event.tag} is not allowed")
        if event.tag is not None or not plain:
            return text
        try:
            return _plain(text)
        except ValueError as fault:
            self.faults.append((_start(event), path, str(fault)))
            return text

    def sequence(self, event: Any, path: Path) -> list[Any]:
        _untagged(event)
        items: list[Any] = []
        item = self.next()
        while type(item).__name__ != "SequenceEndEvent":
            items.append(self.node(item, (*path, len(items))))
            item = self.next()
        return items

    def mapping(self, event: Any, path: Path) -> dict[str, Any]:
        _untagged(event)
        result: dict[str, Any] = {}
        merged: list[Any] = []
        event = self.next()
        while type(event).__name__ != "MappingEndEvent":
            if type(event).__name__ != "ScalarEvent":
                raise MarksFault(_start(event), "a key must be a word")
            key, mark = event.value, _start(event)
            here = (*path, key)
            self.count(event)
            if key == "<<" and event.implicit[0]:
                merged.append((mark, self.node(self.next(), here)))
            elif key in result:
                first = self.keys[here]
                self.node(self.next(), (*path, key, "again"))
                self.faults.append((mark, here, f"duplicate key, first on line {first[0]}"))
            else:
                self.keys[here] = mark
                result[key] = self.node(self.next(), here)
            event = self.next()
        return self.merge(result, merged) if merged else result

    def merge(self, own: dict[str, Any], merged: list[Any]) -> dict[str, Any]:
        result = dict(own)
        for mark, value in merged:
            for source in value if isinstance(value, list) else [value]:
                if not isinstance(source, dict):
                    raise MarksFault(mark, "<< takes a mapping or a list of mappings")
                for key, item in source.items():
                    result.setdefault(key, item)
        return result


_READ = {
    "ScalarEvent": _Builder.scalar,
    "SequenceStartEvent": _Builder.sequence,
    "MappingStartEvent": _Builder.mapping,
}


def _start(event: Any) -> Mark:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _untagged(event: Any) -> None:
    if event.tag is not None and event.tag not in (
        "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq",
    ):  # fmt: skip
        raise MarksFault(_start(event), f"the tag {event.tag} is not allowed")


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] not in "+-.0123456789":
        return text
    if _INT.match(text):
        if len(text) > _MAX_DIGITS:
            raise ValueError(f"the number has more than {_MAX_DIGITS} digits")
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.match(text):
        return float(text)
    if _SPECIAL.match(text):
        return float(text.replace(".", "", 1))
    return text
