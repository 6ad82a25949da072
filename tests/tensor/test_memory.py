"""Memory that tensors share with others: odd addresses, read-only arrays, moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt import nn, optim
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.run.plan import Plan

X = np.random.default_rng(2).standard_normal((3, 4))


def test_elements_at_odd_addresses_are_written() -> None:
    array = np.frombuffer(bytearray(33), np.uint8)[1:].view("f8")
    assert array.ctypes.data % 8
    x = ge2rt.from_numpy(array)
    x += 1
    assert array.tolist() == [1, 1, 1, 1]
    x[1:3].fill_(3.0)
    x[0] = x[2]
    assert array.tolist() == [3, 3, 3, 1]
    y = ge2rt.zeros(4, dtype="f64").copy_(x)
    assert y.tolist() == [3, 3, 3, 1]
    x[1:] = x[:-1]
    x[:2].multiply_(2)
    assert array.tolist() == [6, 6, 3, 3]
    assert x.storage().version == 5


def test_a_write_that_fails_is_told_and_not_counted(monkeypatch: Any) -> None:
    def fails(*_: Any) -> Any:
        raise InvalidArgumentError("the launch failed")

    x = ge2rt.tensor([1.0, 2.0])
    monkeypatch.setattr(Plan, "launch", fails)
    before = x.storage().version
    with pytest.raises(InvalidArgumentError, match="the launch failed"):
        x.copy_(ge2rt.tensor([3.0, 4.0]))
    assert x.storage().version == before


def test_a_parameter_counts_the_writes_of_the_tensor_that_it_shares() -> None:
    w = ge2rt.tensor([1.0, 2.0])
    p = nn.Parameter(w)
    z = (p * p).sum()
    w.fill_(100.0)
    assert p.tolist() == [100, 100]
    with pytest.raises(InvalidArgumentError, match="changed in place"):
        z.backward()


def read_only(tmp_path: Path) -> dict[str, Any]:
    np.save(tmp_path / "x.npy", X)
    own = X.copy()
    locked = own[1:]
    locked.flags.writeable = False
    return {
        "mapped": np.load(tmp_path / "x.npy", mmap_mode="r"), "locked": locked,
        "bytes": np.frombuffer(X.tobytes(), "f8").reshape(3, 4),
        "spread": np.broadcast_to(X, (2, 3, 4))[0],
    }  # fmt: skip


WRITES = [
    lambda x: x.fill_(3.0), lambda x: x.add_(1.0), lambda x: x.copy_(x * 2),
    lambda x: x[0].zero_(), lambda x: x.T[1:].multiply_(2.0), lambda x: x.__setitem__(0, 1.0),
    lambda x: x.__setitem__([0, 1], 1.0), lambda x: x.__setitem__(x > 0, 1.0),
    lambda x: x[:, 1:].__setitem__([True] + [False] * (x.shape[0] - 1), 1.0),
    lambda x: x.detach().__setitem__((0, [1, 2]), 1.0),
    lambda x: ge2rt.ops.exp(x * 1, out=x), lambda x: nn.Parameter(x),
    lambda x: x.__setitem__(0, ge2rt.ones(4, dtype="f64", requires_grad=True) * 2),
    lambda x: optim.SGD([x.detach().requires_grad_()], lr=0.1),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["mapped", "locked", "bytes", "spread"])
@pytest.mark.parametrize("make", [ge2rt.from_numpy, ge2rt.asarray])
def test_read_only_memory_is_read_and_not_written(tmp_path: Path, kind: str, make: Any) -> None:
    array = read_only(tmp_path)[kind]
    values = array.copy()
    x = make(array)
    assert x.data_ptr() == array.__array_interface__["data"][0]
    for write in WRITES:
        with pytest.raises(InvalidArgumentError, match=r"read-only.*clone"):
            write(x)
    np.testing.assert_array_equal(array, values)
    np.testing.assert_array_equal((x * 2).numpy(), values * 2)
    assert not x.requires_grad
    copy = x.clone()
    copy[0] = 5.0
    assert (copy.numpy()[0] == 5).all()


def linear() -> tuple[Any, Any]:
    m = nn.Linear(4, 1, seed=0)
    return m, ge2rt.tensor(X.astype(np.float32), requires_grad=True)


def test_values_that_changed_before_a_move_are_missed() -> None:
    m, x = linear()
    y = m(x).sum()
    with ge2rt.no_grad():
        for p in m.parameters():
            p.fill_(100.0)
    m.to("f64")
    with pytest.raises(InvalidArgumentError, match="changed in place"):
        y.backward()


def test_a_record_goes_on_by_what_was_moved_since() -> None:
    m, x = linear()
    weight = next(p for p in m.parameters() if p.size == 4)
    values = weight.detach().numpy().copy().reshape(4)
    y, z = m(x).sum(), (weight * weight).sum()
    m.to("f64")
    with ge2rt.no_grad():
        weight.fill_(100.0)  # not what was read
    y.backward(retain_graph=True)
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(values, (3, 4)))
    weight.grad = None
    z.backward(retain_graph=True)
    np.testing.assert_allclose(weight.grad.numpy().reshape(4), 2 * values)
    assert weight.grad.dtype == "f64"
    with pytest.raises(InvalidArgumentError, match="changed in place"):
        z.backward(create_graph=True)


def test_a_move_to_where_all_is_changes_nothing() -> None:
    m, x = linear()
    y = m(x).sum()
    m.to("f32")
    m.to("cpu")
    weight = next(m.parameters()).detach().numpy().copy()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(weight.reshape(1, 4), (3, 4)))


def test_a_gradient_comes_in_the_dtype_that_its_leaf_has_by_then() -> None:
    m, x = linear()
    y = m(x.detach()).sum()  # needs no value of the weights
    m.to("f64")
    y.backward()
    for p in m.parameters():
        assert p.grad.dtype == p.dtype == "f64"
    weight = next(p for p in m.parameters() if p.size == 4)
    want = X.astype(np.float32).sum(0).reshape(weight.shape)
    np.testing.assert_allclose(weight.grad.numpy(), want, rtol=1e-6)


class Buffers(nn.Module):
    def __init__(self) -> None:
        self.whole = ge2rt.tensor([1.0, 2.0, 3.0])
        self.part = self.whole[1:]


def test_a_moved_view_and_what_it_was_a_view_of_go_apart() -> None:
    m = Buffers()
    early = m.whole[:2]
    m.to("f64")
    w = ge2rt.tensor(np.array([5.0, 6.0]), requires_grad=True)
    m.part[0] = (w * 2)[0]
    assert m.part.detach().tolist() == [10, 3]
    assert m.whole.tolist() == [1, 2, 3]
    assert not m.whole.requires_grad
    m.whole[1:] = w
    assert m.part.detach().tolist() == [10, 3]
    assert early.tolist() == [1, 2]  # it keeps the old memory
    early[0] = ge2rt.tensor(7.0, requires_grad=True) * 1
    assert m.whole.detach().tolist() == [1, 5, 6]
    assert early.detach().tolist() == [7, 2]
    (m.part.sum() + m.whole.sum()).backward()
    np.testing.assert_array_equal(w.grad.numpy(), [3, 1])
