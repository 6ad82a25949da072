"""The training examples beside the same models in PyTorch, from the same weights and batches.

    python scripts/compare_training.py --steps 50     # extra `bench`, and scikit-learn

Prints both losses at some steps and the largest difference at any; exits with 1 beyond ``--most``.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import ge2rt
import ge2rt.nn.functional as own
from ge2rt import nn

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> ModuleType:
    """A program of the examples, loaded."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))  # they import each other
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Pair = tuple[float, float]


def digits(steps: int) -> Iterator[Pair]:
    """Losses of the CNN: ours, PyTorch's."""
    program = example("digits_cnn")
    nn.manual_seed(0)
    model = program.cnn()
    images, labels, _, _ = program.data()
    params = {name: p.detach().numpy() for name, p in model.named_parameters()}
    theirs = {name: torch.nn.Parameter(torch.from_numpy(p.copy())) for name, p in params.items()}

    def forward(x: Any) -> Any:
        x = F.relu(F.conv2d(x, theirs["parts.0.weight"], theirs["parts.0.bias"], padding=1))
        x = F.relu(F.conv2d(x, theirs["parts.2.weight"], theirs["parts.2.bias"], padding=1))
        x = F.max_pool2d(x, 2).flatten(1)
        return F.linear(x, theirs["parts.6.weight"], theirs["parts.6.bias"])

    @ge2rt.jit
    def step(params: Any, means: Any, squares: Any, count: Any, x: Any, y: Any) -> Any:
        def loss_of(p: Any) -> Any:
            return own.cross_entropy(nn.functional_call(model, p, x), y)

        loss, slopes = ge2rt.value_and_grad(loss_of)(params)
        return loss, program.adamw_step(params, slopes, means, squares, count, 2e-3)

    means = {name: np.zeros_like(p) for name, p in params.items()}
    squares = {name: np.zeros_like(p) for name, p in params.items()}
    optimiser = torch.optim.AdamW(theirs.values(), 2e-3, weight_decay=0.01)
    rows = [batch for epoch in program.shuffled(len(images), 9) for batch in epoch]
    for count, batch in enumerate(rows[:steps], 1):
        x, y = images[batch], labels[batch]
        loss, (params, means, squares) = step(params, means, squares, np.float64(count), x, y)
        other = F.cross_entropy(forward(torch.from_numpy(x)), torch.from_numpy(y))
        optimiser.zero_grad()
        other.backward()
        optimiser.step()
        yield float(loss), other.item()


def char_gpt(steps: int) -> Iterator[Pair]:
    """Losses of the character GPT: ours, PyTorch's."""
    program = example("char_gpt")
    text = program.TEXT.read_text(encoding="utf-8")
    letters = program.Letters(text)
    nn.manual_seed(1)
    model = program.CharGPT(len(letters.known))
    step, state = program.make_step(model, 3e-3), program.first_state(model)
    theirs = {n: torch.nn.Parameter(torch.from_numpy(p.copy())) for n, p in state[0].items()}
    optimiser = torch.optim.AdamW(theirs.values(), 3e-3, betas=(0.9, 0.99), weight_decay=0.01)
    source = program.batches(letters.encode(text), 0)
    for _ in range(steps):
        tokens, following = next(source)
        loss, state = step(state, tokens, following)
        scores = _gpt(theirs, torch.from_numpy(tokens), program.HEADS, program.LAYERS)
        other = F.cross_entropy(scores.flatten(0, 1), torch.from_numpy(following).flatten())
        optimiser.zero_grad()
        other.backward()
        optimiser.step()
        yield float(loss), other.item()


def _gpt(p: Any, tokens: Any, heads: int, layers: int) -> Any:
    x = p["letters.weight"][tokens] + p["places.weight"][: tokens.shape[1]]
    count, length, width = x.shape

    def linear(name: str, value: Any) -> Any:
        return F.linear(value, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(name: str, value: Any) -> Any:
        return F.layer_norm(value, (width,), p[f"{name}.weight"], p[f"{name}.bias"])

    for n in range(layers):
        at = f"blocks.{n}"
        parts = linear(f"{at}.attention.qkv", norm(f"{at}.first", x))
        q, k, v = parts.reshape(count, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(f"{at}.attention.out", y.transpose(1, 2).reshape(count, length, width))
        inner = F.gelu(linear(f"{at}.wide", norm(f"{at}.second", x)), approximate="tanh")
        x = x + linear(f"{at}.narrow", inner)
    return linear("head", norm("norm", x))


MODELS: dict[str, Callable[[int], Iterator[Pair]]] = {"digits_cnn": digits, "char_gpt": char_gpt}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--most", type=float, default=1e-3, help="largest difference allowed")
    parser.add_argument("models", nargs="*", default=list(MODELS), help=", ".join(MODELS))
    given = parser.parse_args()
    worst = 0.0
    for name in given.models:
        found = list(MODELS[name](given.steps))
        gap = max(abs(a - b) for a, b in found)
        worst = max(worst, gap)
        for n in range(0, len(found), max(len(found) // 5, 1)):
            print(f"{name:12} step {n + 1:4}  ge2rt {found[n][0]:.6f}  torch {found[n][1]:.6f}")
        print(f"{name:12} {len(found)} steps, largest difference {gap:.2e}")
    sys.exit(0 if worst <= given.most else 1)


if __name__ == "__main__":
    main()
