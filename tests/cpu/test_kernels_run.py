"""The shipped kernels on the CPU device against NumPy: all traps, and a slice of all cases."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from cases import TRAPS, all_cases, trap

from ge2rt.device.registry import get_device
from ge2rt.run.check import run_case

SLICE = 8  # cases a day; --full runs all of them


@pytest.fixture(scope="module")
def device():
    return get_device("cpu")


def checked(cases, device):
    outcomes = [run_case(case, device) for case in cases]
    assert [f"{o.case}: {o.faults or o.skipped}" for o in outcomes if o.faults or o.skipped] == []
    return len(outcomes)


@pytest.mark.parametrize("part", range(4))
def test_traps(device, part):
    assert checked([trap(row, i) for i, row in enumerate(TRAPS)][part::4], device) > 5


def test_a_slice_of_all_cases(device, full):
    cases = all_cases(full)
    # the day chooses, so that each run of one day is the same
    order = np.random.default_rng(datetime.date.today().toordinal()).permutation(len(cases))
    chosen = order if full else order[:SLICE]
    checked([cases[i] for i in chosen], device)


def test_special_values(device):
    """NaN, infinities and signed zeros, which the seeded values do not have."""
    import ge2rt

    x = np.array([1, np.nan, 3, np.inf, -np.inf, -0.0, 0, -2], dtype=np.float32)
    with np.errstate(all="ignore"):
        assert np.isnan(ge2rt.launch("reduce", x, op="max", device="cpu"))
        assert ge2rt.launch("reduce_arg", x, op="argmin", device="cpu") == 1
        for op in ("relu", "neg", "sqrt", "sign", "abs"):
            want = {"relu": np.maximum(x, 0), "neg": -x, "sqrt": np.sqrt(x), "sign": np.sign(x),
                    "abs": np.abs(x)}[op]  # fmt: skip
            got = ge2rt.launch("elementwise_unary", x, op=op, device="cpu")
            assert np.array_equal(got, want, equal_nan=True), op
        for op, function in (("max", np.maximum), ("min", np.minimum), ("mod", np.remainder),
                             ("floordiv", np.floor_divide)):  # fmt: skip
            a, b = np.meshgrid(x, x)
            got = ge2rt.launch("elementwise_binary", a, b, op=op, device="cpu")
            assert np.array_equal(got, function(a, b), equal_nan=True), op


def test_integer_division_never_traps(device):
    import ge2rt

    edges = np.array([-128, -127, -7, -1, 0, 1, 2, 7, 127], dtype=np.int8)
    a, b = np.meshgrid(edges, edges)
    quotient = ge2rt.launch("elementwise_binary", a, b, op="floordiv", device="cpu")
    rest = ge2rt.launch("elementwise_binary", a, b, op="mod", device="cpu")
    for x, y, q, r in zip(a.flat, b.flat, quotient.flat, rest.flat, strict=True):
        wide = (int(x) // int(y), int(x) % int(y)) if y else (0, 0)
        assert (int(q), int(r)) == ((wide[0] + 128) % 256 - 128, wide[1]), (x, y)


def test_layernorm_holds_at_a_large_mean(device):
    import ge2rt

    rng = np.random.default_rng(1)
    for length in (1024, 5000):
        x = (1e4 + rng.standard_normal((7, length))).astype(np.float32)
        exact = x.astype(np.float64)
        exact -= exact.mean(1, keepdims=True)
        want = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-5)
        got = ge2rt.launch("layernorm", x, device="cpu")
        assert np.abs(got - want).max() < 2e-5


def test_sums_are_the_same_in_each_run(device):
    import ge2rt

    x = np.random.default_rng(2).standard_normal(1_000_003).astype(np.float32)
    sums = {float(ge2rt.launch("reduce", x, op="sum", device="cpu")) for _ in range(3)}
    assert len(sums) == 1
    assert abs(sums.pop() - x.sum(dtype=np.float64)) < 0.02


def test_log_softmax_of_a_far_value_is_finite(device):
    import ge2rt

    got = ge2rt.launch("softmax", np.array([[0, -200]], dtype=np.float32), log=True, device="cpu")
    assert np.array_equal(got, [[0, -200]])
