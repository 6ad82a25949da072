"""Modules and optimisers: names, states, steps against the formulas, training and resuming."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
import ge2rt.nn.functional as F
from ge2rt import nn, optim
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError

RNG = np.random.default_rng(8)


class Net(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        self.embed = nn.Embedding(7, 4, seed=seed)
        self.layers = [nn.Linear(4, 6, seed=seed + 1), nn.Linear(6, 4, seed=seed + 2)]
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 7, bias=False, seed=seed + 3)
        self.head.weight = self.embed.weight  # shared

    def forward(self, i: Any) -> Any:
        x = self.embed(i)
        x = x + self.layers[1](ge2rt.ops.gelu(self.layers[0](x)))
        return self.head(self.norm(x))


WORDS, NEXT = ge2rt.tensor([0, 3, 6, 1]), ge2rt.tensor([3, 6, 1, 2])


def test_names_and_shared_parameters() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == [
        "embed.weight", "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
        "norm.weight", "norm.bias",
    ]  # fmt: skip
    F.cross_entropy(net(WORDS), NEXT).backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    assert "layers.0: Linear(4, 6)" in repr(net)


def test_states_are_copied_and_faults_are_told_before_anything_is_written() -> None:
    net, other = Net(0), Net(50)
    other.load_state_dict(net.state_dict())
    np.testing.assert_array_equal(net(WORDS).detach().numpy(), other(WORDS).detach().numpy())
    state = dict(Net(99).state_dict())
    state["norm.bias"] = ge2rt.zeros(5)
    del state["norm.weight"]
    state["more"] = ge2rt.zeros(1)
    before = net(WORDS).detach().numpy().copy()
    with pytest.raises(
        InvalidArgumentError, match=r"missing: norm\.weight.*unknown: more.*norm\.bias"
    ):
        net.load_state_dict(state)
    np.testing.assert_array_equal(net(WORDS).detach().numpy(), before)


def test_a_dtype_that_does_not_fit_is_told_before_anything_is_written() -> None:
    model = nn.Sequential(nn.Linear(2, 2, seed=0), nn.Dropout(0.5))
    before = model.parts[0].weight.detach().numpy().copy()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    state["parts.0.weight"] = state["parts.0.weight"] + 1
    with pytest.raises(InvalidTypeError, match=r"load_state_dict: parts\.1\.used: .*f32"):
        model.load_state_dict({**state, "parts.1.used": ge2rt.tensor(3.0)})
    np.testing.assert_array_equal(model.parts[0].weight.detach().numpy(), before)
    model.load_state_dict({**state, "parts.0.weight": (before + 2).tolist()})
    np.testing.assert_array_equal(model.parts[0].weight.detach().numpy(), before + 2)


def test_a_part_that_knows_the_whole_is_met_once() -> None:
    net = nn.Sequential(nn.Linear(2, 3, seed=0), nn.Linear(3, 2, seed=1))
    net.parts[1].whole = net
    net.parts[1].itself = [net.parts[1]]
    names = ["parts.0.weight", "parts.0.bias", "parts.1.weight", "parts.1.bias"]
    assert [name for name, _ in net.named_parameters()] == list(net.state_dict()) == names
    assert [name for name, _ in net.named_modules()] == ["", "parts.0", "parts.1"]
    assert not any(module.training for module in net.eval().modules())
    assert "whole: ..." in repr(net)


def test_a_jitted_step_gives_what_the_recorded_one_gives() -> None:
    net = Net()
    loss = F.cross_entropy(net(WORDS), NEXT)
    loss.backward()
    names = dict(net.named_parameters())

    @ge2rt.jit
    def step(params: Any, i: Any, t: Any) -> Any:
        def loss_of(p: Any) -> Any:
            return F.cross_entropy(nn.functional_call(net, p, i), t)

        return ge2rt.value_and_grad(loss_of)(params)

    value, slopes = step({n: p.detach() for n, p in names.items()}, WORDS, NEXT)
    np.testing.assert_allclose(value.item(), loss.item(), rtol=1e-6)
    for name, parameter in names.items():
        np.testing.assert_allclose(
            slopes[name].numpy(), parameter.grad.numpy(), rtol=2e-5, atol=2e-6
        )
    assert net.embed.weight is names["embed.weight"]  # what was put in its place is gone


def test_batch_normalisation_follows_the_batches_and_uses_them_afterwards() -> None:
    norm = nn.BatchNorm(3)
    x = RNG.standard_normal((5, 3, 2, 2)).astype(np.float32) * 3 + 1
    y = norm(ge2rt.tensor(x))
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    shape = (1, 3, 1, 1)
    want = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * mean, rtol=1e-5)
    np.testing.assert_allclose(norm.running_var.numpy(), 0.9 + 0.1 * var * 20 / 19, rtol=1e-5)
    norm.eval()
    z = norm(ge2rt.tensor(x)).detach().numpy()
    want = (x - 0.1 * mean.reshape(shape)) / np.sqrt(norm.running_var.numpy().reshape(shape) + 1e-5)
    np.testing.assert_allclose(z, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 1, 1)])
def test_batch_normalisation_needs_two_values_a_channel_in_training(shape: Any) -> None:
    norm = nn.BatchNorm(3)
    x = np.full(shape, 2.0, np.float32)
    with pytest.raises(InvalidArgumentError, match=r"py:\d+: .*one value a channel.*got shape \[1"):
        norm(ge2rt.tensor(x))
    with pytest.raises(InvalidArgumentError, match="one value a channel"):
        ge2rt.jit(lambda x, b: nn.stateful_call(norm, b, x))(x, dict(norm.named_buffers()))
    np.testing.assert_array_equal(norm.running_var.numpy(), 1)
    np.testing.assert_allclose(norm.eval()(ge2rt.tensor(x)).detach().numpy(), 2, rtol=1e-5)
    assert norm.train()(ge2rt.tensor(np.full((2, *shape[1:]), 2.0, np.float32))).shape[0] == 2


def formulas(name: str, p: Any, grads: Any) -> Any:
    """Some steps by the papers' formulas, in f64."""
    m = v = most = held = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        if name == "SGD":
            v = 0.9 * v + g
            p = p - 0.1 * v
        elif name in ("Adam", "AdamW"):
            p = p * (1 - 0.1 * 0.01) if name == "AdamW" else p
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            p = p - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        elif name == "AMSGrad":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            most = np.maximum(most, v)
            p = p - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(most / (1 - 0.999**t)) + 1e-8)
        elif name == "LAMB":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            u = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.01 * p
            p = p - 0.1 * np.linalg.norm(p) / np.linalg.norm(u) * u
        elif name == "centred":
            v, m = 0.99 * v + 0.01 * g * g, 0.99 * m + 0.01 * g
            held = 0.9 * held + g / (np.sqrt(v - m * m) + 1e-8)
            p = p - 0.1 * held
        elif name == "Lion":
            p = p - 0.1 * np.sign(0.9 * m + 0.1 * g)
            m = 0.99 * m + 0.01 * g
        elif name == "Adagrad":
            v = v + g * g
            p = p - 0.1 * g / (np.sqrt(v) + 1e-10)
        else:
            v = 0.99 * v + 0.01 * g * g
            p = p - 0.1 * g / (np.sqrt(v) + 1e-8)
    return p


KINDS: dict[str, Any] = {
    "SGD": lambda p: optim.SGD(p, 0.1, momentum=0.9), "Adam": lambda p: optim.Adam(p, 0.1),
    "AdamW": lambda p: optim.AdamW(p, 0.1), "Lion": lambda p: optim.Lion(p, 0.1),
    "Adagrad": lambda p: optim.Adagrad(p, 0.1), "RMSprop": lambda p: optim.RMSprop(p, 0.1),
    "AMSGrad": lambda p: optim.AMSGrad(p, 0.1), "LAMB": lambda p: optim.LAMB(p, 0.1),
    "centred": lambda p: optim.RMSprop(p, 0.1, momentum=0.9, centered=True),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_steps_follow_the_formulas(name: str) -> None:
    starts = [RNG.standard_normal(s) for s in ((3, 4), (5,))]
    grads = [[RNG.standard_normal(s.shape) for s in starts] for _ in range(3)]
    params = [nn.Parameter(s.astype(np.float32)) for s in starts]
    made = KINDS[name](params)
    for step in grads:
        for parameter, g in zip(params, step, strict=True):
            parameter.grad = ge2rt.tensor(g.astype(np.float32))
        made.step()
    for n, parameter in enumerate(params):
        want = formulas(name, starts[n], [step[n] for step in grads])
        np.testing.assert_allclose(parameter.detach().numpy(), want, rtol=1e-4, atol=1e-5)


def train(net: Any, made: Any, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(net(WORDS), NEXT)
        made.zero_grad()
        loss.backward()
        optim.clip_grad_norm_(net.parameters(), 1.0)
        made.step()
        losses.append(loss.item())
    return losses


def test_resuming_gives_the_same_run_bit_for_bit() -> None:
    net = Net()
    made = optim.AdamW(net.parameters(), 1e-2, schedule=optim.cosine(10))
    first = train(net, made, 5)
    saved = {n: v.clone() for n, v in net.state_dict().items()}, made.state_dict()
    rest = train(net, made, 5)
    other = Net(77)
    again = optim.AdamW(other.parameters(), 1e-2, schedule=optim.cosine(10))
    other.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    assert train(other, again, 5) == rest
    assert rest[-1] < first[0]


def test_clipping_and_schedules() -> None:
    params = [nn.Parameter(np.zeros(2, np.float32)), nn.Parameter(np.zeros(1, np.float32))]
    params[0].grad, params[1].grad = ge2rt.tensor([3.0, 0.0]), ge2rt.tensor([4.0])
    assert optim.clip_grad_norm_(params, 1.0) == pytest.approx(5)
    np.testing.assert_allclose(params[1].grad.numpy(), [0.8], rtol=1e-5)
    assert optim.clip_grad_norm_([], 1.0) == 0
    assert [optim.linear_warmup(4, optim.step_decay(2))(n) for n in range(8)] == [
        0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 0.1, 0.1]  # fmt: skip
    assert optim.cosine(10, 0.1)(5) == pytest.approx(0.55)
    assert optim.cosine(10)(99) == 0


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="without parameters"):
        optim.SGD([], 0.1)
    with pytest.raises(InvalidArgumentError, match="unknown reduction 'avg'"):
        F.mse_loss(ge2rt.ones(2), ge2rt.ones(2), reduction="avg")
    net = Net()
    with pytest.raises(InvalidArgumentError, match="no tensor of this name"):
        nn.functional_call(net, {"nothing": 1}, WORDS)
    made = optim.Adam(net.parameters())
    with pytest.raises(InvalidArgumentError, match="does not fit the optimiser"):
        made.load_state_dict({"steps": 3})
    with pytest.raises(AttributeError, match="no operator"):
        nn.Activation("nonsense")


def test_a_module_changes_its_dtype() -> None:
    model = nn.Linear(3, 2)
    model.register_buffer("count", np.arange(3))
    model(ge2rt.ones(1, 3)).sum().backward()
    before = model.weight.detach().numpy()
    held = model.weight
    model.to("f16")
    assert model.weight is held
    assert [str(t.dtype) for t in (model.weight, model.weight.grad, model.count)] == [
        "f16", "f16", "i64",
    ]  # fmt: skip
    np.testing.assert_array_equal(model.weight.detach().numpy(), before.astype(np.float16))
    assert str(model(ge2rt.ones(1, 3, dtype="f16")).dtype) == "f16"
    with pytest.raises(InvalidTypeError, match=r"can only be floats.*got i32"):
        model.to(dtype="i32")
    assert str(model.weight.dtype) == "f16"


@pytest.mark.parametrize(
    "given",
    [("f16",), ("float16",), (np.float16,), (np.dtype("f2"),), ("cpu", "half"), (None, "f2")],
    ids=str,
)
def test_a_module_takes_every_name_of_a_dtype(given: Any) -> None:
    assert nn.Linear(3, 2).to(*given).weight.dtype.name == "f16"


@pytest.mark.parametrize("given", [("f16", "far"), ("f16", "f32"), (np.float16, "cpu")], ids=str)
def test_a_module_is_not_moved_by_a_dtype_and_more_behind_it(given: Any) -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(InvalidArgumentError, match=r"test_modules\.py.*device first"):
        model.to(*given)
    assert model.weight.dtype.name == "f32"


def test_a_module_is_not_moved_to_what_is_no_device_and_no_dtype() -> None:
    model = nn.Linear(3, 2)
    for given in (("nowhere",), (3,), ("cpu", "nothing"), ("i32",), (np.complex64,)):
        with pytest.raises(InvalidArgumentError):
            model.to(*given)
    assert model.weight.dtype.name == "f32"


def test_a_sparse_gradient_moves_with_its_parameter() -> None:
    table = nn.Embedding(4, 2, sparse=True)
    table(ge2rt.tensor([1, 3, 1])).sum().backward()
    before = table.weight.detach().numpy()
    gradient = table.weight.grad
    table.to("f16")
    assert (table.weight.grad, gradient.dtype.name) == (gradient, "f16")
    assert gradient.indices.dtype.name == "i64"
    optim.SGD(table.parameters(), 1.0).step()
    want = before.astype(np.float16) - np.array([[0], [2], [0], [1]], np.float16)
    np.testing.assert_allclose(table.weight.detach().numpy(), want, rtol=2e-3)


def test_a_parameter_is_not_lost_by_an_assignment() -> None:
    model = nn.Linear(3, 2)
    for value in (ge2rt.zeros(2, 3), np.zeros((2, 3), np.float32), 1.0):
        with pytest.raises(InvalidTypeError, match=r"Linear\.weight is a parameter.*nn\.Parameter"):
            model.weight = value
    model.weight = nn.Parameter(np.zeros((2, 3), np.float32))
    model.bias = None
    assert [name for name, _ in model.named_parameters()] == ["weight"]
