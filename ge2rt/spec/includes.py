"""A kernels file and the files it includes: ``include: [kernels/rows.yaml]``, read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ge2rt.base.errors import RegistryError
from ge2rt.spec.entries import template_folders
from ge2rt.spec.faults import read_document, registry_error
from ge2rt.spec.marks import Document


@dataclass(frozen=True)
class FileEntries:
    """The entries of one file, with the marks of their first lines."""

    name: str  # as included; "" for the file that includes
    data: bytes
    entries: Sequence[dict[str, Any]]
    marks: Sequence[tuple[int, int]]


def read_all(file: Path, data: bytes, trusted: bool) -> list[FileEntries]:
    """``file`` with the contents ``data``, then what it includes; all faults of all files at once.

    ``trusted`` files are shipped with the package and checked by its tests.
    """
    faults: list[str] = []
    document, first = _read(file, "", data, file.parent, trusted, faults)
    found = [first] if first else []
    for name, mark in _included(document, faults, file):
        place = file.parent / name
        try:
            text = place.read_bytes()
        except OSError as fault:
            reason = fault.strerror or str(fault)
            faults.append(f"{file}:{mark[0]}:{mark[1]} include: {name!r} cannot be read: {reason}")
            continue
        inner, entries = _read(place, name, text, file.parent, trusted, faults)
        if inner is not None and isinstance(inner.value, dict) and "include" in inner.value:
            line, column = inner.mark(("include",))
            faults.append(f"{place}:{line}:{column} include: an included file includes nothing")
        found += [entries] if entries else []
    if faults:
        raise registry_error(file, faults)
    return found


def _read(
    file: Path, name: str, data: bytes, home: Path, trusted: bool, faults: list[str]
) -> tuple[Document | None, FileEntries | None]:
    try:
        document = read_document(file, data)
    except RegistryError as fault:
        faults += fault.faults
        return None, None
    if not trusted:
        from ge2rt.spec.schema import check_kernels  # late: it brings pydantic

        try:
            check_kernels(file, document, folders(file, home))
        except RegistryError as fault:
            faults += fault.faults
            return document, None
    entries = document.value["kernels"]
    marks = [document.mark(("kernels", i)) for i in range(len(entries))]
    return document, FileEntries(name, data, entries, marks)


def folders(file: Path, home: Path) -> tuple[Path, ...]:
    """Where templates are looked for: beside the file, then beside the one that includes it."""
    beside = template_folders(file.parent)
    return beside if file.parent == home else (*beside, *template_folders(home))


def _included(
    document: Document | None, faults: list[str], file: Path
) -> list[tuple[str, tuple[int, int]]]:
    """Names with their marks; a name that leaves the folder, or comes twice, is a fault."""
    value = document.value if document is not None else None
    names = value.get("include") if isinstance(value, dict) else None
    result: dict[str, tuple[int, int]] = {}
    for i, name in enumerate(names if isinstance(names, list) else ()):
        if document is None or not isinstance(name, str):
            continue  # told by the structure's check
        line, column = mark = document.mark(("include", i))
        pure = PurePosixPath(name)
        if not name or pure.is_absolute() or ".." in pure.parts or "\\" in name or ":" in name:
            faults.append(f"{file}:{line}:{column} include: {name!r} leaves the file's folder")
        elif name in result:
            faults.append(f"{file}:{line}:{column} include: {name!r} is included twice")
        else:
            result[name] = mark
    return list(result.items())
