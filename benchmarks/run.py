"""Run the benchmarks: one command, one table, one JSON.

Usage: python benchmarks/run.py [--suite core|device|jit|library|tensor] [--only NAME] [--json FILE]

Peers come with the extra ``bench``; a missing one is named and its rows are left out. Exits with 1
when a bar is missed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

# these slow NumPy's own BLAS down where they are set: measure against the real peer
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)

sys.path.insert(0, str(Path(__file__).parent))

import harness  # noqa: E402 - after the environment is set

SUITES = ("core", "device", "jit", "library", "tensor")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="core", choices=SUITES)
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    suite = importlib.import_module(f"suite_{args.suite}")
    info = harness.machine()
    rows = []
    for name, measure in suite.ROWS.items():
        if args.only not in name:
            continue
        try:
            rows += measure()
        except ModuleNotFoundError as missing:
            print(f"left out: {name} (its peer {missing.name} is not installed: extra `bench`)")
        else:
            print(f"measured: {name}", file=sys.stderr)
    harness.show(info, rows)
    if args.json:
        harness.save(args.json, info, rows)
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
