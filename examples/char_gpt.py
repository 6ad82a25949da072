"""A small GPT over characters, trained on sonnets of Shakespeare and sampled.

    python examples/char_gpt.py --steps 200 --plot loss.svg

A step (forward, backward, AdamW) is one jitted function; weights and batches follow from a seed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

import ge2rt
import ge2rt.nn.functional as F
from ge2rt import nn

TEXT = Path(__file__).parent / "data" / "sonnets.txt"
LENGTH, WIDTH, HEADS, LAYERS, BATCH = 64, 96, 4, 3, 16


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiHeadAttention(width, heads, causal=True)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.first(x))
        return x + self.narrow(ge2rt.ops.gelu(self.wide(self.second(x))))


class CharGPT(nn.Module):
    def __init__(self, letters: int) -> None:
        self.letters, self.places = nn.Embedding(letters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        with ge2rt.no_grad():
            for table in (self.letters, self.places):
                table.weight.multiply_(0.02)  # as GPT-2 draws them
        self.blocks = [Block(WIDTH, HEADS) for _ in range(LAYERS)]
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters)

    def forward(self, tokens: Any) -> Any:
        x = self.letters(tokens) + self.places(np.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Letters:
    """Characters as numbers and back."""

    def __init__(self, text: str) -> None:
        self.known = sorted(set(text))
        self.number = {letter: n for n, letter in enumerate(self.known)}

    def encode(self, text: str) -> Any:
        return np.array([self.number[letter] for letter in text], np.int64)

    def decode(self, numbers: Any) -> str:
        return "".join(self.known[n] for n in numbers)


def make_step(model: nn.Module, rate: float) -> Any:
    """(loss, state) of (state, tokens, next ones); a state is parameters and AdamW's moments."""

    @ge2rt.jit
    def step(state: Any, tokens: Any, following: Any) -> Any:
        params, means, squares, count = state

        def loss_of(p: Any) -> Any:
            scores = nn.functional_call(model, p, tokens)
            flat = scores.reshape(-1, scores.shape[-1])
            return F.cross_entropy(flat, following.reshape(-1))

        loss, slopes = ge2rt.value_and_grad(loss_of)(params)
        count = count + 1
        scale = rate * np.sqrt(1 - 0.99**count) / (1 - 0.9**count)
        fresh: tuple[dict[str, Any], ...] = ({}, {}, {})
        for name, g in slopes.items():
            m = 0.9 * means[name] + 0.1 * g
            v = 0.99 * squares[name] + 0.01 * g * g
            kept = params[name] * (1 - rate * 0.01)
            fresh[0][name] = kept - scale.astype(np.float32) * m / (np.sqrt(v) + 1e-8)
            fresh[1][name], fresh[2][name] = m, v
        return loss, (*fresh, count)

    return step


def first_state(model: nn.Module) -> Any:
    params = {name: p.detach().numpy() for name, p in model.named_parameters()}
    zeros = {name: np.zeros_like(p) for name, p in params.items()}
    return params, zeros, {name: z.copy() for name, z in zeros.items()}, np.float64(0)


def batches(numbers: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    while True:
        starts = rng.integers(0, len(numbers) - LENGTH - 1, BATCH)
        rows = starts[:, None] + np.arange(LENGTH)
        yield numbers[rows], numbers[rows + 1]


def sample(model: nn.Module, params: Any, letters: Letters, start: str, count: int) -> str:
    """Text that goes on from ``start``, drawn from the model's own probabilities."""

    @ge2rt.jit
    def scores_at(params: Any, window: Any, place: Any) -> Any:
        return nn.functional_call(model, params, window)[0, place]

    rng = np.random.default_rng(0)
    text = list(letters.encode(start))
    for _ in range(count):
        window = np.zeros((1, LENGTH), np.int64)
        seen = text[-LENGTH:]
        window[0, : len(seen)] = seen
        scores = scores_at(params, window, np.array(len(seen) - 1)).astype(np.float64) / 0.7
        chances = np.exp(scores - scores.max())
        text.append(int(rng.choice(len(chances), p=chances / chances.sum())))
    return letters.decode(text)


def plot(losses: list[float], path: str) -> None:
    """The losses as an SVG picture."""
    wide, high, most = 640, 320, max(losses)
    across, up = (wide - 60) / max(len(losses) - 1, 1), (high - 50) / most
    points = " ".join(
        f"{40 + n * across:.1f},{high - 30 - v * up:.1f}" for n, v in enumerate(losses)
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}"',
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<path d="M40 20V{high - 30}H{wide - 20}" fill="none" stroke="#888"/>',
        f'<polyline points="{points}" fill="none" stroke="#1565c0" stroke-width="1.5"/>',
        f'<text x="4" y="26">{most:.1f}</text><text x="24" y="{high - 28}">0</text>',
        f'<text x="{wide - 100}" y="{high - 10}">{len(losses)} steps</text>',
        '<text x="50" y="16">cross entropy of the next character</text></svg>',
    ]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plot", default="", help="write the losses to this SVG file")
    given = parser.parse_args()
    text = TEXT.read_text(encoding="utf-8")
    letters = Letters(text)
    nn.manual_seed(1)
    model = CharGPT(len(letters.known))
    print(f"{len(text)} characters, {len(letters.known)} different; "
          f"{sum(p.size for p in model.parameters())} parameters")  # fmt: skip
    step, state, source = (
        make_step(model, 3e-3),
        first_state(model),
        batches(letters.encode(text), 0),
    )
    started = time.perf_counter()
    loss, state = step(state, *next(source))
    print(f"first step, with compilation: {time.perf_counter() - started:.1f} s, loss {loss:.3f}")
    losses = [float(loss)]
    with Progress() as progress:
        task = progress.add_task("training", total=given.steps, completed=1)
        while len(losses) < given.steps:
            loss, state = step(state, *next(source))
            losses.append(float(loss))
            progress.update(task, advance=1, description=f"loss {np.mean(losses[-20:]):.3f}")
    for n in range(0, given.steps, max(given.steps // 10, 1)):
        print(f"step {n + 1:5}  loss {losses[n]:.3f}")
    print(f"step {given.steps:5}  loss {losses[-1]:.3f}, {time.perf_counter() - started:.1f} s")
    if given.plot:
        plot(losses, given.plot)
    print(sample(model, state[0], letters, "Shall I ", 240))


if __name__ == "__main__":
    main()
