"""The cpu device under threads, forks and careless callers."""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.locks import ForkGate, ForkLock
from ge2rt.run import stub as stubs
from ge2rt.run.launch import plan_for
from ge2rt.spec.descs import parse_descs

needs_stub = pytest.mark.skipif(stubs.get_stub() is None, reason="this interpreter has no stub")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def descs(n, **extra):
    return {"buffers": [{"shape": [n], "dtype": "f32", "device": "cpu"}] * 2, **extra}


class Key(str):
    """Equal to a plain key of the same text, by code of its own."""

    __slots__ = ()
    calls = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Key.calls += 1
        return str.__eq__(self, other)


@needs_stub
@pytest.mark.parametrize(
    ("given", "hit"),
    [
        ({"a": [0.0, "x"]}, True),
        ({"a": [-0.0, "x"]}, False),
        ({"a": [float("nan"), "x"]}, False),
        ({Key("a"): [0.0, "x"]}, False),
        ({"a": [np.float64(0.0), "x"]}, False),
        ({"a": np.array([0.0])}, False),
        ({"a": [0.0, "x"], "b": 1}, False),
    ],
)
def test_the_stub_takes_exact_values_only_and_runs_no_foreign_code(given, hit):
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    pointers = [x.ctypes.data, y.ctypes.data]
    plan = ge2rt.prepare("copy", descs(3))
    assert plan(pointers) == 0
    entries = ({"a": [0.0, "x"]}, plan.record.address)
    probe = stubs.get_stub().function("launch", ({"k": entries}, lambda *_: 7, 0), b"")
    before = Key.calls
    assert probe("k", pointers, given) == (0 if hit else 7)
    assert Key.calls == before


def test_zeros_of_both_signs_are_different_calls():
    x, y = np.array([-5.0], np.float32), np.zeros(1, np.float32)
    for low in (0.0, -0.0, 0.0, -0.0):
        attrs = {"op": "clip", "clip_min": low, "clip_max": 1.0}
        code = ge2rt.launch_kernel("elementwise_unary", [x.ctypes.data, y.ctypes.data],
                                   descs(1, attrs=attrs))  # fmt: skip
        assert code == 0
        assert np.signbit(y[0]) == np.signbit(low)


def test_a_malformed_stub_switch_is_told_before_anything_is_written(monkeypatch):
    ge2rt.clear_caches()
    monkeypatch.setenv("GE2RT_NO_STUB", "q")
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    assert ge2rt.launch_kernel("copy", [x.ctypes.data, y.ctypes.data], descs(3)) == -1
    assert not y.any()


def test_a_closed_stream_is_an_error():
    stream = ge2rt.Stream("cpu")
    stream.close()
    stream.close()
    with pytest.raises(InvalidArgumentError, match="the stream is closed"):
        ge2rt.launch("copy", np.zeros(3, np.float32), stream=stream)
    with pytest.raises(InvalidArgumentError, match="the stream is closed"):
        stream.synchronize()


def test_plans_of_one_code_share_the_loaded_module():
    ge2rt.clear_caches()
    plans = [ge2rt.prepare("copy", descs(n)) for n in range(20, 40)]
    modules = {id(plan.compiled().function._module) for plan in plans}
    assert len(modules) < 8  # the static ones, and one for all further shapes


def test_the_first_launches_of_one_plan_by_many_threads():
    """The plan's record for native launches is made once, whoever comes first."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for n in (1, 2, 3):
            ge2rt.clear_caches()
            call = parse_descs(descs(n))
            plan = plan_for("copy", call.buffers, {}, ge2rt.get_device("cpu"))
            plan.compiled()
            codes: list[int] = []
            start = threading.Barrier(4)

            def go(plan=plan, n=n, codes=codes, start=start):
                x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
                start.wait()
                for _ in range(20):
                    y[:] = 0
                    codes.append(plan([x.ctypes.data, y.ctypes.data]))
                    codes.append(int((x != y).any()))

            threads = [threading.Thread(target=go) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert codes == [0] * 160
    finally:
        sys.setswitchinterval(interval)


@needs_fork
def test_a_fork_while_other_threads_compile():
    """Locks are free in the child, and no library is left in the middle of its work."""
    ge2rt.warmup("cpu")
    x = np.linspace(0.5, 2, 977, dtype=np.float32)
    ops = ("exp", "tanh", "sqrt")
    threads = [
        threading.Thread(target=ge2rt.launch, args=("elementwise_unary", x), kwargs={"op": op})
        for op in ops
    ]
    for thread in threads:
        thread.start()
    try:
        for pause in (0.05, 0.2):
            time.sleep(pause)
            assert _in_child(lambda: (ge2rt.launch("elementwise_unary", x, op="exp") > 1).all())
    finally:
        for thread in threads:
            thread.join()


def _in_child(check, seconds=60.0):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if check() else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False


@needs_fork
def test_a_lock_that_another_thread_holds_is_free_in_the_child():
    lock, held, done = ForkLock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    def take():
        with lock:
            return True

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert _in_child(take, 10.0)
    finally:
        done.set()
        thread.join()


def test_a_gate_waits_for_those_inside():
    gate, inside, leave, order = ForkGate(), threading.Event(), threading.Event(), []

    def work():
        with gate, gate:
            inside.set()
            leave.wait()
            order.append("left")

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    threading.Timer(0.05, leave.set).start()
    gate.close()
    order.append("closed")
    gate.open()
    thread.join()
    assert order == ["left", "closed"]


@needs_fork
def test_a_fork_waits_for_a_call_of_llvm():
    """llvmlite makes every call under one lock: a child must not inherit it taken."""
    ge2rt.warmup("cpu")
    import llvmlite.binding as llvm

    stop = threading.Event()

    def call():
        while not stop.is_set():
            llvm.get_host_cpu_name()

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert all(_in_child(lambda: bool(llvm.get_host_cpu_name()), 20.0) for _ in range(40))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
