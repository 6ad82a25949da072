"""Optimisers: what they are given, where they may run, clipping over any number of gradients."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import ge2rt
import ge2rt.nn.functional as F
from ge2rt import nn, optim
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError

F32 = np.float32
P = nn.Parameter(np.ones(3, F32))

REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "module": (lambda: optim.SGD(nn.Sequential(nn.Linear(2, 2)), 0.1), TypeError,
               r"parameters are given as a list.*got Sequential.*model\.parameters\(\)"),
    "one tensor": (lambda: optim.Adam(P), TypeError, r"got Parameter.*\[x\] for one tensor"),
    "array": (lambda: optim.SGD([np.ones(3)], 0.1), TypeError, "parameter 0 is no tensor.*ndarray"),
    "pairs": (lambda: optim.Adam(nn.Linear(2, 2).named_parameters()), TypeError, "got tuple"),
    "no gradient": (lambda: optim.SGD([P, ge2rt.ones(3)], 0.1), ValueError,
                    r"parameter 1 does not require a gradient; got f32\[3\]\. x\.requires_grad_"),
    "frozen": (lambda: optim.SGD([nn.Parameter([1.0]).requires_grad_(False)], 0.1), ValueError,
               "no parameter requires a gradient"),
    "computed": (lambda: optim.SGD([P * 2], 0.1), ValueError, "was computed from others"),
    "twice": (lambda: optim.SGD([P, P], 0.1), ValueError, "stands twice"),
    "rate": (lambda: optim.Adam([P], lr=-1), ValueError, "Adam: lr is out of range.*0 <= lr, got"),
    "no rate": (lambda: optim.Adam([P], lr="fast"), ValueError, "lr is out of range"),
    "nan": (lambda: optim.Adam([P], lr=math.nan), ValueError, "lr is out of range"),
    "betas": (lambda: optim.AdamW([P], betas=(0.9, 1.0)), ValueError, "0 <= betas < 1, got 0.9, 1"),
    "one beta": (lambda: optim.Adam([P], betas=(0.9,)), ValueError, "expected 2 numbers.*got 0.9"),
    "three betas": (lambda: optim.Lion([P], betas=(0.9, 0.9, 0.9)), ValueError, "2 numbers"),
    "nesterov": (lambda: optim.SGD([P], 0.1, nesterov=True), ValueError,
                 "nesterov needs a momentum and no dampening; got momentum=0.0, dampening=0.0"),
    "dampened": (lambda: optim.SGD([P], 0.1, 0.9, dampening=0.5, nesterov=True), ValueError,
                 "got momentum=0.9, dampening=0.5"),
    "nesterov of a group": (
        lambda: optim.SGD([{"params": [P], "momentum": 0.0}], 0.1, 0.9, nesterov=True), ValueError,
        "nesterov needs"),
    "integers": (lambda: optim.SGD([P, nn.Parameter(np.arange(3))], 0.1), TypeError,
                 r"parameter 1 holds no floats; got i64\[3\]"),
    "doubles": (lambda: optim.AdamW([P, nn.Parameter(np.ones(3))]), TypeError,
                r"parameter 1 is of a dtype that no optimiser steps; expected f32, f16, bf16, "
                r"got f64\[3\]\. train in f32"),
    "group": (lambda: optim.SGD([{"params": [P], "lr": -2}], 0.1), ValueError, "lr is out of"),
    "option": (lambda: optim.SGD([{"params": [P], "rate": 2}], 0.1), ValueError,
               "does not have; expected params, lr.*got rate"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_optimiser_refuses_to_take(name: str) -> None:
    call, kind, match = REFUSED[name]
    with pytest.raises(InvalidArgumentError, match=rf"test_optimisers\.py:\d+: .*{match}") as found:
        call()
    assert isinstance(found.value, kind)


def test_what_it_takes_and_shows() -> None:
    frozen = nn.Parameter([2.0]).requires_grad_(False)
    made = optim.SGD([{"params": [P, frozen], "lr": np.float32(0.5)}, {"params": []}], 0.1)
    P.grad = ge2rt.ones(3)
    made.step()
    P.grad = None
    assert frozen.item() == 2
    assert repr(made).startswith("SGD(1 steps)\n  2 tensors: lr=0.5, momentum=0.0")
    assert repr(ge2rt.Generator(3, 8)) == "Generator(seed=3, used=8)"


@pytest.mark.parametrize("kind", [2.0, math.inf])
def test_clipping_takes_one_norm_over_any_number_and_dtype(kind: float) -> None:
    rng = np.random.default_rng(0)
    shapes = [(n % 5 + 1, 3) for n in range(70)]
    slopes = [rng.normal(size=shape) for shape in shapes]
    params = [nn.Parameter(np.zeros(s, F32 if n % 3 else np.float64)) for n, s in enumerate(shapes)]

    def fill() -> None:
        for p, g in zip(params, slopes, strict=True):
            p.grad = ge2rt.tensor(g.astype(p.dtype.numpy))

    flat = np.concatenate([g.ravel() for g in slopes])
    norm = np.abs(flat).max() if kind == math.inf else np.sqrt((flat * flat).sum())
    for most in (norm / 4, norm * 2):
        fill()
        version = params[0].grad.storage().version
        found = optim.clip_grad_norm_((p for p in params), most, kind)
        assert found == pytest.approx(norm, rel=1e-6)
        for p, g in zip(params, slopes, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), g * min(1, most / norm), rtol=1e-5)
    assert params[0].grad.storage().version > version
    params[5].grad = ge2rt.full(shapes[5], math.nan)
    assert math.isnan(optim.clip_grad_norm_(params, 1.0))
    assert np.isnan(params[0].grad.numpy()).all()  # as the kernel of one launch does
    with pytest.raises(InvalidArgumentError, match="no such norm"):
        optim.clip_grad_norm_(params, 1.0, 3.0)


def with_gradients(values: Any) -> list[Any]:
    params = [nn.Parameter(ge2rt.tensor(np.zeros_like(value))) for value in values]
    for parameter, value in zip(params, values, strict=True):
        parameter.grad = ge2rt.tensor(value)
    return params


@pytest.mark.parametrize(
    ("dtype", "value", "most"), [("f2", 6e4, 0.01), ("f2", 0.11, 1.0), ("f8", 1e50, 1.0)]
)
def test_clipping_many_keeps_the_digits_that_one_launch_keeps(
    dtype: str, value: float, most: float
) -> None:
    params = with_gradients([np.full(100, value, dtype) for _ in range(40)])
    norm = float(np.dtype(dtype).type(value)) * math.sqrt(40 * 100)
    assert optim.clip_grad_norm_(params, most) == pytest.approx(norm, rel=1e-9)
    want = np.float64(np.dtype(dtype).type(value)) * (most / norm)
    rtol, atol = (2**-11, 2**-25) if dtype == "f2" else (1e-12, 0)  # half a step of f16
    for parameter in params:
        np.testing.assert_allclose(parameter.grad.numpy(), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("count", [3, 40])
def test_an_infinite_gradient_makes_the_others_zero_in_any_number(count: int) -> None:
    values = [np.ones(3, F32) for _ in range(count)]
    values[1][2] = math.inf
    params = with_gradients(values)
    assert optim.clip_grad_norm_(params, 1.0) == math.inf
    for n, parameter in enumerate(params):
        want = [0.0, 0.0, math.nan] if n == 1 else [0.0, 0.0, 0.0]  # 0 times each
        np.testing.assert_array_equal(parameter.grad.numpy(), want)


def test_clipping_counts_a_parameter_once_and_names_one_whose_gradient_is_spread() -> None:
    params = with_gradients([np.array([3.0, 4.0], F32), np.zeros(2, F32)])
    assert optim.clip_grad_norm_([params[0], params[0]], 1.0) == pytest.approx(5)
    np.testing.assert_allclose(params[0].grad.numpy(), [0.6, 0.8], rtol=1e-6)
    params[1].grad = ge2rt.ones(1).expand(2)
    with pytest.raises(InvalidArgumentError, match=r"gradient of parameter 1 are one in.*clone"):
        optim.clip_grad_norm_(params, 1.0)


def test_nothing_is_stepped_inside_of_a_trace() -> None:
    model = nn.Linear(8, 3, seed=0)
    made = optim.SGD(model.parameters(), 0.1)
    x, y = np.ones((4, 8), F32), np.zeros(4, np.int64)
    values = {name: p.detach() for name, p in model.named_parameters()}

    def slopes(values: Any) -> Any:
        return ge2rt.grad(lambda v: F.cross_entropy(nn.functional_call(model, v, x), y))(values)

    def keep(values: Any) -> Any:
        for name, p in model.named_parameters():
            p.grad = slopes(values)[name]

    calls = {
        "set as .grad": keep,
        r"SGD\.step\(\) inside": lambda values: (slopes(values), made.step()),
        "clip_grad_norm_ inside": lambda values: optim.clip_grad_norm_(model.parameters(), 1.0),
        r"backward\(\) inside": lambda values: model(ge2rt.tensor(x)).sum().backward(),
        r"GradScaler\.step\(\) inside": lambda values: optim.GradScaler().step(made),
    }
    for match, call in calls.items():
        with pytest.raises(InvalidTypeError, match=rf"test_optimisers\.py:\d+: .*{match}") as told:
            ge2rt.jit(lambda values, call=call: call(values))(values)
        assert "docs/training.md" in str(told.value)
    with pytest.raises(AttributeError, match=r"test_optimisers\.py:\d+: .*ge2rt\.value_and_grad"):
        ge2rt.jit(lambda x: x.sum().backward())(x)
    assert model.weight.grad is None
    assert made.steps == 0


def test_groups_have_the_states_of_their_own_options() -> None:
    """Two steps by hand with the gradient 1: 1 + 1 without, 1 + 1.9 with a momentum of 0.9."""
    still, moved = nn.Parameter([0.0]), nn.Parameter([0.0])
    made = optim.SGD([{"params": [still]}, {"params": [moved], "momentum": 0.9}], lr=1.0)
    for _ in range(2):
        still.grad, moved.grad = ge2rt.ones(1), ge2rt.ones(1)
        made.step()
    assert (still.item(), moved.item()) == (-2.0, pytest.approx(-2.9, rel=1e-6))
    state = made.state_dict()
    assert set(state) == {"steps", "0.0.steps", "1.0.steps", "1.0.momentum"}
    assert state["1.0.momentum"].item() == pytest.approx(1.9, rel=1e-6)


def test_rms_groups_have_the_states_of_their_own_options() -> None:
    params = [nn.Parameter([0.0]) for _ in range(3)]
    options: list[dict[str, Any]] = [{}, {"momentum": 0.5}, {"momentum": 0.5, "centered": True}]
    groups = [{"params": [p], **more} for p, more in zip(params, options, strict=True)]
    made = optim.RMSprop(groups, lr=1.0, alpha=0.5, eps=0.0)
    for slope in (1.0, 2.0):
        for p in params:
            p.grad = ge2rt.tensor([slope])
        made.step()
    first, second = 1 / math.sqrt(0.5), 2 / math.sqrt(2.25)  # squares: .5, then .25 + 2
    around = 1 / math.sqrt(0.5 - 0.5**2), 2 / math.sqrt(2.25 - 1.25**2)  # means: .5, then 1.25
    want = [first + second, first * 1.5 + second, around[0] * 1.5 + around[1]]
    np.testing.assert_allclose([-p.item() for p in params], want, rtol=1e-6)


def test_a_momentum_that_is_set_to_zero_is_none() -> None:
    p = nn.Parameter([1.0])
    made = optim.SGD([p], lr=0.125, momentum=0.5, dampening=0.5)
    for momentum, want in ((0.5, 0.5), (0.0, 0.0), (0.5, -0.5)):  # velocities 4, -, 2 + 2
        made.groups[0]["momentum"] = momentum
        p.grad = ge2rt.tensor([4.0])
        made.step()
        assert p.item() == want


def test_a_state_of_another_shape_is_refused_and_nothing_is_changed() -> None:
    p = nn.Parameter(np.ones((2, 2), F32))
    made = optim.Adam([p])
    p.grad = ge2rt.ones(2, 2)
    made.step()
    state = made.state_dict()
    for wrong in ({"0.0.square": ge2rt.zeros(1, 2)}, {"0.0.square": 3.0}, {"more": 1}):
        with pytest.raises(
            InvalidArgumentError, match=r"got (0\.0\.square: \(.*is not|unknown: more)"
        ):
            made.load_state_dict({**state, "steps": 7, "0.0.mean": ge2rt.ones(2, 2), **wrong})
    assert made.steps == 1
    np.testing.assert_array_equal(made.state_dict()["0.0.mean"].numpy(), state["0.0.mean"].numpy())
    made.load_state_dict({**state, "0.0.mean": np.full((2, 2), 5, F32)})
    np.testing.assert_array_equal(made.state_dict()["0.0.mean"].numpy(), 5)


def test_a_gradient_of_another_dtype_names_the_parameter() -> None:
    params = [nn.Parameter([1.0]), nn.Parameter([1.0])]
    made = optim.SGD(params, lr=1.0)
    params[0].grad, params[1].grad = ge2rt.ones(1), ge2rt.ones(1, dtype="f16")
    with pytest.raises(InvalidTypeError, match=r"parameter 1 of group 0 has a.*f32, got f16"):
        made.step()
    assert (made.steps, params[0].item()) == (0, 1.0)


def test_a_gradient_is_a_tensor_of_the_same_shape() -> None:
    with pytest.raises(InvalidTypeError, match=r"a gradient is a tensor; got ndarray.*ge2rt\.tens"):
        P.grad = np.ones(3, F32)
    with pytest.raises(InvalidArgumentError, match=r"expected \(3,\), got \(2,\)"):
        P.grad = ge2rt.ones(2)
    P.grad = None


def test_jitted_steps_with_buffers_are_the_eager_ones() -> None:
    """Dropout, running averages, momentum: eager, stepped outside, written out in the program."""
    rng = np.random.default_rng(3)
    batches = [(ge2rt.tensor(rng.normal(size=(8, 5)).astype(F32)),
                ge2rt.tensor(rng.integers(0, 3, 8))) for _ in range(4)]  # fmt: skip

    def net() -> nn.Sequential:
        return nn.Sequential(nn.Linear(5, 6, seed=0), nn.BatchNorm(6), nn.ReLU(),
                             nn.Dropout(0.5, seed=1), nn.Linear(6, 3, seed=2))  # fmt: skip

    model = net()

    @ge2rt.jit
    def slopes_of(weights: Any, buffers: Any, x: Any, y: Any) -> Any:
        def loss_of(weights: Any) -> Any:
            scores, after = nn.stateful_call(model, {**weights, **buffers}, x)
            return F.cross_entropy(scores, y), after

        return ge2rt.value_and_grad(loss_of, has_aux=True)(weights)

    @ge2rt.jit
    def train(weights: Any, speed: Any, buffers: Any, x: Any, y: Any) -> Any:
        (loss, buffers), slopes = slopes_of(weights, buffers, x, y)
        speed = {name: 0.9 * v + slopes[name] for name, v in speed.items()}
        return loss, {n: w - 0.1 * speed[n] for n, w in weights.items()}, speed, buffers

    eager, outside = net(), net()
    makers = [optim.SGD(each.parameters(), 0.1, momentum=0.9) for each in (eager, outside)]
    shared = {name: p.detach() for name, p in outside.named_parameters()}
    buffers, moved = dict(outside.named_buffers()), dict(net().named_buffers())
    weights = {name: p.detach() for name, p in net().named_parameters()}
    speed = {name: ge2rt.zeros(w.shape) for name, w in weights.items()}
    for x, y in batches:
        loss = F.cross_entropy(eager(x), y)
        makers[0].zero_grad()
        loss.backward()
        makers[0].step()
        (second, buffers), slopes = slopes_of(shared, buffers, x, y)
        for name, p in outside.named_parameters():
            p.grad = slopes[name]
        makers[1].step()
        third, weights, speed, moved = train(weights, speed, moved, x, y)
        np.testing.assert_allclose([second.item(), third.item()], loss.item(), rtol=1e-5)
    for name, value in eager.state_dict().items():
        for other in ({**shared, **buffers}, {**weights, **moved}):
            np.testing.assert_allclose(other[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-6)


MAKERS: dict[str, Any] = {
    "SGD": lambda p: optim.SGD(p, 0.1, 0.9), "plain": lambda p: optim.SGD(p, 0.1),
    "AdamW": lambda p: optim.AdamW(p, 0.01), "RMSprop": lambda p: optim.RMSprop(p, centered=True),
    "cosine": lambda p: optim.SGD(p, 0.1, schedule=optim.linear_warmup(2, optim.cosine(5))),
    "decay": lambda p: optim.SGD(p, 0.1, schedule=optim.step_decay(2, 0.5)),
}  # fmt: skip


def _steps(model: Any, optimiser: Any, count: int) -> Any:
    x = ge2rt.tensor(np.linspace(-1, 1, 12, dtype=F32).reshape(4, 3))
    for _ in range(count):
        optimiser.zero_grad()
        (model(x) ** 2).sum().backward()
        optimiser.step()
    return model.weight.detach().numpy()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_goes_on_alone(name: str, copied: Any) -> None:
    nn.manual_seed(3)
    model = nn.Linear(3, 2)
    optimiser = MAKERS[name](model.parameters())
    before = np.array(_steps(model, optimiser, 2))
    other_model, other = copied((model, optimiser))
    assert other.param_groups[0]["params"][0] is other_model.weight
    went_on = np.array(_steps(other_model, other, 3))
    np.testing.assert_array_equal(model.weight.detach().numpy(), before)
    np.testing.assert_array_equal(_steps(model, optimiser, 3), went_on)
    assert other.steps == optimiser.steps == 5


def test_a_momentum_that_is_given_later_begins_with_the_gradient() -> None:
    p = nn.Parameter(np.zeros(2, F32))
    optimiser = optim.SGD([p], 1.0, dampening=0.5)
    want, v = np.zeros(2, F32), np.zeros(2, F32)
    for step, momentum in enumerate((0.0, 0.0, 0.5, 0.5, 0.5)):
        optimiser.param_groups[0]["momentum"] = momentum
        g = np.array([1.0, 2.0 + step], F32)
        p.grad = ge2rt.tensor(g)
        optimiser.step()
        if momentum:  # PyTorch's rule: the first one is the gradient, whatever the dampening
            v = g if step == 2 else momentum * v + 0.5 * g
        want = want - (v if momentum else g)
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-6)
