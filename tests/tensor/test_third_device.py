"""A device that is registered from outside takes part, with memory of its own."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ge2rt
import ge2rt.nn.functional as F
from ge2rt import nn
from ge2rt.base.errors import InvalidTypeError, UnsupportedError
from ge2rt.device.api import Device, Memory
from ge2rt.device.array import DeviceArray
from ge2rt.device.registry import register_device
from ge2rt.tensors import dispatch

F32 = np.float32
RNG = np.random.default_rng(5)


class FarMemory(Memory):
    """Memory that only copies reach; it counts what is held."""

    def __init__(self, inner: Memory) -> None:
        self.inner, self.held = inner, dict[int, int]()

    def allocate(self, nbytes: int) -> int:
        address = self.inner.allocate(nbytes)
        if address:
            self.held[address] = nbytes
        return address

    def free(self, address: int) -> None:
        self.held.pop(address, None)
        self.inner.free(address)

    def write(self, address: int, data: Any) -> None:
        self.inner.write(address, data)

    def read(self, address: int, nbytes: int) -> bytes:
        return self.inner.read(address, nbytes)

    def fill(self, address: int, value: int, nbytes: int) -> None:
        self.inner.fill(address, value, nbytes)


class Far(Device):
    """A device by the abstract classes alone: it runs kernels, but shows no arrays to the host."""

    def __init__(self, index: int) -> None:
        self.inner = ge2rt.get_device("cpu")
        self.props = replace(self.inner.props, kind="far", name="far away")
        self.index = index
        self.memory = FarMemory(self.inner.memory)
        self.loaded = 0

    def load(self, binary: bytes, kind: str, key: str, line_map: object = None) -> Any:
        self.loaded += 1
        return self.inner.load(binary, kind, key, line_map)

    def create_stream(self) -> int:
        return self.inner.create_stream()

    def destroy_stream(self, stream: int) -> None:
        self.inner.destroy_stream(stream)

    def check_stream(self, stream: int) -> None:
        self.inner.check_stream(stream)

    def synchronize(self, stream: int | None = None) -> None:
        self.inner.synchronize(stream)


@pytest.fixture
def far() -> Iterator[Far]:
    register_device("far", Far)
    dispatch.register("far")(dispatch.dense)
    try:
        yield ge2rt.get_device("far")  # type: ignore[misc]
    finally:
        del dispatch.BACKENDS["far", "strided"]


def test_tensors_live_in_its_memory(far: Far) -> None:
    values = RNG.standard_normal((3, 4)).astype(F32)
    x = ge2rt.tensor(values, device="far")
    assert isinstance(x.array, DeviceArray)
    assert (x.device, x.shape, x.strides, x.storage().nbytes) == ("far", (3, 4), (4, 1), 48)
    assert x.data_ptr() in far.memory.held
    np.testing.assert_array_equal(x.numpy(), values)
    np.testing.assert_array_equal(x[::-1, 1:].numpy(), values[::-1, 1:])
    np.testing.assert_array_equal(x.T[2].numpy(), values.T[2])
    assert x.T.storage() is x.storage()
    assert not x.T.is_contiguous()
    assert x[1, 2].item() == values[1, 2]
    assert "device='far'" in repr(x)
    np.testing.assert_array_equal(x.to("cpu").numpy(), values)
    y = x[1:]
    address = x.data_ptr()
    del x
    gc.collect()
    assert address in far.memory.held  # the view holds it
    del y
    gc.collect()
    assert address not in far.memory.held


def test_operators_run_on_its_kernels(far: Far) -> None:
    a, b = (RNG.standard_normal(s).astype(F32) for s in ((3, 4), (4, 5)))
    x, w = (ge2rt.tensor(v, device="far") for v in (a, b))
    before = far.loaded
    y = (x @ w).tanh().sum(axis=0) * 2
    assert far.loaded > before
    assert y.device == "far"
    np.testing.assert_allclose(y.numpy(), np.tanh(a @ b).sum(0) * 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((x.T + 1).numpy(), a.T + 1, rtol=1e-6)
    x[1] = 7.0
    x += 1
    np.testing.assert_array_equal(x[1].numpy(), np.full(4, 8, F32))


def test_gradients_flow_there(far: Far) -> None:
    a, b = (RNG.standard_normal(s).astype(F32) for s in ((6, 4), (4, 3)))
    labels = np.array([0, 2, 1, 1, 0, 2])
    found = []
    for device in ("cpu", "far"):
        x = ge2rt.tensor(a, device=device)
        w = ge2rt.tensor(b, device=device, requires_grad=True)
        loss = F.cross_entropy(x @ w, ge2rt.tensor(labels, device=device))
        loss.backward()
        assert w.grad is not None
        assert w.grad.device == device
        found.append((loss.item(), w.grad.numpy()))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_it_is_told_apart(far: Far) -> None:
    x = ge2rt.ones(2, device="far")
    with pytest.raises(InvalidTypeError, match="different devices"):
        x + ge2rt.ones(2)
    assert "strided on far: ge2rt.tensors.dispatch.dense" in str(dispatch.explain("add", x, x))
    np.testing.assert_array_equal(ge2rt.launch("copy", x.array).get(), [1, 1])
    backend = dispatch.BACKENDS.pop(("far", "strided"))
    try:
        with pytest.raises(UnsupportedError, match="no implementation for strided tensors on far"):
            x + x
    finally:
        dispatch.BACKENDS["far", "strided"] = backend


def test_an_operator_of_its_own(far: Far) -> None:
    def noted(op: Any, args: Any, options: Any) -> Any:
        return ge2rt.tensor(args[0].detach().numpy() * 10, device="far")

    dispatch.register("far", name="negative")(noted)
    x = ge2rt.ones(3, device="far")
    np.testing.assert_array_equal((-x).numpy(), [10, 10, 10])
    np.testing.assert_array_equal((x * 2).numpy(), [2, 2, 2])


def test_it_is_written_at_indices_and_by_jitted_functions(far: Far) -> None:
    values = RNG.standard_normal((3, 4)).astype(F32)
    y = ge2rt.tensor(values, device="far")
    want = values.copy()
    for index in ([0, 2], (slice(None), [1, -1]), np.array([[1, 0]])):
        y[index] = want[index] = 5
    y[ge2rt.tensor([1], device="far")] = ge2rt.tensor(values[:1], device="far")
    want[[1]] = values[:1]
    turned = y.T[::-1]
    turned[[0, 1], [1, 2]] = 7
    want.T[::-1][[0, 1], [1, 2]] = 7
    np.testing.assert_array_equal(y.numpy(), want)
    np.testing.assert_array_equal(y[[0, -1]].numpy(), want[[0, -1]])
    np.testing.assert_array_equal(y[ge2rt.tensor([2, 0])].numpy(), want[[2, 0]])

    @ge2rt.jit
    def double(a: Any) -> Any:
        a += 1
        return a * 2

    np.testing.assert_array_equal(double(y).numpy(), (want + 1) * 2)
    np.testing.assert_array_equal(y.numpy(), want + 1)
    with pytest.raises(BufferError, match=r"no DLPack form; copy it: x\.to\('cpu'\)"):
        np.from_dlpack(y)


def test_a_module_moves_there_and_is_trained(far: Far) -> None:
    values = RNG.standard_normal((5, 4)).astype(F32)

    def trained(device: str) -> tuple[float, Any]:
        ge2rt.nn.manual_seed(4)
        model = ge2rt.nn.Sequential(ge2rt.nn.Linear(4, 3), ge2rt.nn.LayerNorm(3))
        first = next(model.parameters())
        assert model.to(device) is model
        assert next(model.parameters()) is first
        assert {p.device for p in model.parameters()} == {ge2rt.get_device(device).name}
        optimiser = ge2rt.optim.AdamW(model.parameters(), 0.1)
        (model(ge2rt.tensor(values, device=device)) ** 3).sum().backward()
        norm = ge2rt.optim.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        return norm, first.detach().numpy()

    (norm, here), (far_norm, there) = trained("cpu"), trained("far")
    assert norm == pytest.approx(far_norm, rel=1e-6)
    np.testing.assert_allclose(there, here, rtol=1e-6)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_kernels_of_the_registry_run_there_with_their_gradients(far: Far, kind: Any) -> None:
    x = RNG.standard_normal((2, 3, 4)).astype(F32)
    here, there = kind(4, 5, seed=1), kind(4, 5, seed=1).to("far")
    found = []
    for layer, device in ((here, "cpu"), (there, "far")):
        y, _ = layer(ge2rt.tensor(x, device=device))
        assert y.device == device if device == "cpu" else y.device.startswith("far")
        (y * y).sum().backward()
        found.append([y, *(p.grad for p in layer.parameters())])
    for one, other in zip(*found, strict=True):
        want, got = (each.detach().to("cpu").numpy() for each in (one, other))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_sparse_gradient_moves_there(far: Far) -> None:
    table = nn.Embedding(4, 2, sparse=True)
    table(ge2rt.tensor([1, 3, 1])).sum().backward()
    table.to("far")
    moved = table.weight.grad.to_dense()
    assert moved.device == table.weight.device
    np.testing.assert_array_equal(moved.to("cpu").numpy(), [[0, 0], [2, 2], [0, 0], [1, 1]])


def test_indices_and_masks_of_the_host_are_taken_there(far: Far) -> None:
    values = RNG.standard_normal((4, 3)).astype(F32)
    rows = np.array([True, False, True, True])
    for index in (values > 0, rows, rows.tolist(), (rows, [0, 1, 1]), np.array([2, 0]), [1, 1]):
        for of_host in (index, ge2rt.tensor(index) if isinstance(index, np.ndarray) else index):
            x, array = ge2rt.tensor(values, device="far"), values.copy()
            np.testing.assert_array_equal(x[of_host].numpy(), array[index])
            x[of_host] = array[index] = 5.0
            np.testing.assert_array_equal(x.numpy(), array)
            x[of_host] = array[index] = values[index] * 2
            np.testing.assert_array_equal(x.numpy(), array)
            with pytest.raises(InvalidTypeError, match="on different devices"):
                x[of_host] = ge2rt.tensor(3.0)
    x = ge2rt.tensor(values, device="far")
    with pytest.raises(InvalidTypeError, match="on different devices"):
        x[0] = ge2rt.tensor(3.0)
    for index in (ge2rt.tensor([1, 0], device="far"), ge2rt.tensor(rows, device="far")):
        with pytest.raises(InvalidTypeError, match="on different devices"):
            ge2rt.tensor(values)[index]
        with pytest.raises(InvalidTypeError, match="on different devices"):
            ge2rt.tensor(values)[index] = 1.0
