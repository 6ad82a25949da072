"""States of optimisers: what exists is saved, and made again; faults change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt import optim
from ge2rt.base.errors import InvalidArgumentError


def leaf(*values: float) -> ge2rt.Tensor:
    return ge2rt.tensor(list(values), requires_grad=True)


def step(made: Any, *slopes: Any) -> None:
    for group in made.param_groups:
        for parameter, slope in zip(group["params"], slopes, strict=True):
            parameter.grad = None if slope is None else ge2rt.tensor(slope)
    made.step()


@pytest.mark.parametrize("looked", [False, True])
def test_looking_at_the_state_changes_no_training(looked: bool) -> None:
    """PyTorch's rule: 1 - 0.1 * 1, then a momentum that begins with the gradient, - 0.1 * 1."""
    w = leaf(1.0)
    made = optim.SGD([w], 0.1, dampening=0.5)
    step(made, [1.0])
    made.param_groups[0]["momentum"] = 0.9
    if looked:
        assert set(made.state_dict()) == {"steps", "0.0.steps"}
        made.load_state_dict(made.state_dict())
    step(made, [1.0])
    assert w.item() == pytest.approx(0.8, rel=1e-6)


def test_a_parameter_without_steps_has_no_state() -> None:
    made = optim.Adam([leaf(1.0), leaf(2.0)])
    step(made, [1.0], None)
    state = made.state_dict()
    assert set(state) == {"steps", "0.0.steps", "0.1.steps", "0.0.mean", "0.0.square"}
    made.load_state_dict(state)
    assert set(made.state_dict()) == set(state)
    made.load_state_dict({"steps": 0, "0.0.steps": 0, "0.1.steps": 0})
    assert made.state == {}
    assert set(made.state_dict()) == {"steps", "0.0.steps", "0.1.steps"}


def test_a_momentum_is_made_in_an_optimiser_that_had_none() -> None:
    """By hand: v = 1, then 0.9 * 1 + 2 = 2.9; 1 - 0.1 - 0.29."""
    first = leaf(1.0)
    made = optim.SGD([first], 0.1, 0.9)
    step(made, [1.0])
    second = leaf(*first.tolist())
    other = optim.SGD([second], 0.1)
    other.load_state_dict(made.state_dict())
    assert other.state_dict()["0.0.momentum"].tolist() == [1.0]
    other.param_groups[0]["momentum"] = 0.9
    step(other, [2.0])
    assert second.item() == pytest.approx(0.61, rel=1e-6)
    assert made.state_dict()["0.0.momentum"].tolist() == [1.0]  # it was copied


def test_rmsprop_may_begin_its_momentum_later() -> None:
    made = optim.RMSprop([leaf(1.0)])
    step(made, [1.0])
    other = optim.RMSprop([leaf(1.0)], momentum=0.5)
    other.load_state_dict(made.state_dict())
    assert set(other.state_dict()) == {"steps", "0.0.steps", "0.0.square"}


FAULTS: dict[str, tuple[Any, str]] = {
    "missing": (lambda s: s.pop("0.0.square"), r"missing: 0\.0\.square"),
    "missing number": (lambda s: s.pop("0.1.steps"), r"missing: 0\.1\.steps"),
    "missing steps": (lambda s: s.pop("steps"), "missing: steps"),
    "steps without states": (lambda s: s.update({"0.1.steps": 2}), r"missing: 0\.1\.mean"),
    "unknown": (lambda s: s.update({"0.0.momentum": [1.0]}), r"unknown: 0\.0\.momentum"),
    "another parameter": (lambda s: s.update({"0.2.mean": [1.0]}), r"unknown: 0\.2\.mean"),
    "shape": (lambda s: s.update({"0.0.mean": [1.0, 2.0]}), r"0\.0\.mean: \(2,\) is not \(1,\)"),
    "number": (lambda s: s.update({"0.0.steps": "two"}), r"0\.0\.steps: 'two' is no number"),
    "negative": (lambda s: s.update({"steps": -1}), "steps: -1 is no number of steps"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_state_that_does_not_fit_changes_nothing(name: str) -> None:
    change, match = FAULTS[name]
    made = optim.Adam([leaf(1.0), leaf(2.0)])
    step(made, [1.0], None)
    before = made.state_dict()
    wrong = {**before, "0.0.mean": np.array([9.0], np.float32), "steps": 7}
    change(wrong)
    with pytest.raises(InvalidArgumentError, match=match):
        made.load_state_dict(wrong)
    after = made.state_dict()
    assert after.keys() == before.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(np.asarray(after[key]), np.asarray(value))


def test_values_of_any_library_and_dtype_become_f32_states() -> None:
    made = optim.SGD([leaf(1.0, 2.0)], 0.1, 0.9)
    given = np.array([1.5, 2.5])
    made.load_state_dict({"steps": np.int64(3), "0.0.steps": 3, "0.0.momentum": given})
    given[:] = 0
    held = made.state_dict()["0.0.momentum"]
    assert (held.dtype.name, held.tolist(), made.steps) == ("f32", [1.5, 2.5], 3)
