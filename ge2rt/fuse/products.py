"""Own kernel or library for a product of matrices: the measured sizes, as one table.

Measured on two cores with AVX-512, f32, own kernel on two threads, OpenBLAS on one (best times in
microseconds, own / library): 64^3 8 / 5, 96^3 28 / 16, 128^3 33 / 42, 160^3 99 / 80, 256^3 328 /
321, 512^3 3,540 / 2,060 (two threads), and for factors that do not fill a tile of 64 x 64 (m x n
x k): 1x64x64 8 / 0.7, 1x256x256 65 / 3, 8x128x128 20 / 3, 16x768x768 1,230 / 242, 4096x4x64 388 /
60. Our kernel has bias and activation in the same launch, so the smallest products stay with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_TILE = 64


@dataclass(frozen=True)
class Threshold:
    """From how many products m*n*k on a library is better, and why."""

    title: str
    dtypes: tuple[str, ...]
    full: int  # both m and n fill a tile of our kernel
    thin: int  # one of them does not
    reason: str


# kind of device -> the library's row
THRESHOLDS: Mapping[str, Threshold] = {
    "cpu": Threshold("NumPy's BLAS", ("f32", "f64"), 64**3, 16**3,
                     "its blocked kernel is written for this CPU"),
    "cuda": Threshold("cuBLAS", ("f32", "f64", "f16", "bf16"), 128**3, 128**3,
                      "it is tuned for each GPU"),
}  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """Whether the library is taken, and why. It prints."""

    library: bool
    reason: str

    def __str__(self) -> str:
        return f"{'library' if self.library else 'own kernel'}: {self.reason}"


def choose_product(
    m: int, n: int, k: int, *, batch: int = 1, dtype: str = "f32", kind: str = "cpu"
) -> Verdict:
    """Library or own kernel for ``batch`` products [m, k] @ [k, n] on a kind of device."""
    row = THRESHOLDS.get(kind)
    if row is None:
        return Verdict(False, f"there is no library on {kind}")
    if dtype not in row.dtypes:
        return Verdict(False, f"{row.title} has no {dtype}, only {', '.join(row.dtypes)}")
    thin = min(m, n) < _TILE
    least = row.thin if thin else row.full
    shape = f"{'thin ' if thin else ''}{f'{batch} x ' if batch > 1 else ''}{m} x {n} x {k}"
    size = batch * m * n * k
    if size < least:
        return Verdict(False, f"{shape} = {size} < {least}: too small for {row.title} to pay")
    return Verdict(True, f"{shape} = {size} >= {least}: {row.title}, {row.reason}")
