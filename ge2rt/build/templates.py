"""Finding template files: two folders, and no way out of them. No Jinja in here."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from dataclasses import dataclass

from ge2rt.base import paths
from ge2rt.base.errors import CompileError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*")
_REFERENCE = re.compile(
    r"\{%[-+]?\s*(?:include|import|from|extends)\s+(?:\"([^\"]+)\"|'([^']+)'|(\S))"
)


@dataclass(frozen=True)
class TemplateFile:
    """One template as read: its text, digest, and the literal names it refers to."""

    path: str
    text: str
    digest: str
    references: tuple[str, ...]
    computed: bool  # refers to a template by an expression: what it reads is not known


@dataclass(frozen=True)
class _Read:
    stamp: tuple[int, int, int]
    file: TemplateFile


_files: dict[str, _Read] = {}


def clear() -> None:
    """Forget the files read so far."""
    _files.clear()


def load(name: str, folder: str) -> TemplateFile:
    """Template ``name``: from the kernel's folder first, then shipped files that begin with _.

    Raises :class:`CompileError` for a name or a link that leaves the folder, or no such file.
    """
    if not _NAME.fullmatch(name):
        raise CompileError(
            f"template name {name!r} is not allowed",
            next_step="use a plain file name inside the kernel's template folder",
        )
    shipped = str(paths.resource("templates"))
    roots = [folder or shipped]
    if os.path.basename(name).startswith("_"):
        roots.append(shipped)
    for root in roots:
        path = os.path.join(root, *name.split("/"))
        if os.path.isfile(path):
            return _read(path, root, name)
    raise CompileError(
        f"template {name!r} was not found", expected=f"a file in {' or '.join(roots)}",
        next_step="shared files start with _; others lie beside the kernels file",
    )  # fmt: skip


def _inside(path: str, root: str, name: str) -> None:
    if "/" not in name and not os.path.islink(path):
        return
    real, base = os.path.realpath(path), os.path.realpath(root)
    if os.path.commonpath([real, base]) != base:
        raise CompileError(
            f"template {name!r} leaves its folder through a link", expected=f"a file in {root}",
            got=real,
        )  # fmt: skip


def _read(path: str, root: str, name: str) -> TemplateFile:
    """The file's text and what it refers to; read again only after it changed."""
    info = os.stat(path)
    stamp = (info.st_mtime_ns, info.st_size, info.st_ino)
    known = _files.get(path)
    if known is not None and known.stamp == stamp:
        return known.file
    _inside(path, root, name)
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as fault:
        raise CompileError(
            "a template must be UTF-8", where=path, got=f"byte {data[fault.start]:#x}"
        ) from None
    text = text.replace("\r\n", "\n")
    found = [m.groups() for m in _REFERENCE.finditer(text)]
    references = tuple(sorted({a or b for a, b, _ in found if a or b}))
    file = TemplateFile(
        path, text, hashlib.sha256(data).hexdigest(), references, any(c for *_, c in found)
    )
    _files[path] = _Read(stamp, file)
    return file


def digests(name: str, folder: str) -> tuple[tuple[str, str], ...] | None:
    """(name, digest) of a template and all it includes, or None if that cannot be known."""
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        file = load(current, folder)
        if file.computed:
            return None
        found[current] = file.digest
        waiting += file.references
    return tuple(sorted(found.items()))
