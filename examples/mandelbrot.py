"""The Mandelbrot set in plain NumPy, compiled by `ge2rt.jit`, as a picture.

python examples/mandelbrot.py --out mandelbrot.png
python examples/mandelbrot.py --numpy            # the same function, not compiled
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from files import write_png

STEPS = 16  # iterations in one call: they become one kernel


def advance(x, y, count, a, b):
    """STEPS iterations of z = z² + c, where z = x + iy and c = a + ib; `count` while |z| < 2."""
    for _ in range(STEPS):
        inside = x * x + y * y < 4
        x, y = np.where(inside, x * x - y * y + a, x), np.where(inside, 2 * x * y + b, y)
        count = count + inside
    return x, y, count


def colour(count, limit: int):
    """Counts as a picture [height, width, 3] of bytes; what never left is black."""
    t = np.sqrt(count / limit)
    waves = [0.5 - 0.5 * np.cos(6.2832 * (t * speed + 0.05)) for speed in (1.3, 1.9, 2.6)]
    return np.where((count < limit)[..., None], np.stack(waves, -1) * 255, 0).astype(np.uint8)


def points(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Real and imaginary part of c for each pixel."""
    a = np.linspace(-2.2, 0.8, width, dtype=np.float32)
    b = np.linspace(-1.2, 1.2, height, dtype=np.float32)
    grids = np.meshgrid(a, b)
    return grids[0], grids[1]


def count_steps(advance, a: np.ndarray, b: np.ndarray, calls: int) -> np.ndarray:
    """How long each point stays, up to calls * STEPS."""
    x, y, count = np.zeros_like(a), np.zeros_like(a), np.zeros(a.shape, np.int32)
    for _ in range(calls):
        x, y, count = advance(x, y, count, a, b)
    return count


def main() -> None:
    """Compute and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("mandelbrot.png"))
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--calls", type=int, default=16, help=f"of {STEPS} iterations each")
    parser.add_argument("--numpy", action="store_true", help="do not compile")
    args = parser.parse_args()
    a, b = points(args.width, args.width * 4 // 5)
    function, paint = advance, colour
    if not args.numpy:
        from ge2rt import jit

        function, paint = jit(advance), jit(colour, static=("limit",))
        start = time.perf_counter()
        paint(count_steps(function, a, b, 1), limit=STEPS * args.calls)
        print(f"first calls: {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    picture = paint(count_steps(function, a, b, args.calls), limit=STEPS * args.calls)
    print(f"{a.size} points, {STEPS * args.calls} steps: {time.perf_counter() - start:.3f} s")
    write_png(args.out, picture)
    print(f"written: {args.out}")


if __name__ == "__main__":
    main()
