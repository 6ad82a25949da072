"""``copy``, ``pickle`` and formats of tensors; modules that are copied with what they hold."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt import nn, optim
from ge2rt.base.errors import InvalidTypeError

WAYS: dict[str, Any] = {
    "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i64", "bool"])
def test_a_tensor_is_copied_with_memory_of_its_own(way: str, dtype: str) -> None:
    x = ge2rt.tensor([[1.0, 0.0, 3.0], [4.0, 5.0, 0.0]], dtype=dtype)
    for given in (x, x.T, x[:, ::2], x[0, 1]):
        made = WAYS[way](given)
        assert (type(made), made.dtype, made.device) == (ge2rt.Tensor, given.dtype, given.device)
        assert made.tolist() == given.tolist()
        made.fill_(1)
    assert x.tolist() == [[1, 0, min(3, x[0, 2].item())], x[1].tolist()]
    shared = copy.copy(x)
    assert shared.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("way", WAYS)
def test_parameters_keep_kind_gradient_attributes_and_identity(way: str) -> None:
    p = nn.Parameter([1.0, 2.0])
    p.grad = ge2rt.tensor([3.0, 4.0])
    p.decay = False  # type: ignore[attr-defined]
    one, two = WAYS[way]([p, p])
    assert one is two
    assert type(one) is nn.Parameter
    assert (one.requires_grad, one.decay) == (True, False)
    assert one.grad.tolist() == [3, 4]
    one.grad.fill_(0)
    assert p.grad.tolist() == [3, 4]
    (one * 2).sum().backward()
    assert one.grad.tolist() == [2, 2]


@pytest.mark.parametrize("way", WAYS)
def test_a_module_is_copied_with_what_it_holds(way: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4, seed=0), nn.BatchNorm(4), nn.Dropout(0.5, seed=2))
    model[0].bias = model[1].bias  # shared
    model(ge2rt.ones(2, 3))
    other = WAYS[way](model)
    assert other[0].bias is other[1].bias
    assert other[2].used.item() == model[2].used.item() == 2
    x = ge2rt.tensor(np.random.default_rng(0).normal(size=(2, 3)).astype("f4"))
    np.testing.assert_array_equal(other(x).detach().numpy(), model(x).detach().numpy())
    before = model[0].weight.tolist()
    made = optim.SGD(other.parameters(), 0.1)
    other(x).sum().backward()
    made.step()
    assert model[0].weight.tolist() == before
    assert model[0].weight.grad is None


@pytest.mark.parametrize("way", WAYS)
def test_a_history_is_not_copied(way: str) -> None:
    y = nn.Parameter([1.0]) * 2
    with pytest.raises(InvalidTypeError, match=r"computed from others.*x\.detach\(\)"):
        WAYS[way](y)
    assert WAYS[way](y.detach()).tolist() == [2]


def test_a_0d_tensor_is_formatted_as_a_number() -> None:
    x = ge2rt.tensor([1.25, 2.0])
    assert f"{x.mean():.3f} {ge2rt.tensor(7):>4d}" == "1.625    7"
    assert f"{nn.Parameter([1.0]).sum():.1f}" == "1.0"
    assert f"{x}" == str(x)
    with pytest.raises(InvalidTypeError, match=r"shape \(2,\) has no format '\.2f'.*x\.item\(\)"):
        f"{x:.2f}"
