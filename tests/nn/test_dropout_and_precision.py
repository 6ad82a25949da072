"""Dropout's stream, autocast, and loss scaling."""

from __future__ import annotations

import numpy as np
import pytest

import ge2rt
from ge2rt import nn, optim
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.nn import functional
from ge2rt.nn.dropout import stream_dropout as dropout
from ge2rt.spec.library.norms import philox4x32

F32 = np.float32


def kept_by_hand(count: int, seed: int, base: int, p: float) -> np.ndarray:
    numbers = base + np.arange(-(-count // 4), dtype=np.uint64)
    counter = np.stack([numbers & 0xFFFFFFFF, numbers >> 32, numbers * 0, numbers * 0], -1)
    key = seed % 2**64
    words = philox4x32(counter, (key & 0xFFFFFFFF, key >> 32)).reshape(-1)[:count]
    return words.astype(np.uint64) >= np.uint64(int(p * 2**32))


@pytest.mark.parametrize(("seed", "base"), [(0, 0), (2**40 + 3, 2**33 - 2), (-3, 7)])
def test_operator_trace_and_kernel_drop_the_same(seed: int, base: int) -> None:
    x = np.random.default_rng(0).normal(size=(9, 23)).astype(F32)
    kernel = ge2rt.launch("DROPOUT", x, p=0.3, seed=seed, counter_base=base)
    eager = dropout(ge2rt.from_numpy(x), seed, base, p=0.3).numpy()
    jitted = ge2rt.jit(lambda x, s, b: dropout(x, s, b, p=0.3))(x, np.int64(seed), np.int64(base))
    kept = kept_by_hand(x.size, seed, base, 0.3).reshape(x.shape)
    for y in (kernel[0] if isinstance(kernel, tuple) else kernel, eager, jitted):
        np.testing.assert_array_equal(y != 0, kept)
        np.testing.assert_allclose(y, np.where(kept, x / F32(0.7), 0), rtol=1e-6)


def test_a_module_drops_others_each_time_and_resumes() -> None:
    drop = nn.Dropout(0.5, seed=4)
    x = ge2rt.tensor(np.ones((8, 33), F32), requires_grad=True)
    first = drop(x)
    first.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), first.detach().numpy())
    saved = {name: value.clone() for name, value in drop.state_dict().items()}
    second = drop(x).detach().numpy()
    assert (second != first.detach().numpy()).any()
    resumed = nn.Dropout(0.5, seed=4)
    resumed.load_state_dict(saved)
    np.testing.assert_array_equal(resumed(x).detach().numpy(), second)
    assert drop.eval()(x) is x
    with pytest.raises(InvalidArgumentError, match=r"outside of \[0, 1\)"):
        dropout(x, 0, p=1.0)


def test_products_of_a_block_are_halves_and_losses_are_not() -> None:
    rng = np.random.default_rng(1)
    model = nn.Sequential(nn.Linear(16, 32, seed=0), nn.LayerNorm(32), nn.Linear(32, 4, seed=1))
    x = ge2rt.from_numpy(rng.normal(size=(8, 16)).astype(F32))
    target = ge2rt.from_numpy(rng.integers(0, 4, 8))
    full = functional.cross_entropy(model(x), target)
    for dtype in ("f16", "bf16"):
        model.zero_grad()
        with nn.autocast(dtype):
            hidden = model.parts[0](x)
            scores = model(x)
            loss = functional.cross_entropy(scores, target)
        assert (hidden.dtype.name, scores.dtype.name, loss.dtype.name) == (dtype, dtype, "f32")
        assert abs(loss.item() - full.item()) < 0.05
        loss.backward()
        assert {p.grad.dtype.name for p in model.parameters()} == {"f32"}
    assert model.parts[0](x).dtype.name == "f32"
    with nn.autocast("f16", enabled=False):
        assert model.parts[0](x).dtype.name == "f32"
    with pytest.raises(InvalidTypeError, match="f16 or bf16"), nn.autocast("f32"):
        pass


def test_autocast_inside_a_trace() -> None:
    w, x = np.eye(4, dtype=F32), np.full((2, 4), 1 + 2**-12, F32)  # 1 in f16

    def product(x, w):
        with nn.autocast("f16"):
            return functional.linear(x, w)

    y = ge2rt.jit(product)(x, w)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, 1)


def test_a_step_that_overflows_is_left_out() -> None:
    w = nn.Parameter(np.ones(3, F32))
    optimiser, scaler = optim.SGD([w], lr=0.5), optim.GradScaler(2.0**10, interval=2)
    for number, slope in enumerate([1.0, np.inf, np.nan, 1.0, 1.0]):
        optimiser.zero_grad()
        loss = (w * ge2rt.tensor(np.full(3, slope, F32))).sum()
        scaler.scale(loss).backward()
        assert scaler.step(optimiser) == bool(np.isfinite(slope)), number
    np.testing.assert_array_equal(w.detach().numpy(), 1 - 0.5 * 3)
    assert (scaler.skipped, scaler.factor) == (2, 2.0**10 / 4 * 2)
    other = optim.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()


def test_small_gradients_survive_by_scaling() -> None:
    """A gradient of 2**-26 is 0 in f16; scaled by 2**10 it is not."""
    x = ge2rt.tensor(np.full((1, 1), 2.0**-26, F32))
    found = {}
    for factor in (1.0, 2.0**10):
        w = nn.Parameter(np.zeros((1, 1), F32))
        with nn.autocast("f16"):
            y = functional.linear(ge2rt.tensor(np.ones((1, 1), F32)), w)
        scaled = (y.astype("f32") * x).sum() * factor
        scaled.backward()
        found[factor] = w.grad.item() / factor
    assert found == {1.0: 0.0, 2.0**10: 2.0**-26}


@pytest.mark.parametrize("power", [10, 26])
def test_factors_below_halves_divide_gradients_of_halves(power: int) -> None:
    w = nn.Parameter(ge2rt.tensor(np.zeros(2, np.float16)))
    w.grad = ge2rt.tensor(np.full(2, 2.0**15, np.float16))
    assert optim.GradScaler(2.0**power).step(optim.SGD([w], lr=4.0))
    np.testing.assert_array_equal(w.detach().numpy(), -(2.0 ** (17 - power)))


def test_gradients_are_divided_once_to_be_clipped() -> None:
    p = nn.Parameter(np.zeros(2, np.float32))
    optimiser, scaler = optim.SGD([p], 1.0), optim.GradScaler(factor=8.0)
    for _ in range(2):
        optimiser.zero_grad()
        scaler.scale((p * ge2rt.tensor([3.0, 4.0])).sum()).backward()
        scaler.unscale_(optimiser)
        scaler.unscale_(optimiser)
        np.testing.assert_array_equal(p.grad.numpy(), [3, 4])
        assert optim.clip_grad_norm_([p], 1.0) == pytest.approx(5)
        assert scaler.step(optimiser)
    np.testing.assert_allclose(p.detach().numpy(), [-1.2, -1.6], rtol=1e-5)
