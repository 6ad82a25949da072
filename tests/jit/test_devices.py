"""CuPy arrays: known by their library, run on their device; numbers and constants go there too.

The device is the CPU device that claims to be a GPU: it refuses host arrays and gives arrays of a
stand-in for CuPy.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.device import registry
from ge2rt.device.cpu import CpuDevice
from ge2rt.jit import JitFunction, jit
from ge2rt.run.program import Executable


class GpuArray:
    """What of CuPy's ``ndarray`` is looked at."""

    def __init__(self, host: Any, index: int = 0) -> None:
        self.host = np.asarray(host)
        self.device = types.SimpleNamespace(id=index)
        self.shape, self.strides = self.host.shape, self.host.strides
        self.dtype, self.flags = self.host.dtype, self.host.flags

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.host.__array_interface__, "version": 3}

    def __setitem__(self, index: Any, value: Any) -> None:
        self.host[index] = value.host

    def copy(self) -> GpuArray:
        return GpuArray(self.host.copy())


class Gpu(CpuDevice):
    """Kernels run as on the CPU device, on memory that only it may touch."""

    def accepts(self, home: str) -> bool:
        return home == "cuda:0"

    def empty(self, shape: Any, dtype: Any, like: Any = None) -> Any:
        return GpuArray(np.empty(tuple(shape), dtype.numpy))


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    cupy = types.ModuleType("cupy")
    cupy.ndarray = GpuArray  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    ge2rt.register_device("cuda", lambda index: Gpu())
    yield
    registry.clear()


X = np.arange(12, dtype=np.float32).reshape(3, 4)
W = np.arange(8, dtype=np.float32).reshape(2, 4).T


def test_arrays_in_and_out() -> None:
    f = jit(lambda x, y: (np.tanh(x) * 2 + y, x.T))
    for _ in range(3):
        got = f(GpuArray(X), GpuArray(X[0]))
        assert all(type(array) is GpuArray for array in got)
        np.testing.assert_allclose(got[0].host, np.tanh(X) * 2 + X[0], rtol=1e-6)
        np.testing.assert_array_equal(got[1].host, X.T)
    assert f.stats().traces == 1
    assert "on cuda:0" in str(f.stats())


def test_numbers_and_captured_host_arrays_are_carried() -> None:
    f = jit(lambda x, n, s: x @ W + n * s)
    for value in (1, 2):
        W[0, 0] = value
        for n in (2.0, 3.0, 4.0):
            got = f(GpuArray(X), n, np.float32(0.5))
            np.testing.assert_allclose(got.host, X @ W + n * 0.5, rtol=1e-6)
    assert f.stats().traces == 1


def test_layouts_are_compared() -> None:
    f = jit(lambda x: x * 2)
    for host in (X, X.T, X[:, ::2], X[::-1]):
        np.testing.assert_array_equal(f(GpuArray(host)).host, host * 2)
    assert f.stats().traces == 4


def test_devices_may_not_be_mixed() -> None:
    f = jit(lambda x, y: x + y)
    with pytest.raises(TypeError, match="different devices"):
        f(GpuArray(X), X)
    with pytest.raises(TypeError, match="different devices"):
        f(GpuArray(X), GpuArray(X, 1))


def test_host_arrays_stay_on_the_host() -> None:
    f = jit(lambda x: x + 1)
    assert type(f(X)) is np.ndarray
    assert type(f(GpuArray(X))) is GpuArray
    assert type(f(X)) is np.ndarray


def test_in_place_on_a_device_array() -> None:
    def g(x: Any) -> Any:
        x += 1
        return x * 2

    x = GpuArray(X.copy())
    np.testing.assert_array_equal(jit(g)(x).host, (X + 1) * 2)
    np.testing.assert_array_equal(x.host, X + 1)


def test_a_cuda_graph_is_captured_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Captured:
        def __init__(self, executable: Any) -> None:
            self.executable = executable

        def run(self, arrays: Any, stream: int = 0) -> Any:
            seen.append(len(arrays))
            return self.executable.run(arrays)

    monkeypatch.setattr(Executable, "capture", lambda executable: Captured(executable))
    ge2rt.register_device("cuda", lambda index: _named_cuda())
    f = JitFunction(lambda x: x * 3, graph=True)
    for _ in range(2):
        np.testing.assert_array_equal(f(GpuArray(X)).host, X * 3)
    assert seen == [1, 1]
    on_host = JitFunction(lambda x: x * 3, graph=True)
    np.testing.assert_array_equal(on_host(X), X * 3)  # nothing to capture
    assert len(seen) == 2


def _named_cuda() -> Any:
    made = Gpu()
    made.props = dataclasses.replace(made.props, kind="cuda")
    return made
