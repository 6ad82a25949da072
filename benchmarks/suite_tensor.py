"""Tensors on the CPU device against torch: eager calls, training steps, live memory under ``@jit``.

Models and batches are the same in both; a step is forward, backward and AdamW.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Row, faster, interleave, slower

import ge2rt
import ge2rt.nn.functional as own
from ge2rt import nn, optim

F32 = np.float32
WIDTH, BATCH = 512, 128


def eager_add() -> list[Row]:
    """``x + y`` of three elements."""
    import torch

    a, b = ge2rt.tensor([1.0, 2.0, 3.0]), ge2rt.tensor([4.0, 5.0, 6.0])
    s, t = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
    times = interleave({"ge2rt": lambda: a + b, "torch": lambda: s + t}, 0.05)
    return [slower("eager x + y, 3 elements", times, "torch", 2)]


def _data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, WIDTH)).astype(F32)
    return x, rng.integers(0, 10, BATCH)


def _torch_step(model: nn.Module, x: Any, y: Any) -> Callable[[], Any]:
    import torch

    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 10)]
    other = torch.nn.Sequential(*layers)
    state = {k.removeprefix("parts."): torch.from_numpy(v.numpy().copy())
             for k, v in model.state_dict().items()}  # fmt: skip
    other.load_state_dict(state)
    optimiser = torch.optim.AdamW(other.parameters(), 1e-3, fused=True)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> Any:
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(other(tx), ty)
        loss.backward()
        optimiser.step()
        return loss

    return step


def _model() -> nn.Module:
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH, seed=1), nn.Activation("relu"), nn.Linear(WIDTH, 10, seed=2)
    )


def mlp_step() -> list[Row]:
    """An MLP 512-512-10 on 128 rows: operators on tensors, and one jitted function."""
    x, y = _data()
    model, jitted_model = _model(), _model()
    optimiser = optim.AdamW(model.parameters(), 1e-3)
    tx, ty = ge2rt.from_numpy(x), ge2rt.from_numpy(y)

    def eager() -> Any:
        optimiser.zero_grad()
        loss = own.cross_entropy(model(tx), ty)
        loss.backward()
        optimiser.step()
        return loss

    jitted = _jitted_step(jitted_model, x, y)
    torch_step = _torch_step(jitted_model, x, y)
    first = eager().item(), float(jitted()), torch_step().item()
    np.testing.assert_allclose(first, first[2], 1e-4)
    times = interleave({"ge2rt": eager, "jitted": jitted, "torch": torch_step}, 0.2)
    fast = {"ge2rt": times["jitted"], "torch": times["torch"]}
    return [
        faster("MLP step, eager", times, "torch", 0.5), faster("MLP step, jitted", fast, "torch", 1)
    ]  # fmt: skip


def _jitted_step(model: nn.Module, x: Any, y: Any) -> Callable[[], Any]:
    params = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    state = [params, *({n: np.zeros_like(p) for n, p in params.items()} for _ in range(2))]
    count = np.float64(0)

    @ge2rt.jit
    def step(params: Any, means: Any, squares: Any, count: Any, x: Any, y: Any) -> Any:
        loss, slopes = ge2rt.value_and_grad(
            lambda p: own.cross_entropy(nn.functional_call(model, p, x), y)
        )(params)
        fresh: tuple[dict[str, Any], ...] = ({}, {}, {})
        count = count + 1
        root = np.sqrt(1 - 0.999**count).astype(F32)
        rate = (1e-3 / (1 - 0.9**count)).astype(F32)
        for name, g in slopes.items():
            m, v = 0.9 * means[name] + 0.1 * g, 0.999 * squares[name] + 0.001 * g * g
            fresh[0][name] = params[name] * (1 - 1e-5) - rate * m / (np.sqrt(v) / root + 1e-8)
            fresh[1][name], fresh[2][name] = m, v
        return loss, fresh, count

    def call() -> Any:
        nonlocal state, count
        loss, state, count = step(*state, count, x, y)
        return loss

    return call


def chain_memory() -> list[Row]:
    """Buffers of a chain of 100 operators under ``@jit`` that are alive at once, inputs aside."""

    @ge2rt.jit
    def chain(x: Any) -> Any:
        for n in range(100):
            x = np.roll(x, 1, 0) * 0.5 + np.sort(x, 0) if n % 50 == 25 else np.sin(x) + x[::-1]
        return x

    x = np.random.default_rng(0).standard_normal((512, 64)).astype(F32)
    chain(x)
    memory = chain.compile(x).built.runner.memory
    live = memory.nbytes / x.nbytes + 1  # the arena, and the output
    return [Row("live buffers of 100 operators", 0, 0, "inputs aside", live, "<=", 3, unit="")]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "eager": eager_add,
    "mlp": mlp_step,
    "memory": chain_memory,
}
