"""Trains a small network on this process's part of fixed batches; process 0 prints the losses."""

from __future__ import annotations

import json
import sys

import numpy as np

import ge2rt
from ge2rt import nn, optim
from ge2rt.nn import functional
from ge2rt.parallel import team


def main(engine: str) -> None:
    """Five steps of AdamW."""
    together = team(engine)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 16, 8)).astype(np.float32), rng.integers(0, 3, (5, 16))
    # weights differ until process 0 has sent its own
    model = nn.Sequential(nn.Linear(8, 12, seed=together.rank), nn.Activation("tanh"),
                          nn.Linear(12, 3, seed=7 + together.rank))  # fmt: skip
    together.broadcast(model.parameters())
    optimiser = optim.AdamW(model.parameters(), 0.01)
    rows = together.part(16)
    losses = []
    for step in range(5):
        optimiser.zero_grad()
        part, target = ge2rt.from_numpy(x[step][rows]), ge2rt.from_numpy(y[step][rows])
        loss = functional.cross_entropy(model(part), target)
        loss.backward()
        together.average_gradients(model.parameters())
        optimiser.step()
        losses.append(together.average(loss.item()))
    if together.rank == 0:
        weights = np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])
        answer = {"losses": losses, "weights": weights.tolist(), "size": together.size}
        print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
