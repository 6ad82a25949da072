"""Random CUDA programs on the CPU device against NumPy, for as long as one likes.

Usage: python scripts/fuzz_ptx.py [--seed N] [--count N] [--seconds N] [--size N] [--show]

Each seed makes one program (``tests/cpu/random_cuda.py``): arithmetic of all types, branches,
loops, switches, returns, shared memory between barriers, votes, shuffles and atomics. NVRTC
compiles it; the CPU device runs it with 32 and 16 lanes at a time and with one; NumPy evaluates the
tree that it was written from. Prints each seed that differs and exits with 1 if there is one;
``--show`` prints the source of the first seed instead.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cpu.native_run import ptx_of
from cpu.random_cuda import Maker, differences

from ge2rt.base.errors import Ge2rtError


def faults(seed: int, size: int) -> list[str]:
    """What is wrong with one program, over the widths."""
    program = Maker(seed, size).program()
    found = []
    for lanes in (32,) if program.warps else (32, 16, 1):
        try:
            texts = differences(program, lanes)
        except (AssertionError, Ge2rtError) as error:
            texts = [f"{type(error).__name__}: {str(error)[:300]}"]
        found += [f"{lanes} lanes, block {program.block}: {text}" for text in texts]
    ptx_of.cache_clear()
    return found


def main() -> int:
    """Run the seeds; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="programs")
    parser.add_argument("--seconds", type=float, default=600.0, help="stop after this time")
    parser.add_argument("--size", type=int, default=4, help="statements at the top of a program")
    parser.add_argument("--show", action="store_true", help="print the first program")
    given = parser.parse_args()
    if given.show:
        print(Maker(given.seed, given.size).program().source())
        return 0
    end, done, bad = time.monotonic() + given.seconds, 0, 0
    for seed in range(given.seed, given.seed + given.count):
        if time.monotonic() > end:
            break
        found = faults(seed, given.size)
        for text in found:
            print(f"seed {seed} (size {given.size}), {text}", flush=True)
        done, bad = done + 1, bad + bool(found)
    print(f"{done} programs, {bad} with faults")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
