"""The store's folder: entries are written aside, synced and renamed once. Raises OSError only.

Layout: ``<root>/<2 hex>/<digest>/<blob>.<checksum>``, with ``tmp`` for what is being written and
``locks``. The root has mode 0700, since native code is loaded from it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from ge2rt.base import events
from ge2rt.build.entry import Entry, blob_file, write_durably

_STALE_SECONDS = 3600
_KEEP_FRACTION = 0.8

# Only what the store itself could have made is ever removed: the folder may be anyone's home.
_FAN = re.compile(r"[0-9a-f]{2}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LEFTOVER = re.compile(r"\d+-[0-9a-f]+|[0-9a-f]{64}\.(lock|pid)")


class Folder:
    """The entries below ``root``, kept within ``cap`` bytes."""

    def __init__(self, root: str, cap: int) -> None:
        self.root = root
        self.cap = cap
        self._bytes: int | None = None  # estimate; counted at the first write

    def distrust(self) -> str:
        """Why nothing of this folder may be run, or "": others could have written it."""
        if sys.platform == "win32" or not os.path.exists(self.root):
            return ""
        info = os.stat(self.root)
        if info.st_uid not in (os.getuid(), 0):
            return f"the compile cache {self.root!r} belongs to another user"
        foreign = stat.S_IWOTH | (stat.S_IWGRP if info.st_uid != os.getuid() else 0)
        if info.st_mode & foreign:
            return f"the compile cache {self.root!r} can be written by others (chmod 700 it)"
        return ""

    def prepare(self) -> None:
        """Make the folder, private to its owner; PermissionError if it cannot be written."""
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        info = os.stat(self.root)
        if sys.platform != "win32" and info.st_uid == os.getuid() and info.st_mode & 0o077:
            os.chmod(self.root, 0o700)
        os.makedirs(self._path("tmp"), mode=0o700, exist_ok=True)
        if not os.access(self._path("tmp"), os.W_OK):
            raise PermissionError(f"no right to write into {self.root!r}")

    def find(self, digest: str) -> Entry | None:
        """The entry, which counts as used now."""
        folder = self._entry(digest)
        try:
            entry = Entry(digest, folder)
        except OSError:
            return None
        try:
            os.utime(folder)
        except OSError:
            return entry  # a read-only store has no order of use
        return entry

    def entries(self) -> Iterator[Entry]:
        """All entries, in the order of their digests."""
        for digest, folder in self._folders():
            try:
                yield Entry(digest, folder)
            except OSError:
                continue  # evicted by another process meanwhile

    def publish(self, digest: str, blobs: Mapping[str, bytes]) -> None:
        """Make an entry. One that is there already stays, but for damaged or missing blobs."""
        folder = self._entry(digest)
        if os.path.isdir(folder):
            self._repair(digest, blobs)
            return
        aside = self._aside()
        os.mkdir(aside, 0o700)
        try:
            for name, data in blobs.items():
                write_durably(os.path.join(aside, blob_file(name, data)), data)
            _sync(aside)
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
            try:
                os.rename(aside, folder)
            except OSError:
                if not os.path.isdir(folder):
                    raise
                self._repair(digest, blobs)  # another process was quicker
            _sync(os.path.dirname(folder))
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self._grew(sum(map(len, blobs.values())))

    def _repair(self, digest: str, blobs: Mapping[str, bytes]) -> None:
        entry = Entry(digest, self._entry(digest))
        for name, data in blobs.items():
            if entry.read(name) is None:
                self.place(digest, name, data)

    def place(self, digest: str, name: str, data: bytes) -> None:
        """Add or replace one blob; the entry is made if it is not there."""
        folder = self._entry(digest)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        aside, file = self._aside(), blob_file(name, data)
        write_durably(aside, data)
        os.replace(aside, os.path.join(folder, file))
        for other in os.listdir(folder):
            if other != file and other.rpartition(".")[0] == name:
                _unlink(os.path.join(folder, other))
        self._grew(len(data))

    def lock_path(self, digest: str) -> str:
        """Where the build lock of an entry lies."""
        return self._path("locks", digest)

    def clear(self) -> None:
        """Remove everything that the store made."""
        self._bytes = None
        for _, folder in self._folders():
            self._discard(folder)
        for fan in self._fans():
            with suppress(OSError):  # not empty: in use, or not ours
                os.rmdir(self._path(fan))
        self._drop_leftovers(0.0)
        self.prepare()

    def _grew(self, count: int) -> None:
        if self._bytes is None:
            self._bytes = sum(_tree_size(folder) for _, folder in self._folders())
            self._drop_leftovers(_STALE_SECONDS)
        else:
            self._bytes += count
        if self._bytes > self.cap:
            self._bytes = self._evict()

    def _evict(self) -> int:
        """Remove the entries that were not used for longest; returns the bytes that stay."""
        aged = []
        for _, folder in self._folders():
            try:
                aged.append((os.stat(folder).st_mtime_ns, _tree_size(folder), folder))
            except OSError:
                continue  # gone already
        total = sum(size for _, size, _ in aged)
        for _, size, folder in sorted(aged):
            if total <= self.cap * _KEEP_FRACTION:
                break
            self._discard(folder)
            total -= size
            events.emit("cache.evict", folder=folder)
        return total

    def _discard(self, folder: str) -> None:
        """Take an entry away in one step, so that no reader sees half of it."""
        aside = self._aside()
        try:
            os.rename(folder, aside)
        except OSError:
            return  # another process took it
        shutil.rmtree(aside, ignore_errors=True)

    def _drop_leftovers(self, age: float) -> None:
        """Remove what killed builders left behind ``age`` seconds ago or more."""
        limit = time.time() - age
        for folder in (self._path("tmp"), self._path("locks")):
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                path = os.path.join(folder, name)
                try:
                    if _LEFTOVER.fullmatch(name) and os.stat(path).st_mtime <= limit:
                        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                except OSError:
                    continue  # someone else's, or gone

    def _path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def _entry(self, digest: str) -> str:
        return self._path(digest[:2], digest)

    def _aside(self) -> str:
        return self._path("tmp", f"{os.getpid()}-{secrets.token_hex(8)}")

    def _fans(self) -> list[str]:
        try:
            return sorted(n for n in os.listdir(self.root) if _FAN.fullmatch(n))
        except OSError:
            return []

    def _folders(self) -> Iterator[tuple[str, str]]:
        for fan in self._fans():
            try:
                names = sorted(n for n in os.listdir(self._path(fan)) if _DIGEST.fullmatch(n))
            except OSError:
                continue  # cleared meanwhile
            yield from ((name, self._path(fan, name)) for name in names)


def _sync(folder: str) -> None:
    if sys.platform == "win32":
        return  # NTFS orders renames itself; folders cannot be synced there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _tree_size(folder: str) -> int:
    try:
        with os.scandir(folder) as items:
            return sum(item.stat().st_size for item in items)
    except OSError:
        return 0


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # another process did
