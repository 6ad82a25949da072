"""Library kernels on the cpu device against PyTorch, over random configurations.

Usage: python scripts/compare_torch.py [--seed N] [--count N] [OPERATION...]

Forward and backward of each operation go through ``ge2rt.launch``; PyTorch computes the same in f64
(``scripts/torch_operations.py``). Prints one row an operation, with the worst error as a multiple
of the kernel's stated tolerance, then each failure with its configuration; exits with 1 if there is
one. PyTorch comes with the extra ``bench``.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import ge2rt
from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import Ge2rtError
from ge2rt.spec.registry import default_registry

if TYPE_CHECKING:
    from torch_operations import Call


@dataclass(frozen=True)
class Result:
    """One call: its worst error over tolerance, and what went wrong if anything did."""

    kernel: str
    worst: float
    fault: str = ""


def error_of(kernel: str, got: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error over what is allowed; infinite where only one is NaN or infinite."""
    if not np.issubdtype(wanted.dtype, np.floating):
        return 0.0 if np.array_equal(got, wanted) else np.inf
    dtype = next(d.name for d in DTYPES.values() if d.numpy == got.dtype)
    allowed = default_registry().get(kernel).tolerance[dtype]
    x = got.astype(np.float64)
    with np.errstate(all="ignore"):
        ratio = np.abs(x - wanted) / (allowed.atol + allowed.rtol * np.abs(wanted))
    ratio = np.where((x == wanted) | (np.isnan(x) & np.isnan(wanted)), 0.0, ratio)
    return float(np.nan_to_num(ratio, nan=np.inf, posinf=np.inf).max(initial=0.0))


def outcome(call: Call) -> Result:
    """Launch a call and compare each output."""
    try:
        ge2rt.launch(call.kernel, *call.inputs, out=list(call.outputs.values()), device="cpu",
                     **call.attrs)  # fmt: skip
    except Ge2rtError as error:
        return Result(call.kernel, np.inf, f"{type(error).__name__}: {error}")
    worst, wrong = 0.0, []
    for name, wanted in call.wanted.items():
        got = call.outputs[name]
        assert got is not None
        error = error_of(call.kernel, got, wanted.numpy())
        worst = max(worst, error)
        if error > 1:
            wrong.append(f"{name} off by {error:.3g} tolerances")
    return Result(call.kernel, worst, ", ".join(wrong))


def described(call: Call) -> str:
    """A call's buffers and attributes in one line."""

    def shape(array: Any) -> str:
        return "-" if array is None else f"{array.dtype}{list(array.shape)}"

    inputs = ", ".join(shape(a) for a in call.inputs)
    attrs = "".join(f", {name}={value}" for name, value in call.attrs.items())
    return f"{call.kernel}({inputs}{attrs})"


def results(operation: str, seed: int, count: int) -> Iterator[tuple[Result, str]]:
    """What becomes of each call of ``count`` configurations, and the configuration in words."""
    from torch_operations import OPERATIONS, Draw

    drawn, dtypes = OPERATIONS[operation]
    for number in range(seed, seed + count):
        rng = np.random.default_rng([number, zlib.crc32(operation.encode())])
        for call in drawn(Draw(rng, dtypes)):
            yield outcome(call), f"--seed {number}: {described(call)}"


def compare(operation: str, seed: int, count: int) -> list[str]:
    """Print the rows of one operation's kernels; returns the failures in words."""
    worst: dict[str, float] = {}
    calls: dict[str, int] = {}
    failures = []
    for result, text in results(operation, seed, count):
        calls[result.kernel] = calls.get(result.kernel, 0) + 1
        worst[result.kernel] = max(worst.get(result.kernel, 0.0), result.worst)
        if result.fault:
            failures.append(f"{text}: {result.fault}")
    kernels = ", ".join(f"{n} {worst[n]:.3f} in {calls[n]}" for n in worst)
    print(f"{operation:<14} {count:>14} {max(worst.values(), default=0.0):>12.3f} "
          f"{len(failures):>9}  {kernels}", flush=True)  # fmt: skip
    return failures


def main() -> int:
    """Compare; returns the exit status."""
    try:
        from torch_operations import OPERATIONS
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        print("compare_torch needs PyTorch: pip install 'ge2rt[bench]'", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help=", ".join(OPERATIONS))
    parser.add_argument("--seed", type=int, default=0, help="the first configuration")
    parser.add_argument("--count", type=int, default=50, help="configurations of each operation")
    given = parser.parse_args()
    unknown = set(given.operations) - set(OPERATIONS)
    if unknown:
        parser.error(f"no such operation: {', '.join(sorted(unknown))}")
    print(f"{'operation':<14} {'configurations':>14} {'worst error':>12} {'failures':>9}  kernels: "
          "worst error (tolerances), calls")  # fmt: skip
    failures = []
    for operation in given.operations or OPERATIONS:
        failures += compare(operation, given.seed, given.count)
    for text in failures:
        print(text)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
