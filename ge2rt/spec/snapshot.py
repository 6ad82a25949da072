"""Entries of a kernels file, from a snapshot in the cache folder where there is one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ge2rt.base import switches
from ge2rt.base.paths import cache_dir

FORMAT = 1  # part of the snapshot's name; raise it when this format changes
_CHECKERS = ("marks.py", "schema.py", "meaning.py")

Item = Mapping[str, Any]  # {"mark": [line, column], "entry": {...}}


def load(file: Path, data: bytes, *, trusted: bool = False) -> list[Item]:
    """The entries of ``data``, the contents of ``file``, with the marks of their first lines."""
    place = _place(file, data)
    items = _read(place) if place else None
    if items is None:
        items = _parse(file, data, trusted)
        if place:
            _write(place, items)
    return items


def _parse(file: Path, data: bytes, trusted: bool) -> list[Item]:
    if trusted:  # shipped with the package, and checked by its tests
        from ge2rt.spec.faults import read_document

        document = read_document(file, data)
        entries = document.value["kernels"]
    else:
        from ge2rt.spec.schema import read_kernels

        document, entries = read_kernels(file, data)
    marks = [document.mark(("kernels", i)) for i in range(len(entries))]
    return [{"mark": list(m), "entry": e} for m, e in zip(marks, entries, strict=True)]


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


def _read(place: Path) -> list[Item] | None:
    """The snapshot's entries; None when there is none or it is damaged."""
    try:
        digest, _, body = place.read_bytes().partition(b"\n")
    except OSError:
        return None
    if hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    items: list[Item] = json.loads(body)
    return items


def _write(place: Path, items: list[Item]) -> None:
    """Written aside and renamed; an unwritable cache only costs the next process its time."""
    body = json.dumps(items, separators=(",", ":")).encode()
    aside = place.with_name(f"{place.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        os.replace(aside, place)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()
