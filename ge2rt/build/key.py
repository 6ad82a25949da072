"""Cache keys: everything that decides a compiled kernel, as named parts that can be printed."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ge2rt.build import headers, nvrtc
from ge2rt.build.records import Key, Source
from ge2rt.spec.version import GE2_API_VERSION

SCHEMA = "1"
_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*(?:\"([^\"\n]+)\"|<([^>\n]+)>)", re.MULTILINE)


@dataclass(frozen=True)
class Includes:
    """What a text includes, transitively. ``missing`` may be in NVRTC itself, or appear later."""

    shipped: bool  # headers of CUDA: their wheels' versions stand for them
    user: tuple[tuple[str, str], ...]  # path, SHA-256
    missing: tuple[str, ...]

    def __str__(self) -> str:
        parts = [headers.toolkit().fingerprint] if self.shipped else []
        parts += [f"{os.path.basename(path)}={digest}" for path, digest in self.user]
        parts += [f"missing {name}" for name in self.missing]
        return "; ".join(parts)


def find_includes(text: str, options: Sequence[str] = ()) -> Includes:
    """Follow every ``#include``, also in branches the preprocessor may skip."""
    scan = _Scan(_include_dirs(options))
    scan.follow(text.encode("utf-8", "surrogatepass"), None)
    return Includes(scan.shipped, tuple(sorted(scan.user.items())), tuple(sorted(scan.missing)))


def _include_dirs(options: Sequence[str]) -> tuple[str, ...]:
    found, take = [], False
    for option in options:
        if take:
            found.append(option)
        elif option.startswith("-I") and len(option) > 2:
            found.append(option[2:])
        elif option.startswith("--include-path="):
            found.append(option.split("=", 1)[1])
        take = option in ("-I", "--include-path")
    return tuple(found)


class _Scan:
    """One walk over the graph of includes."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.folders = folders
        self.cuda = headers.toolkit().include_dirs
        self.shipped = False
        self.user: dict[str, str] = {}
        self.missing: set[str] = set()

    def follow(self, data: bytes, folder: str | None) -> None:
        for quoted, angle in _INCLUDE.findall(data):
            name = os.fsdecode(quoted or angle)
            self._resolve(name, folder if quoted else None)

    def _resolve(self, name: str, folder: str | None) -> None:
        for root in ([folder] if folder else []) + list(self.folders):
            # normal form: headers that include each other by ".." must come to an end
            path = os.path.normpath(os.path.join(root, name))
            if os.path.isfile(path):
                self._read(path)
                return
        if any(os.path.isfile(os.path.join(root, name)) for root in self.cuda):
            self.shipped = True
        else:
            self.missing.add(name)

    def _read(self, path: str) -> None:
        if path in self.user:
            return
        with open(path, "rb") as stream:
            data = stream.read()
        self.user[path] = hashlib.sha256(data).hexdigest()
        self.follow(data, os.path.dirname(path))


def file_digest(path: str) -> str:
    """SHA-256 of a file, "" if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return ""


def compile_key(
    source: Source, arch: str, kind: str, *, names: Sequence[str] = (), includes: Includes
) -> Key:
    """Key of one compilation. The text stands in it by its SHA-256."""
    text = source.text.encode("utf-8", "surrogatepass")
    return Key(
        (
            ("schema", SCHEMA),
            ("abi", str(GE2_API_VERSION)),
            ("source", hashlib.sha256(text).hexdigest()),
            ("name", source.name),
            ("entry", source.entry),
            ("names", "\n".join(names)),
            ("includes", str(includes)),
            ("options", "\n".join((*nvrtc.base_options(arch, kind), *source.options))),
            ("nvrtc", nvrtc.version()),
            ("arch", arch),
            ("kind", kind),
        )
    )


def explain(key: Key, other: Key) -> tuple[str, ...]:
    """Why ``other`` is not ``key``: one line for each part that differs."""
    have, want = dict(other.parts), dict(key.parts)
    names = list(dict.fromkeys([*want, *have]))
    return tuple(
        f"{name}: {have.get(name, '(none)')!r} there, {want.get(name, '(none)')!r} here"
        for name in names
        if have.get(name) != want.get(name)
    )
