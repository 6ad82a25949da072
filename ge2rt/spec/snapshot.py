"""Entries of a kernels file, from a snapshot in the cache folder where there is one.

A snapshot is three parts: a line with the digest of the rest, a line of JSON (the included files
with their digests, and a row an entry), and the entries' JSON texts one behind the other. An entry
is only parsed when its kernel is asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ge2rt.base import switches
from ge2rt.base.paths import cache_dir

FORMAT = 2  # part of the snapshot's name; raise it when this format changes
_CHECKERS = ("marks.py", "schema.py", "meaning.py", "includes.py")


@dataclass(frozen=True)
class Item:
    """One entry of a kernels file: what a registry's tables need, and its JSON text."""

    name: str
    op: str
    score: int
    aliases: Sequence[str]
    replace: bool
    include: str  # the included file it stands in, as named there; "" for the file itself
    mark: tuple[int, int]  # line and column
    text: bytes

    @property
    def entry(self) -> Mapping[str, Any]:
        """The entry, parsed."""
        parsed: Mapping[str, Any] = json.loads(self.text)
        return parsed


def load(file: Path, data: bytes, *, trusted: bool = False) -> list[Item]:
    """The entries of ``data``, the contents of ``file``, and of the files it includes."""
    place = _place(file, data)
    items = _read(place, file.parent) if place else None
    if items is None:
        items, included = _parse(file, data, trusted)
        if place:
            _write(place, items, included)
    return items


def _parse(file: Path, data: bytes, trusted: bool) -> tuple[list[Item], dict[str, str]]:
    from ge2rt.spec.includes import read_all  # late: it brings the YAML reader

    items, included = [], {}
    for each in read_all(file, data, trusted):
        if each.name:
            included[each.name] = hashlib.sha256(each.data).hexdigest()
        for entry, mark in zip(each.entries, each.marks, strict=True):
            items.append(Item(
                entry["name"], entry["op"], entry["score"], entry.get("aliases", ()),
                bool(entry.get("replace", False)), each.name, mark,
                json.dumps(entry, separators=(",", ":")).encode(),
            ))  # fmt: skip
    return items, included


def _place(file: Path, data: bytes) -> Path | None:
    """Where the snapshot lies. The folder counts: a check also looks for templates."""
    if switches.get("GE2RT_NO_CACHE"):
        return None
    head = f"{FORMAT} {_checkers()} {file.resolve().parent}\0".encode("utf-8", "surrogatepass")
    return cache_dir() / "registry" / f"{hashlib.sha256(head + data).hexdigest()}.json"


def _checkers() -> str:
    """Which checkers: another release, or an edit of them, makes former snapshots useless."""
    room = Path(__file__).parent
    try:
        states = [(room / name).stat() for name in _CHECKERS]
    except OSError:  # not plain files, e.g. in a zip
        return str(room)
    return " ".join(f"{s.st_mtime_ns}:{s.st_size}" for s in states)


def _read(place: Path, folder: Path) -> list[Item] | None:
    """The snapshot's entries; None when there is none, or it or an included file has changed."""
    try:
        digest, _, body = place.read_bytes().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        head, _, texts = body.partition(b"\n")
        included, rows = json.loads(head)
        for name, wanted in included.items():
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != wanted:
                return None
    except OSError:
        return None
    items, at = [], 0
    for name, op, score, aliases, replace, include, (line, column), length in rows:
        text = texts[at : at + length]
        items.append(Item(name, op, score, aliases, replace, include, (line, column), text))
        at += length
    return items


def _write(place: Path, items: list[Item], included: Mapping[str, str]) -> None:
    """Written aside and renamed; an unwritable cache only costs the next process its time."""
    rows = [
        [i.name, i.op, i.score, list(i.aliases), i.replace, i.include, i.mark, len(i.text)]
        for i in items
    ]
    head = json.dumps([included, rows], separators=(",", ":")).encode()
    body = head + b"\n" + b"".join(i.text for i in items)
    aside = place.with_name(f"{place.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        os.replace(aside, place)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()
