"""Handwritten digits (scikit-learn's bundled set, 8 x 8 pixels) by an MLP and by a CNN.

    pip install scikit-learn                 # for its data set
    python examples/digits_cnn.py
    python examples/digits_cnn.py --eager    # step by step on tensors instead of one jitted step

A step (forward, backward, AdamW) is one jitted function. The split and the seeds are fixed; nothing
is chosen by the test set.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from files import need

import ge2rt
import ge2rt.nn.functional as F
from ge2rt import nn, optim


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.Activation("relu"), nn.Linear(128, 10)
    )


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.Activation("relu"),
        nn.Conv2d(16, 32, 3, padding=1), nn.Activation("relu"),
        lambda x: F.max_pool2d(x, 2), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def data() -> tuple[Any, ...]:
    """Images [N, 1, 8, 8] and labels: 1,437 to train on, 360 to test with."""
    digits = need("sklearn.datasets", "scikit-learn").load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], digits.target[order].astype(np.int64)
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


def adamw_step(params: Any, slopes: Any, means: Any, squares: Any, step: Any, rate: float) -> Any:
    """AdamW in plain NumPy, so that it is part of the jitted step."""
    done = ({}, {}, {})
    for name, g in slopes.items():
        m = 0.9 * means[name] + 0.1 * g
        v = 0.999 * squares[name] + 0.001 * g * g
        p = params[name] * (1 - rate * 0.01)
        scale = np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        done[0][name] = p - rate * scale.astype(np.float32) * m / (np.sqrt(v) + 1e-8)
        done[1][name], done[2][name] = m, v
    return done


def train_jitted(model: nn.Module, images: Any, labels: Any, epochs: int, rate: float) -> None:
    params = {name: p.detach().numpy() for name, p in model.named_parameters()}
    means = {name: np.zeros_like(p) for name, p in params.items()}
    squares = {name: np.zeros_like(p) for name, p in params.items()}

    @ge2rt.jit
    def step(params: Any, means: Any, squares: Any, count: Any, x: Any, y: Any) -> Any:
        def loss_of(p: Any) -> Any:
            return F.cross_entropy(nn.functional_call(model, p, x), y)

        loss, slopes = ge2rt.value_and_grad(loss_of)(params)
        return loss, adamw_step(params, slopes, means, squares, count, rate)

    count = 0
    for epoch, batches in enumerate(shuffled(len(images), epochs)):
        total = 0.0
        for rows in batches:
            count += 1
            state = (params, means, squares, np.float64(count))
            loss, (params, means, squares) = step(*state, images[rows], labels[rows])
            total += float(loss)
        tell(epoch, epochs, total / len(batches))
    model.load_state_dict({name: ge2rt.tensor(p) for name, p in params.items()})


def train_eager(model: nn.Module, images: Any, labels: Any, epochs: int, rate: float) -> None:
    optimiser = optim.AdamW(model.parameters(), rate)
    for epoch, batches in enumerate(shuffled(len(images), epochs)):
        total = 0.0
        for rows in batches:
            x, y = ge2rt.from_numpy(images[rows]), ge2rt.from_numpy(labels[rows])
            loss = F.cross_entropy(model(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
        tell(epoch, epochs, total / len(batches))


def shuffled(count: int, epochs: int) -> Any:
    """For each epoch, rows of batches of 64 (what is left over sits out)."""
    rng = np.random.default_rng(1)
    for _ in range(epochs):
        order = rng.permutation(count)
        yield [order[at : at + 64] for at in range(0, count - 63, 64)]


def tell(epoch: int, epochs: int, loss: float) -> None:
    if epoch % 5 == 4 or epoch == epochs - 1:
        print(f"  epoch {epoch + 1:3}  loss {loss:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--eager", action="store_true", help="operator by operator, on tensors")
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    images, labels, test_images, test_labels = data()
    for name, build, rate in (("MLP", mlp, 2e-3), ("CNN", cnn, 2e-3)):
        nn.manual_seed(0)
        model = build()
        size = sum(p.size for p in model.parameters())
        print(f"{name}, {size} parameters")
        started = time.perf_counter()
        train = train_eager if given.eager else train_jitted
        train(model, images, labels, given.epochs, rate)
        took = time.perf_counter() - started
        with ge2rt.no_grad():
            found = model(ge2rt.from_numpy(test_images)).argmax(axis=1).numpy()
        right = (found == test_labels).mean()
        print(f"  {right:.2%} of {len(test_labels)} test digits right, {took:.1f} s of training")


if __name__ == "__main__":
    main()
