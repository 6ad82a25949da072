"""The compile cache on disk: one folder an entry, born complete, verified when read.

Correctness needs no lock: an entry is written aside, synced, and renamed once; who loses the race
drops its copy. Damaged blobs are misses that get replaced. Where the folder cannot be written, one
warning is given and the entries live in memory.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ge2rt.base import events, paths, switches
from ge2rt.build.entry import Entry, blob_file, write_durably
from ge2rt.build.fields import key_fields, key_of, pack_fields, unpack_fields
from ge2rt.build.locks import build_lock
from ge2rt.build.records import Key

_STALE_SECONDS = 3600
_KEEP_FRACTION = 0.8
META = "meta.txt"


class CacheWarning(RuntimeWarning):
    """The compile cache works in memory only."""


class Store:
    """Entries by digest below ``root``; ``root=None`` keeps everything in memory."""

    def __init__(self, root: str | None, cap: int | None = None) -> None:
        self.root = root
        self.cap = switches.get("GE2RT_CACHE_SIZE") if cap is None else cap
        self._memory: dict[str, dict[str, bytes]] = {}
        self._lock = threading.Lock()
        self._bytes: int | None = None
        self._writable: bool | None = None if root else False
        self._readable: bool | None = None if root else False

    # reading

    def get(self, digest: str) -> Entry | None:
        """The entry, or None. Marks it as used."""
        with self._lock:
            blobs = self._memory.get(digest)
        if blobs is not None:
            return Entry(digest, "", dict(blobs))
        if not self._may_read():
            return None
        folder = self._folder(digest)
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
        with self._lock:
            kept = {digest: dict(blobs) for digest, blobs in self._memory.items()}
        for digest in sorted(kept):
            yield Entry(digest, "", kept[digest])
        for digest, folder in self._folders():
            if digest not in kept:
                try:
                    yield Entry(digest, folder)
                except OSError:
                    continue  # evicted by another process meanwhile

    # writing

    def put(self, key: Key, blobs: Mapping[str, bytes]) -> None:
        """Publish an entry. One that is there already stays, but for damaged or missing blobs."""
        full = dict(blobs)
        full.setdefault(META, pack_fields(key_fields(key)))
        if not self._on_disk(lambda: self._publish(key.digest, full)):
            self._remember(key.digest, full)

    def add_blob(self, digest: str, name: str, data: bytes) -> None:
        """Add or replace one blob of an entry, which is made if it is not there."""
        if not self._on_disk(lambda: self._place(digest, name, data)):
            self._remember(digest, {name: data})

    def _on_disk(self, write: Callable[[], None]) -> bool:
        if not self._may_write():
            return False
        try:
            write()
        except OSError as fault:
            self._give_up(fault)
            return False
        return True

    def _remember(self, digest: str, blobs: Mapping[str, bytes]) -> None:
        with self._lock:
            self._memory.setdefault(digest, {}).update(blobs)

    def _publish(self, digest: str, blobs: Mapping[str, bytes]) -> None:
        folder = self._folder(digest)
        if os.path.isdir(folder):
            self._repair(digest, blobs)
            return
        aside = self._aside()
        os.mkdir(aside, 0o700)
        try:
            for name, data in blobs.items():
                write_durably(os.path.join(aside, blob_file(name, data)), data)
            _sync_folder(aside)
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
            try:
                os.rename(aside, folder)
            except OSError:
                if not os.path.isdir(folder):
                    raise
                self._repair(digest, blobs)  # another process was quicker
            _sync_folder(os.path.dirname(folder))
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self._grew(sum(map(len, blobs.values())))

    def _repair(self, digest: str, blobs: Mapping[str, bytes]) -> None:
        entry = Entry(digest, self._folder(digest))
        for name, data in blobs.items():
            if entry.read(name) is None:
                self._place(digest, name, data)

    def _place(self, digest: str, name: str, data: bytes) -> None:
        folder = self._folder(digest)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        aside, file = self._aside(), blob_file(name, data)
        write_durably(aside, data)
        os.replace(aside, os.path.join(folder, file))
        for other in os.listdir(folder):
            if other != file and other.rpartition(".")[0] == name:
                os.unlink(os.path.join(folder, other))
        self._grew(len(data))

    @contextmanager
    def building(self, digest: str) -> Iterator[bool]:
        """Hold the entry's build lock if it can be had in time; True if it is held.

        Only saves double work: never waits for a holder that is dead, and not for ever.
        """
        if not self._may_write():
            yield False
            return
        folder = os.path.join(str(self.root), "locks")
        with build_lock(os.path.join(folder, digest)) as held:
            yield held

    # housekeeping

    def info(self) -> dict[str, object]:
        """Folder, number of entries, bytes and cap."""
        found = list(self.entries())
        return {
            "folder": self.root or "", "entries": len(found),
            "bytes": sum(e.size() for e in found), "cap": self.cap,
            "writable": self._may_write(),
        }  # fmt: skip

    def verify(self) -> list[tuple[str, str]]:
        """Read everything; (digest, blob) of what was damaged and is now removed."""
        return [
            (entry.digest, name)
            for entry in self.entries()
            for name in entry.names
            if entry.read(name) is None
        ]

    def clear(self) -> int:
        """Remove all entries; returns how many there were."""
        count = sum(1 for _ in self.entries())
        with self._lock:
            self._memory.clear()
            self._bytes = None
        if self._may_write():
            for name in [*self._fans(), "tmp", "locks"]:
                shutil.rmtree(os.path.join(str(self.root), name), ignore_errors=True)
        return count

    def explain(self, digest: str) -> Key | None:
        """The key of an entry, as far as it was stored with one."""
        entry = self.get(digest)
        data = entry.read(META) if entry else None
        return key_of(unpack_fields(data)) if data else None

    def nearest(self, key: Key) -> Key | None:
        """The stored key that shares most parts with ``key``: to say why a call missed."""
        known = [
            k for e in self.entries() if e.digest != key.digest and (k := self.explain(e.digest))
        ]
        want = set(key.parts)
        best = max(known, key=lambda k: len(want & set(k.parts)), default=None)
        return best if best is not None and want & set(best.parts) else None

    def _grew(self, count: int) -> None:
        with self._lock:
            if self._bytes is None:
                self._bytes = sum(_tree_size(f) for _, f in self._folders())
                self._drop_leftovers()
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

    def _drop_leftovers(self) -> None:
        """Remove what killed builders left behind."""
        limit = time.time() - _STALE_SECONDS
        for folder in (os.path.join(str(self.root), name) for name in ("tmp", "locks")):
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                path = os.path.join(folder, name)
                try:
                    if os.stat(path).st_mtime < limit:
                        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                except OSError:
                    continue  # someone else's, or gone

    # the folder

    def _folder(self, digest: str) -> str:
        return os.path.join(str(self.root), digest[:2], digest)

    def _aside(self) -> str:
        return os.path.join(str(self.root), "tmp", f"{os.getpid()}-{secrets.token_hex(8)}")

    def _fans(self) -> list[str]:
        try:
            return sorted(n for n in os.listdir(str(self.root)) if len(n) == 2)
        except OSError:
            return []

    def _folders(self) -> Iterator[tuple[str, str]]:
        if not self._may_read():
            return
        for fan in self._fans():
            base = os.path.join(str(self.root), fan)
            try:
                names = sorted(os.listdir(base))
            except OSError:
                continue  # cleared meanwhile
            yield from ((name, os.path.join(base, name)) for name in names)

    def _may_read(self) -> bool:
        if self._readable is None:
            fault = _distrust(str(self.root))
            self._readable = fault == ""
            if fault:
                self._writable = False
                _warn(f"{fault}; compiled kernels are kept in memory only")
        return self._readable

    def _may_write(self) -> bool:
        if self._writable is None:
            self._writable = False
            if not self._may_read():
                return False
            try:
                _make_private(str(self.root))
                os.makedirs(os.path.join(str(self.root), "tmp"), mode=0o700, exist_ok=True)
            except OSError as fault:
                self._give_up(fault)
                return False
            self._writable = os.access(str(self.root), os.W_OK)
        return self._writable

    def _give_up(self, fault: OSError) -> None:
        self._writable = False
        _warn(f"the compile cache {self.root!r} cannot be written ({fault}): "
              "compiled kernels are kept in memory only; set GE2RT_CACHE_DIR")  # fmt: skip


def _warn(text: str) -> None:
    events.emit("cache.memory_only", reason=text)
    warnings.warn(text, CacheWarning, stacklevel=4)


def _make_private(root: str) -> None:
    os.makedirs(root, mode=0o700, exist_ok=True)
    info = os.stat(root)
    if sys.platform != "win32" and info.st_uid == os.getuid() and info.st_mode & 0o077:
        os.chmod(root, 0o700)


def _distrust(root: str) -> str:
    """Why code in ``root`` must not be run, or "": others could have written it."""
    if sys.platform == "win32":
        return ""
    try:
        info = os.stat(root)
    except OSError:
        return ""  # nothing there yet
    if info.st_uid not in (os.getuid(), 0):
        return f"the compile cache {root!r} belongs to another user"
    foreign = stat.S_IWOTH | (stat.S_IWGRP if info.st_uid != os.getuid() else 0)
    if info.st_mode & foreign:
        return f"the compile cache {root!r} can be written by others (chmod 700 it)"
    return ""


def _sync_folder(folder: str) -> None:
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


class ObjectStore:
    """The store as the CPU device wants it: bytes by named parts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, parts: tuple[tuple[str, str], ...]) -> bytes | None:
        """The object stored for exactly these parts, or None."""
        entry = self._store.get(Key(parts).digest)
        return entry.read("object") if entry else None

    def put(self, parts: tuple[tuple[str, str], ...], data: bytes) -> None:
        """Store an object."""
        self._store.put(Key(parts), {"object": data})


_stores: dict[str, Store] = {}
_stores_lock = threading.Lock()


def default_store() -> Store:
    """The store that the switches name; one object a folder, so that it warns once."""
    root = "" if switches.get("GE2RT_NO_CACHE") else os.fspath(paths.cache_dir())
    with _stores_lock:
        if root not in _stores:
            _stores[root] = Store(root or None)
        return _stores[root]


def clear() -> None:
    """Forget the open stores (not what is on disk)."""
    with _stores_lock:
        _stores.clear()
