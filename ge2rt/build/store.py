"""The compile cache: entries on disk, verified when read; in memory where there is no disk.

Correctness needs no lock: entries are born complete by one rename, who loses a race drops its copy,
and damaged blobs are misses that get replaced. Writing happens behind the caller's back.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakSet

from ge2rt.base import events, paths, switches
from ge2rt.build.disk import Folder
from ge2rt.build.entry import Entry
from ge2rt.build.fields import key_fields, key_of, pack_fields, unpack_fields
from ge2rt.build.locks import build_lock
from ge2rt.build.records import Key
from ge2rt.build.writer import Writer

META = "meta.txt"

_all: WeakSet[Store] = WeakSet()


class CacheWarning(RuntimeWarning):
    """The compile cache works in memory only."""


class Store:
    """Entries by digest below ``root``; ``root=None`` keeps everything in memory.

    ``cap`` is in bytes (default: ``GE2RT_CACHE_SIZE``).
    """

    def __init__(self, root: str | None, cap: int | None = None) -> None:
        self.root = root
        self._disk = Folder(root, cap or switches.get("GE2RT_CACHE_SIZE")) if root else None
        self._memory: dict[str, dict[str, bytes]] = {}
        self._readable: bool | None = None if root else False
        self._writable: bool | None = None if root else False
        self._fault = ""  # of a write behind the back, to be told
        self._writer = Writer()
        self.after_fork()
        _all.add(self)

    def after_fork(self) -> None:
        """In the child: what the parent was writing is the parent's."""
        self._lock = threading.Lock()
        self._pending: Counter[str] = Counter()

    # reading

    def get(self, digest: str) -> Entry | None:
        """The entry, or None. Marks it as used."""
        with self._lock:
            blobs = self._memory.get(digest)
            pending = digest in self._pending
        if blobs is not None:
            return Entry(digest, "", dict(blobs))
        if pending:
            self.flush()
        disk = self._readable_disk()
        return disk.find(digest) if disk else None

    def entries(self) -> Iterator[Entry]:
        """All entries: those in memory, then those on disk."""
        self.flush()
        with self._lock:
            kept = {digest: dict(blobs) for digest, blobs in self._memory.items()}
        for digest in sorted(kept):
            yield Entry(digest, "", kept[digest])
        disk = self._readable_disk()
        yield from (e for e in disk.entries() if e.digest not in kept) if disk else ()

    def explain(self, digest: str) -> Key | None:
        """The key of an entry, as far as it was stored with one."""
        entry = self.get(digest)
        data = entry.read(META) if entry else None
        return key_of(unpack_fields(data)) if data else None

    def nearest(self, key: Key) -> Key | None:
        """The stored key that shares most parts with ``key``: to say why a call missed."""
        found = [self.explain(e.digest) for e in self.entries() if e.digest != key.digest]
        want = set(key.parts)
        best = max((k for k in found if k), key=lambda k: len(want & set(k.parts)), default=None)
        return best if best is not None and want & set(best.parts) else None

    # writing

    def put(self, key: Key, blobs: Mapping[str, bytes]) -> None:
        """Publish an entry. One that is there already stays, but for damaged or missing blobs."""
        full = dict(blobs)
        full.setdefault(META, pack_fields(key_fields(key)))
        self._write(key.digest, full, lambda disk: disk.publish(key.digest, full))

    def add_blob(self, digest: str, name: str, data: bytes) -> None:
        """Add or replace one blob of an entry, which is made if it is not there."""
        self._write(digest, {name: data}, lambda disk: disk.place(digest, name, data))

    def flush(self) -> None:
        """Wait until everything that was put is on disk."""
        self._writer.flush()

    def _write(
        self, digest: str, blobs: Mapping[str, bytes], action: Callable[[Folder], None]
    ) -> None:
        disk = self._writable_disk()
        if disk is None:
            self._remember(digest, blobs)
            return
        with self._lock:
            self._pending[digest] += 1

        def task() -> None:
            try:
                action(disk)
            except OSError as fault:
                self._fault = str(fault)
                self._remember(digest, blobs)
            with self._lock:
                self._pending[digest] -= 1
                if not self._pending[digest]:
                    del self._pending[digest]

        self._writer.submit(task)

    def _remember(self, digest: str, blobs: Mapping[str, bytes]) -> None:
        with self._lock:
            self._memory.setdefault(digest, {}).update(blobs)

    @contextmanager
    def building(self, digest: str) -> Iterator[bool]:
        """Hold the entry's build lock if it can be had in time; True if it is held.

        Only saves double work: never waits for a holder that is dead, and not for ever. What is
        put meanwhile is on disk before others get the lock.
        """
        disk = self._writable_disk()
        release = build_lock(disk.lock_path(digest)) if disk else None
        try:
            yield release is not None
        finally:
            if release is not None:
                self._writer.submit(release)

    # housekeeping

    def info(self) -> dict[str, object]:
        """Folder, number of entries, bytes and cap."""
        found = list(self.entries())
        return {
            "folder": self.root or "", "entries": len(found),
            "bytes": sum(e.size() for e in found), "cap": self._disk.cap if self._disk else 0,
            "writable": self._writable_disk() is not None,
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
        disk = self._writable_disk()
        if disk:
            disk.clear()
        return count

    # whether the folder can be used

    def _readable_disk(self) -> Folder | None:
        if self._readable is None and self._disk is not None:
            fault = self._disk.distrust()
            self._readable = fault == ""
            if fault:
                self._give_up(fault)
        return self._disk if self._readable else None

    def _writable_disk(self) -> Folder | None:
        disk = self._readable_disk()
        if self._writable is None and disk is not None:
            self._writable = True
            try:
                disk.prepare()
            except OSError as fault:
                self._give_up(f"the compile cache {self.root!r} cannot be written ({fault})")
        if self._writable and self._fault:
            self._give_up(f"the compile cache {self.root!r} cannot be written ({self._fault})")
        return disk if self._writable else None

    def _give_up(self, fault: str) -> None:
        self._writable = False
        events.emit("cache.memory_only", reason=fault)
        text = f"{fault}: compiled kernels are kept in memory only; GE2RT_CACHE_DIR names another"
        warnings.warn(text, CacheWarning, stacklevel=4)


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
        open_stores = list(_stores.values())
        _stores.clear()
    for store in open_stores:
        store.flush()


def _after_fork() -> None:
    global _stores_lock
    _stores_lock = threading.Lock()
    for store in tuple(_all):
        store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
