"""Logistic regression on handwritten digits, in plain NumPy, compiled by `ge2rt.jit`.

pip install scikit-learn                         # for its data set
python examples/logreg.py
python examples/logreg.py --numpy                # the same functions, not compiled
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from files import need


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def train(w, b, x, wanted, rate):
    """One step of gradient descent on the cross entropy; `wanted` is 1 for the right class."""
    wrong = (softmax(x @ w + b) - wanted) / np.float32(x.shape[0])
    decay = np.float32(1e-4)
    return w - rate * (x.T @ wrong + decay * w), b - rate * wrong.sum(axis=0)


def loss(w, b, x, wanted):
    """Mean cross entropy."""
    return -np.log((softmax(x @ w + b) * wanted).sum(axis=1)).mean()


def classify(w, b, x):
    """The likeliest class of each row."""
    return np.argmax(x @ w + b, axis=1)


def load() -> tuple[np.ndarray, np.ndarray]:
    """Pictures [n, 64] from 0 to 1, and their digits."""
    x, y = need("sklearn.datasets", "scikit-learn").load_digits(return_X_y=True)
    return (x / 16).astype(np.float32), y


def main() -> None:
    """Train on the first part, test on the rest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--numpy", action="store_true", help="do not compile")
    args = parser.parse_args()
    x, y = load()
    count = 1400
    wanted = np.eye(10, dtype=np.float32)[y[:count]]
    w, b = np.zeros((64, 10), np.float32), np.zeros(10, np.float32)
    step, measure, sort_out = train, loss, classify
    if not args.numpy:
        from ge2rt import jit

        step, measure, sort_out = jit(train), jit(loss), jit(classify)
    rate = np.float32(0.5)
    start = time.perf_counter()  # compiling takes longer than all the steps
    step(w, b, x[:count], wanted, rate)
    measure(w, b, x[:count], wanted)
    sort_out(w, b, x[count:])
    print(f"first calls: {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    for number in range(args.steps):
        w, b = step(w, b, x[:count], wanted, rate)
        if number % 100 == 99:
            print(f"  step {number + 1}: loss {float(measure(w, b, x[:count], wanted)):.4f}")
    print(f"{args.steps} steps: {time.perf_counter() - start:.3f} s")
    right = (sort_out(w, b, x[count:]) == y[count:]).mean()
    print(f"{right:.1%} of {len(x) - count} digits not seen before are classified rightly")


if __name__ == "__main__":
    main()
