"""One entry of the store: a folder of blobs, each of which carries its checksum in its name.

``source.cu.<hash>`` lies beside ``kernel.ptx.<hash>``: a blob can be added later by one rename, and
a damaged one is found when it is read, whatever happened to the others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from ge2rt.base import events

_HASH_CHARS = 32


def checksum(data: bytes) -> str:
    """The part of a blob's file name that its content must match (128 bits of SHA-256)."""
    return hashlib.sha256(data).hexdigest()[:_HASH_CHARS]


def write_durably(path: str, data: bytes) -> None:
    """Write a new file so that it is on disk when the function returns."""
    with open(path, "xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


class Entry:
    """An entry as it was found. Reading verifies; a bad blob is removed and reads as None."""

    def __init__(self, digest: str, folder: str, blobs: Mapping[str, bytes] | None = None) -> None:
        self.digest = digest
        self.folder = folder
        self._memory = blobs
        self._files = {} if blobs is not None else _scan(folder)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the blobs, sorted."""
        return tuple(sorted(self._files if self._memory is None else self._memory))

    def read(self, name: str) -> bytes | None:
        """The verified bytes of a blob, or None if it is not there or damaged."""
        if self._memory is not None:
            return self._memory.get(name)
        file = self._files.get(name)
        if file is None:
            return None
        path = os.path.join(self.folder, file)
        try:
            with open(path, "rb") as stream:
                data = stream.read()
        except OSError:
            return None
        if checksum(data) == file[-_HASH_CHARS:]:
            return data
        events.emit("cache.bad", digest=self.digest, blob=name)
        _remove(path)
        return None

    def size(self) -> int:
        """Bytes of all blobs."""
        if self._memory is not None:
            return sum(len(data) for data in self._memory.values())
        return sum(_size(os.path.join(self.folder, file)) for file in self._files.values())


def blob_file(name: str, data: bytes) -> str:
    """File name of a blob."""
    return f"{name}.{checksum(data)}"


def _scan(folder: str) -> dict[str, str]:
    files = {}
    for file in os.listdir(folder):
        name, _, mark = file.rpartition(".")
        if name and len(mark) == _HASH_CHARS:
            files[name] = file
    return files


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # a read-only store: the blob stays, and stays a miss


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
