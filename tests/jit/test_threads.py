"""One jitted function from many threads: compiled once for each kind of call, right everywhere."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ge2rt.jit import jit


def test_first_calls_at_the_same_time() -> None:
    traces: list[int] = []

    @jit
    def f(x: Any, y: Any) -> Any:
        traces.append(1)
        return np.tanh(x) + y.sum()

    barrier = threading.Barrier(4)

    def work(number: int) -> bool:
        x, y = np.full(8, number, np.float32), np.full(3 + number % 2, number, np.float32)
        barrier.wait()
        return all(np.allclose(f(x, y), np.tanh(x) + y.sum(), atol=1e-6) for _ in range(50))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    assert len(traces) == 2


def test_a_trace_belongs_to_its_thread() -> None:
    inside, go_on = threading.Event(), threading.Event()

    @jit
    def slow(x: Any) -> Any:
        inside.set()
        assert go_on.wait(30)
        return x + 1

    @jit
    def quick(x: Any) -> Any:
        return x * 2

    x = np.ones(3, np.float32)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(slow, x)
        assert inside.wait(30)
        assert (quick(x) == 2).all()
        go_on.set()
        assert (running.result() == 2).all()
