"""Heat spreading in a plate, in plain NumPy, compiled by `ge2rt.jit`, as a picture.

python examples/heat.py --out heat.png
python examples/heat.py --numpy                  # the same function, not compiled
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from files import write_png

RATE = np.float32(0.24)  # below 1/4, or the scheme is not stable


def spread(u, source):
    """One Euler step of du/dt = Δu; `source` keeps its temperature, nothing leaves at the rim."""
    p = np.pad(u, 1, mode="edge")
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return np.where(source > 0, source, u + RATE * (around - 4 * u))


def colour(u):
    """Temperatures from 0 to 1 as a picture of bytes: black, red, yellow, white."""
    t = np.clip(u, 0, 1)[..., None]
    return (np.clip(t * 3 - np.arange(3, dtype=np.float32), 0, 1) * 255).astype(np.uint8)


def ring(size: int) -> np.ndarray:
    """A hot ring with a gap and a hot spot, both off the middle."""
    y, x = np.mgrid[:size, :size].astype(np.float32) / size
    radius = np.hypot(x - 0.55, y - 0.5)
    hot = (np.abs(radius - 0.3) < 0.012) & (np.abs(y - 0.5) > 0.06)
    hot |= np.hypot(x - 0.2, y - 0.25) < 0.03
    return hot.astype(np.float32)


def main() -> None:
    """Run and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("heat.png"))
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--numpy", action="store_true", help="do not compile")
    args = parser.parse_args()
    source = ring(args.size)
    step, paint = spread, colour
    if not args.numpy:
        from ge2rt import jit

        step, paint = jit(spread), jit(colour)
        start = time.perf_counter()
        paint(step(source, source))
        print(f"first calls: {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    u = source
    for _ in range(args.steps):
        u = step(u, source)
    print(f"{args.steps} steps of {args.size} x {args.size}: {time.perf_counter() - start:.3f} s")
    write_png(args.out, paint(u))
    print(f"written: {args.out}")


if __name__ == "__main__":
    main()
