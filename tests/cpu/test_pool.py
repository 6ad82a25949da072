from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cpu.ir_kernels import PTX, make_device

from ge2rt.base.errors import DeviceError
from ge2rt.device import pool as pool_module
from ge2rt.device.api import LaunchShape
from ge2rt.device.cpu import CpuLauncher
from ge2rt.device.pool import Pool, get_pool, thread_count, usable_cpus

LINUX = sys.platform == "linux"


@pytest.fixture
def pool() -> Iterator[Pool]:
    found = get_pool()
    before = found.threads
    yield found
    found.set_threads(before)


@pytest.fixture
def sigint() -> Iterator[None]:
    """Ctrl-C as in a terminal, also where the test run itself was started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def launcher(name: str, blocks: int) -> CpuLauncher:
    module = make_device().load(PTX, "ptx", "test")
    return module.function(name).launcher(LaunchShape((blocks, 1, 1), (32, 1, 1)))


def pack(out: np.ndarray, value: int = 1) -> bytes:
    return struct.pack("=qq", out.ctypes.data, value)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("blocks", [1, 2, 3, 17, 1000, 54321])
def test_every_block_runs_once_a_launch(pool: Pool, threads: int, blocks: int) -> None:
    pool.set_threads(threads)
    run = launcher("count", blocks)
    out = np.zeros(blocks, np.int32)
    for _ in range(5):
        run(pack(out, 20))
    np.testing.assert_array_equal(out, 5)


@pytest.mark.skipif(not LINUX, reason="native threads are for Linux")
def test_workers_start_at_need_stop_and_come_back(pool: Pool) -> None:
    pool.set_threads(3)
    pool.stop()
    assert pool.workers == 0
    run = launcher("count", 64)
    out = np.zeros(64, np.int32)
    run(pack(out, 2000))
    assert pool.workers == 2
    pool.stop()
    assert pool.workers == 0
    for _ in range(3):
        run(pack(out, 200_000))
    assert pool.workers == 2
    np.testing.assert_array_equal(out, 4)


@pytest.mark.skipif(not LINUX, reason="native threads are for Linux")
def test_blocks_run_at_the_same_time(pool: Pool) -> None:
    pool.set_threads(2)
    out = np.zeros(4, np.int32)
    launcher("meet", 2)(pack(out, 10**9))
    np.testing.assert_array_equal(out, 1)


def test_one_thread_runs_blocks_one_after_the_other(pool: Pool) -> None:
    pool.set_threads(1)
    out = np.zeros(4, np.int32)
    launcher("meet", 2)(pack(out, 100))
    np.testing.assert_array_equal(out, [1, 1, 0, 1])


def test_threads_that_launch_at_once_do_not_disturb_each_other(pool: Pool) -> None:
    pool.set_threads(2)
    shared = launcher("count", 300)
    outs = [np.zeros(300, np.int32) for _ in range(6)]

    def work(out: np.ndarray) -> None:
        own = launcher("count", 300)
        for _ in range(20):
            own(pack(out, 500))
            shared(pack(out, 500))

    threads = [threading.Thread(target=work, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outs:
        np.testing.assert_array_equal(out, 40)


def test_a_trap_ends_the_launch_and_the_next_one_is_well(pool: Pool) -> None:
    pool.set_threads(2)
    run = launcher("stop_at", 100_000)
    out = np.zeros(100_000, np.int32)
    with pytest.raises(DeviceError, match=r"stop_at: the kernel executed a trap instruction"):
        run(pack(out, 3))
    assert out.sum() < 100_000
    out[:] = 0
    run(pack(out, -1))
    np.testing.assert_array_equal(out, 1)


def test_native_entry_gives_the_status(pool: Pool) -> None:
    run = launcher("stop_at", 4)
    out = np.zeros(4, np.int32)
    entry = pool_module._ENTRY(run.native.address)
    assert entry(run.native.context, pack(out, 2)) == 1
    assert entry(run.native.context, pack(out, -1)) == 0


def test_python_threads_take_the_same_tickets() -> None:
    fallback = Pool(native=False)
    fallback.set_threads(3)
    run = launcher("count", 2000)
    run._memory.put(pool_module.CONTEXT["POOL"], pool_module.ctypes.c_int64, fallback.address)
    out = np.zeros(2000, np.int32)
    for _ in range(3):
        assert fallback.launch(run.native.context, pack(out, 2000)) == 0
    np.testing.assert_array_equal(out, 3)
    assert fallback._executor is not None
    assert fallback.workers == 0
    fallback.stop()


@pytest.mark.usefixtures("sigint")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_stops_at_the_next_block(pool: Pool, threads: int) -> None:
    pool.set_threads(threads)
    blocks = 4_000_000  # many seconds of work
    run = launcher("count", blocks)
    out = np.zeros(blocks, np.int32)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(pack(out, 10_000))
    timer.join()
    assert 0 < np.count_nonzero(out) < blocks
    assert not pool.interrupted


@pytest.mark.usefixtures("sigint")
def test_interrupt_of_a_native_caller_is_raised_by_the_next_python_call(pool: Pool) -> None:
    blocks = 4_000_000
    run = launcher("count", blocks)
    out = np.zeros(blocks, np.int32)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    status = pool_module._ENTRY(run.native.address)(run.native.context, pack(out, 10_000))
    timer.join()
    assert status == 4
    done = np.count_nonzero(out)
    with pytest.raises(KeyboardInterrupt):
        run(pack(out, 10_000))
    assert np.count_nonzero(out) == done


def test_signal_handler_may_launch(pool: Pool) -> None:
    pool.set_threads(2)
    inner_out = np.zeros(100, np.int32)
    inner = launcher("count", 100)
    run = launcher("count", 3000)
    out = np.zeros(3000, np.int32)
    before = signal.signal(signal.SIGUSR1, lambda *_: inner(pack(inner_out)))
    try:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        run(pack(out, 200_000))
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    np.testing.assert_array_equal(out, 1)
    np.testing.assert_array_equal(inner_out, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_makes_its_own_workers(pool: Pool) -> None:
    pool.set_threads(2)
    run = launcher("count", 1000)
    out = np.zeros(1000, np.int32)
    run(pack(out, 5000))
    child = os.fork()
    if child == 0:
        run(pack(out, 5000))
        run(pack(out, 50_000))
        os._exit(0 if (out == 3).all() and pool.workers == 1 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    run(pack(out, 5000))
    np.testing.assert_array_equal(out, 2)


@pytest.mark.skipif(not LINUX, reason="native threads are for Linux")
def test_a_closed_pool_leaves_workers_and_signals_alone() -> None:
    """As the interpreter ends: a thread that asked for it would be ended with its job shared."""
    closing = Pool(native=True)
    closing.set_threads(3)
    closing._memory.put(pool_module.POOL["T_POLL"], pool_module.ctypes.c_int64, 1)
    run = launcher("count", 2000)
    run._memory.put(pool_module.CONTEXT["POOL"], pool_module.ctypes.c_int64, closing.address)
    out, seen = np.zeros(2000, np.int32), list[int]()
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(int(out.sum())))
    try:
        assert closing.launch(run.native.context, pack(out, 2000)) == 0
        assert closing.workers == 2
        closing.close()
        assert closing.workers == 0
        os.kill(os.getpid(), signal.SIGUSR1)  # Python runs the handler before the next call
        sent = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1))
        sent.start()
        while sent.is_alive():
            assert closing.launch(run.native.context, pack(out, 20_000)) == 0
        assert closing.workers == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert out.min() == out.max() > 1
    assert all(count % 2000 == 0 for count in seen)  # between launches, never inside of one


EXIT = """
import struct, threading, time
import numpy as np
from cpu.ir_kernels import PTX, make_device
from ge2rt.device.api import LaunchShape
from ge2rt.device.pool import get_pool
module = make_device().load(PTX, "ptx", "test")
run = module.function("count").launcher(LaunchShape((1000, 1, 1), (1, 1, 1)))
get_pool().set_threads(4)
out = np.zeros(1000, np.int32)
args = struct.pack("=qq", out.ctypes.data, 20000)
def busy():
    while True:
        run(args)
{daemon}
run(args)
while get_pool().workers < 3:  # the other thread may still be hiring them
    time.sleep(0.001)
print(get_pool().workers)
"""


@pytest.mark.skipif(not LINUX, reason="native threads are for Linux")
@pytest.mark.parametrize("daemon", ["", "threading.Thread(target=busy, daemon=True).start()"])
def test_interpreter_ends_well_with_workers(daemon: str) -> None:
    tests = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", EXIT.format(daemon=daemon)],
        env={**os.environ, "PYTHONPATH": str(tests)}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "3"
    assert done.stderr == ""


def test_estimate_follows_the_work(pool: Pool) -> None:
    run = launcher("count", 200)
    out = np.zeros(200, np.int32)
    assert run.expected_us == -1.0
    run(pack(out, 20_000))
    long = run.expected_us
    for _ in range(40):
        run(pack(out, 1))
    assert 0.0 <= run.expected_us < long / 2


def test_thread_count_follows_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GE2RT_THREADS", raising=False)
    assert thread_count() == len(usable_cpus()) >= 1
    monkeypatch.setenv("GE2RT_THREADS", "5")
    assert thread_count() == 5
    monkeypatch.setenv("GE2RT_THREADS", "100000")
    assert thread_count() == 256


def test_code_of_an_unknown_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ge2rt.base.errors import UnsupportedError

    monkeypatch.setattr(pool_module.platform, "machine", lambda: "riscv64")
    with pytest.raises(UnsupportedError, match="riscv64"):
        Pool()
