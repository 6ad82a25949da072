"""Runtime attributes from launch to launch: one plan, one compilation, other scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec.registry import default_registry

F32 = np.float32


@pytest.fixture
def plans_made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that plans are made for."""
    from ge2rt.run import launch as launching

    ge2rt.clear_caches()
    made: list[str] = []
    former = launching._make_plan

    def counting(name: str, *rest: Any) -> Any:
        made.append(name)
        return former(name, *rest)

    monkeypatch.setattr(launching, "_make_plan", counting)
    return made


def desc(array: np.ndarray) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": "f32", "device": "cpu"}


def sgd(p: np.ndarray, g: np.ndarray, **attrs: Any) -> np.ndarray:
    out = p.copy()
    ge2rt.launch("sgd", g, out=out, **attrs)
    return out


def test_calls_that_differ_in_free_attributes_share_a_plan(plans_made: list[str]) -> None:
    p, g = np.linspace(-1, 1, 100, dtype=F32), np.linspace(2, 3, 100, dtype=F32)
    for lr in (0.5, 0.25, 0.125):
        np.testing.assert_allclose(sgd(p, g, lr=lr), p - F32(lr) * g, rtol=1e-6)
        # what is not given is the default, not what the first call had
        decayed = p - F32(lr) * (g + F32(0.5) * p)
        np.testing.assert_allclose(sgd(p, g, lr=lr, weight_decay=0.5), decayed, rtol=1e-6)
    assert plans_made == ["sgd"]


def test_zeros_of_both_signs_are_two_values() -> None:
    z = np.zeros(4, F32)
    for value in (0.0, -0.0, 0.0):
        y = ge2rt.launch("FILL", out=z.copy(), value=value)
        assert (np.signbit(y) == np.signbit(value)).all()
        drawn = ge2rt.launch("RANDOM", out=z.copy(), low=value, width=0.0)
        assert not np.signbit(drawn).any()  # value + 0 * u


def test_seeds_of_32_and_of_64_bits(plans_made: list[str]) -> None:
    found = {}
    for seed in (1, 2, 2**40, 2**40 + 1, -5, 1, 2**40):
        y = ge2rt.launch("DROPOUT", np.ones(64, F32), p=0.5, seed=seed)
        y = y[0] if isinstance(y, tuple) else y
        assert (found.setdefault(seed, y) == y).all()
    assert len({y.tobytes() for y in found.values()}) == 5
    assert len(plans_made) <= 2


def test_a_plan_takes_values_for_one_launch() -> None:
    p, g = np.ones(33, F32), np.full(33, 2, F32)
    plan = ge2rt.prepare("sgd", {"buffers": [desc(g), desc(p)], "attrs": {"lr": 0.5}})
    buffers = [g.ctypes.data, p.ctypes.data]
    plan.launch(buffers, 0, {"lr": 0.25})
    np.testing.assert_array_equal(p, 0.5)
    plan.launch(buffers)
    np.testing.assert_array_equal(p, -0.5)
    plan.launch(buffers, attrs={"lr": 1})
    plan.launch(buffers)  # by then the fast way: with the plan's own value
    np.testing.assert_array_equal(p, -3.5)


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"momentum": 0.5}, "cannot change from launch to launch"),  # a rule reads it
        ({"nesterov": True}, "cannot change"),  # compiled in
        ({"rate": 1.0}, "cannot change"),
        ({"lr": -1.0}, "attribute cannot be used"),
        ({"lr": "fast"}, "attribute cannot be used"),
        ({"step": 2**40}, "32 bits"),
    ],
)
def test_values_that_a_plan_does_not_take(attrs: dict[str, Any], words: str) -> None:
    p, g = np.ones(8, F32), np.ones(8, F32)
    plan = ge2rt.prepare("sgd", {"buffers": [desc(g), desc(p)], "attrs": {"lr": 0.5}})
    with pytest.raises(InvalidArgumentError, match=words):
        plan.launch([g.ctypes.data, p.ctypes.data], 0, attrs)
    np.testing.assert_array_equal(p, 1)


def test_every_optimiser_steps_without_a_new_plan() -> None:
    registry = default_registry()
    optimisers = [k for k in map(registry.get, registry.names()) if "lr" in k.attrs]
    assert len(optimisers) >= 10
    for kernel in optimisers:
        assert {"lr", "step"} & kernel.attrs.keys() <= kernel.free, kernel.name


def test_a_hundred_steps_are_one_plan(plans_made: list[str]) -> None:
    from ge2rt import optim

    w = ge2rt.tensor(np.ones(5, F32), requires_grad=True)
    optimiser = optim.AdamW([w], lr=0.01)
    for _ in range(100):
        optimiser.zero_grad()
        (w * w).sum().backward()
        optimiser.step()
    assert plans_made.count("ADAMW") == 1
