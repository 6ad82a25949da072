"""Groups that are added later, and gradients that are filled with zeros."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt import nn, optim
from ge2rt.base.errors import InvalidArgumentError


def leaf(value: float) -> ge2rt.Tensor:
    return ge2rt.tensor([value], requires_grad=True)


def test_an_added_group_has_the_options_of_the_optimiser_and_its_own() -> None:
    """By hand: 1 - 0.5 * 2 and, with a momentum of 0.9, 1 - 0.1 * 2, then - 0.1 * 3.8."""
    v, w = leaf(1.0), leaf(1.0)
    made = optim.SGD([w], 0.1, momentum=0.9)
    made.add_param_group({"params": (p for p in [v]), "lr": 0.5, "momentum": 0.0})
    made = copy.deepcopy((made, v, w))[0]
    w, v = (group["params"][0] for group in made.param_groups)
    for _ in range(2):
        v.grad, w.grad = ge2rt.tensor([2.0]), ge2rt.tensor([2.0])
        made.step()
    assert (v.item(), w.item()) == (-1.0, pytest.approx(0.42, rel=1e-6))
    assert set(made.state_dict()) == {"steps", "0.0.steps", "0.0.momentum", "1.0.steps"}


W = leaf(1.0)
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "list": ([leaf(1.0)], TypeError, "a group is a dict.*got list"),
    "empty": ({"lr": 1.0}, TypeError, "a group is a dict.*got.*lr"),
    "again": ({"params": [W]}, ValueError, "stands twice"),
    "twice": ({"params": [P := leaf(2.0), P]}, ValueError, "stands twice"),
    "rate": ({"params": [leaf(1.0)], "lr": -1}, ValueError, "lr is out of range"),
    "option": ({"params": [leaf(1.0)], "rate": 1}, ValueError, "got rate"),
    "array": ({"params": [np.ones(2)]}, TypeError, "parameter 0 is no tensor"),
    "tensor": ({"params": leaf(1.0)}, TypeError, "given as a list"),
    "computed": ({"params": [leaf(1.0) * 2]}, ValueError, "computed from others"),
    "constant": ({"params": [ge2rt.ones(1)]}, ValueError, "does not require a gradient"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_added_group_is_refused_as_at_construction(name: str) -> None:
    group, kind, match = REFUSED[name]
    made = optim.SGD([W], 0.1)
    with pytest.raises(InvalidArgumentError, match=rf"test_parameter_gro.*SGD: .*{match}") as found:
        made.add_param_group(group)
    assert isinstance(found.value, kind)
    assert len(made.param_groups) == 1


def test_a_group_that_was_appended_without_options_is_told() -> None:
    w, v = leaf(1.0), leaf(1.0)
    made = optim.SGD([w], 0.1)
    made.param_groups.append({"params": [v], "lr": 1.0})
    w.grad = v.grad = ge2rt.ones(1)
    with pytest.raises(InvalidArgumentError, match=r"group 1 lacks options.*momentum.*add_param_g"):
        made.step()
    assert (w.item(), made.steps) == (1.0, 0)


def test_gradients_become_zeros_in_place() -> None:
    w, v = leaf(1.0), leaf(1.0)
    made = optim.SGD([w, v], 0.1)
    (w * w * w).sum().backward(create_graph=True)
    kept = w.grad
    made.zero_grad(set_to_none=False)
    assert (w.grad.tolist(), kept.tolist(), v.grad) == ([0.0], [0.0], None)
    assert w.grad.data_ptr() == kept.data_ptr()
    assert not w.grad.requires_grad
    (3 * w).sum().backward()
    assert w.grad.tolist() == [3.0]
    made.zero_grad(True)
    assert w.grad is None


@pytest.mark.parametrize("of", [lambda m: m, lambda m: optim.SGD(m.parameters(), 0.1)])
def test_sparse_gradients_become_zeros_and_a_module_has_the_same(of: Any) -> None:
    table = nn.Embedding(5, 2, sparse=True)
    table(ge2rt.tensor([1, 3])).sum().backward()
    of(table).zero_grad(set_to_none=False)
    np.testing.assert_array_equal(table.weight.grad.to_dense().numpy(), np.zeros((5, 2)))
    of(table).zero_grad()
    assert table.weight.grad is None
