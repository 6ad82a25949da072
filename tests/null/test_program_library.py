"""Library kernels: when they are taken, why, and what they are on each device."""

from __future__ import annotations

import pytest

from ge2rt.base.errors import UnsupportedError
from ge2rt.device.null import NullDevice
from ge2rt.fuse.products import THRESHOLDS
from ge2rt.run import library


@pytest.mark.parametrize(
    ("m", "n", "k", "taken"),
    [
        (512, 512, 512, True),
        (64, 64, 64, True),
        (64, 64, 63, False),
        (1, 768, 768, True),
        (4096, 4, 64, True),
        (16, 16, 16, True),
        (16, 16, 15, False),
        (1, 1, 1, False),
        (64, 64, 0, False),
    ],
)
def test_sizes(m, n, k, taken):
    verdict = library.choose(m, n, k)
    assert verdict.library == taken
    assert f"{m} x {n} x {k} = {m * n * k}" in str(verdict)


def test_a_batch_counts_as_a_whole():
    assert not library.choose(8, 8, 8).library
    verdict = library.choose(8, 8, 8, batch=64)
    assert str(verdict) == (
        "library: thin 64 x 8 x 8 x 8 = 32768 >= 4096: NumPy's BLAS, its blocked kernel is written"
        " for this CPU"
    )


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i32", "i64", "bool"])
def test_other_dtypes_are_for_our_own_kernels(dtype):
    verdict = library.choose(512, 512, 512, dtype=dtype)
    assert str(verdict) == f"own kernel: NumPy's BLAS has no {dtype}, only f32, f64"


def test_cublas_has_half_precision():
    assert library.choose(512, 512, 512, dtype="f16", kind="cuda").library
    assert not library.choose(32, 32, 32, dtype="f16", kind="cuda").library


def test_a_device_without_a_library():
    assert (
        str(library.choose(512, 512, 512, kind="null")) == "own kernel: there is no library on null"
    )
    assert library.choices(NullDevice()).library == ()
    with pytest.raises(UnsupportedError, match=r"'matmul' on null.*matmul on cpu, matmul on cuda"):
        library.find_library("matmul", "null")


def test_the_library_has_a_score_beside_the_kernels_of_its_op_type():
    assert library.query("GEMM_BIAS_ACT", "cpu") == {"matmul": 90}
    assert library.query("UNARY", "cpu") == {}


def test_every_library_kernel_has_a_row_of_sizes():
    for kernel in library.LIBRARY.values():
        row = THRESHOLDS[kernel.kind]
        assert (kernel.title, kernel.dtypes, kernel.reason) == (row.title, row.dtypes, row.reason)
