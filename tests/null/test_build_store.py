"""The store: born complete, verified, shared by processes, and never in the way."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from ge2rt.base import events
from ge2rt.build import store as stores
from ge2rt.build.fields import pack_fields, unpack_fields
from ge2rt.build.locks import build_lock
from ge2rt.build.records import Key
from ge2rt.build.store import CacheWarning, ObjectStore, Store, default_store

KEY = Key((("schema", "1"), ("source", "abc")))
BLOBS = {"kernel.ptx": b"// ptx\0\xff", "source.cu": "// répertoire".encode()}
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes and signals")


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "répertoire" / "cache"))


def filled(store, key=KEY, blobs=BLOBS):
    store.put(key, blobs)
    store.flush()
    return store


def files(store):
    return {
        p.name.rpartition(".")[0]: p for p in Path(store.root).rglob("*") if len(p.suffix) == 33
    }


def test_what_was_put_is_read_by_another_store(store):
    filled(store)
    entry = Store(store.root).get(KEY.digest)
    assert entry.names == ("kernel.ptx", "meta.txt", "source.cu")
    assert {n: entry.read(n) for n in BLOBS} == BLOBS
    assert entry.read("kernel.cubin") is None
    assert Store(store.root).explain(KEY.digest) == KEY
    assert Store(store.root).get(Key((("schema", "2"),)).digest) is None


def test_a_put_is_readable_at_once(store):
    store.put(KEY, BLOBS)
    assert store.get(KEY.digest).read("kernel.ptx") == BLOBS["kernel.ptx"]


@posix
def test_the_folder_is_private(store):
    os.makedirs(store.root, mode=0o755)
    filled(store)
    assert stat.S_IMODE(os.stat(store.root).st_mode) == 0o700


@posix
def test_a_folder_open_to_others_is_not_trusted(store):
    os.makedirs(store.root)
    os.chmod(store.root, 0o777)
    with pytest.warns(CacheWarning, match=r"can be written by others \(chmod 700 it\)"):
        store.put(KEY, BLOBS)
    assert store.get(KEY.digest).read("source.cu") == BLOBS["source.cu"]
    assert os.listdir(store.root) == []


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_blob_is_a_miss_and_is_replaced(store, damage):
    filled(store)
    path = files(store)["kernel.ptx"]
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[3] ^= 1
    path.write_bytes(data if damage == "flip" else data[:-1] if damage == "truncate" else b"")
    events.clear()
    fresh = Store(store.root)
    assert fresh.get(KEY.digest).read("kernel.ptx") is None
    assert events.counts()["cache.bad"] == 1
    assert fresh.get(KEY.digest).read("source.cu") == BLOBS["source.cu"]
    filled(fresh)
    assert Store(store.root).get(KEY.digest).read("kernel.ptx") == BLOBS["kernel.ptx"]


def test_put_repairs_what_is_damaged_and_keeps_the_rest(store):
    filled(store)
    files(store)["kernel.ptx"].write_bytes(b"bad")
    kept = files(store)["source.cu"].stat().st_mtime_ns
    filled(Store(store.root))
    assert files(store)["kernel.ptx"].read_bytes() == BLOBS["kernel.ptx"]
    assert files(store)["source.cu"].stat().st_mtime_ns == kept


def test_blobs_are_added_and_replaced(store):
    filled(store)
    store.add_blob(KEY.digest, "object", b"one")
    store.add_blob(KEY.digest, "object", b"two")
    store.flush()
    entry = Store(store.root).get(KEY.digest)
    assert entry.read("object") == b"two"
    assert len(list(Path(store.root).rglob("object.*"))) == 1


def test_verify_info_entries_and_clear(store):
    filled(store)
    filled(store, Key((("b", ""),)), {"object": b"x" * 100})
    assert store.info()["entries"] == 2
    assert store.info()["bytes"] > 100
    assert store.verify() == []
    files(store)["object"].write_bytes(b"y")
    assert store.verify() == [(Key((("b", ""),)).digest, "object")]
    assert store.clear() == 2
    assert list(store.entries()) == []
    filled(store)
    assert store.info()["entries"] == 1


def test_the_least_recently_used_entries_go_first(tmp_path):
    store = Store(str(tmp_path / "c"), cap=4000)
    keys = [Key((("n", str(n)),)) for n in range(5)]
    for age, key in enumerate(keys[:3]):
        filled(store, key, {"object": bytes(1000)})
        folder = tmp_path / "c" / key.digest[:2] / key.digest
        os.utime(folder, ns=(10**9 * (age + 1), 10**9 * (age + 1)))
    assert store.get(keys[0].digest)  # used now: the youngest
    filled(store, keys[3], {"object": bytes(1000)})
    left = {e.digest for e in Store(store.root).entries()}
    assert keys[0].digest in left
    assert keys[3].digest in left
    assert keys[1].digest not in left


def test_nothing_to_write_to_means_memory_and_one_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = Store(str(tmp_path / "file" / "cache"))
    with pytest.warns(CacheWarning, match="cannot be written") as caught:
        store.put(KEY, BLOBS)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(Key(()), BLOBS)
        with store.building(KEY.digest) as held:
            assert not held
    assert store.get(KEY.digest).read("kernel.ptx") == BLOBS["kernel.ptx"]
    assert store.info()["writable"] is False
    assert store.info()["entries"] == 2


def test_a_disk_that_fails_later_is_told_at_the_next_put(store, monkeypatch):
    filled(store)
    monkeypatch.setattr("ge2rt.build.disk.write_durably", lambda *_: (_ for _ in ()).throw(
        OSError(28, "No space left on device")))  # fmt: skip
    other = Key((("other", ""),))
    filled(store, other)
    assert store.get(other.digest).read("kernel.ptx") == BLOBS["kernel.ptx"]
    with pytest.warns(CacheWarning, match="No space left on device"):
        store.put(Key((("third", ""),)), BLOBS)
    assert os.listdir(Path(store.root) / "tmp") == []


def test_switches_choose_the_store(tmp_path, monkeypatch):
    monkeypatch.setenv("GE2RT_CACHE_DIR", str(tmp_path / "répertoire"))
    assert default_store().root == str(tmp_path / "répertoire")
    assert default_store() is default_store()
    monkeypatch.setenv("GE2RT_NO_CACHE", "1")
    assert default_store().root is None
    default_store().put(KEY, BLOBS)
    assert default_store().get(KEY.digest).read("source.cu") == BLOBS["source.cu"]
    stores.clear()
    assert default_store().get(KEY.digest) is None
    assert not (tmp_path / "répertoire").exists()


def test_objects_by_named_parts(store):
    objects = ObjectStore(store)
    parts = (("ptx", "1"), ("cpu", "x=y\nz\\n"))
    assert objects.get(parts) is None
    objects.put(parts, b"\x7fELF")
    store.flush()
    assert ObjectStore(Store(store.root)).get(parts) == b"\x7fELF"
    assert objects.get((("ptx", "1"), ("cpu", "x=y"))) is None
    assert Store(store.root).explain(Key(parts).digest).parts == parts


@pytest.mark.parametrize("text", ["", "\\", "\\n", "a\nb\\\n", "é=ü\r\n", "\udc80"])
def test_fields_round_trip(text):
    assert unpack_fields(pack_fields({"a b": text, "c": "d"})) == {"a b": text, "c": "d"}


def test_nearest_key(store):
    filled(store, Key((("entry", "a"), ("arch", "sm_80"), ("kind", "ptx"))))
    filled(store, Key((("entry", "b"), ("arch", "sm_80"), ("kind", "ptx"))))
    near = store.nearest(Key((("entry", "b"), ("arch", "sm_90"), ("kind", "ptx"))))
    assert dict(near.parts)["entry"] == "b"
    assert store.nearest(Key((("x", "y"),))) is None


def run(code: str, **popen) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **popen
    )


WRITER = """
import sys
from ge2rt.build.store import Store
from ge2rt.build.records import Key
s = Store({root!r})
for n in range({count}):
    s.put(Key((("n", str(n)),)), {{"object": b"%d" % n * 1000}})
print("done", flush=True)
"""


def test_processes_write_the_same_entries(store):
    jobs = [run(WRITER.format(root=store.root, count=5)) for _ in range(4)]
    assert [j.communicate()[0] for j in jobs] == ["done\n"] * 4
    assert [j.returncode for j in jobs] == [0] * 4
    assert store.info()["entries"] == 5
    assert store.verify() == []
    assert os.listdir(Path(store.root) / "tmp") == []


@posix
def test_a_killed_writer_leaves_nothing_that_is_read(store):
    code = WRITER.format(root=store.root, count=100000).replace(
        "s.put", "print(n, flush=True); s.put"
    )
    job = run(code)
    for _ in range(5):
        job.stdout.readline()
    job.send_signal(signal.SIGKILL)
    job.communicate()
    assert store.verify() == []
    filled(store)
    assert store.get(KEY.digest).read("kernel.ptx") == BLOBS["kernel.ptx"]


def test_leftovers_of_killed_writers_are_removed(store):
    old = Path(store.root) / "tmp" / "1-dead"
    old.mkdir(parents=True)
    (old / "x").write_text("x")
    os.chmod(store.root, 0o700)
    os.utime(old, (1, 1))
    filled(store)
    assert not old.exists()


def test_the_lock_is_exclusive_and_bounded(tmp_path):
    path = str(tmp_path / "locks" / "a")
    release = build_lock(path)
    start = time.monotonic()
    assert build_lock(path, patience=0.05) is None
    assert time.monotonic() - start < 10
    release()
    again = build_lock(path, patience=0)
    assert again is not None
    again()


@posix
def test_nobody_waits_for_a_dead_holder(tmp_path):
    import fcntl

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with open(tmp_path / "a.lock", "w") as inherited:  # as a child of the dead one would have it
        fcntl.flock(inherited, fcntl.LOCK_EX)
        (tmp_path / "a.pid").write_text(str(dead.pid))
        start = time.monotonic()
        assert build_lock(str(tmp_path / "a"), patience=30) is None
        assert time.monotonic() - start < 20


def test_a_waiter_gets_the_lock_after_the_entry_is_written(store):
    order = []

    def wait():
        release = build_lock(store._disk.lock_path("d"), patience=20)
        order.append(Store(store.root).get(KEY.digest) is not None)
        release()

    with store.building("d") as held:
        assert held
        thread = threading.Thread(target=wait)
        thread.start()
        store.put(KEY, BLOBS)
    thread.join()
    assert order == [True]


@posix
def test_a_forked_child_can_use_the_store(store):
    store.put(KEY, BLOBS)
    pid = os.fork()
    if pid == 0:
        child = Key((("child", ""),))
        store.put(child, BLOBS)
        ok = store.get(child.digest) is not None
        store.flush()
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert store.get(Key((("child", ""),)).digest).read("source.cu") == BLOBS["source.cu"]


def test_a_write_at_exit_is_finished(store):
    code = f"import atexit\n{WRITER.format(root=store.root, count=3)}"
    code = code.replace("for n in", "def late():\n    s.put(Key(()), {'object': b'late'})\n"
                        "atexit.register(late)\nfor n in")  # fmt: skip
    assert run(code).communicate()[0] == "done\n"
    assert store.info()["entries"] == 4
