"""EPILOGUE on the device: the stream of its dropout, and what the cases do not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec.library.norms import philox4x32

RNG = np.random.default_rng(29)
STREAM = {"dropout": "philox", "p": 0.25, "seed": 2**40 + 3, "subsequence": 2**33 + 1, "offset": 6}


def kept(rows: int, columns: int) -> Any:
    """Where the words of the stream, one by one, are large enough."""
    words = [
        philox4x32(np.array([[at // 4, 0, 1, 2]]), (3, 2**8))[0][at % 4]
        for at in range(6, 6 + rows * columns)
    ]
    return np.reshape(words, (rows, columns)) >= 2**30


def test_dropout_draws_the_stated_words_both_ways() -> None:
    for rows, columns in ((5, 70), (40, 3)):  # rows for warps, and points one by one
        x = RNG.standard_normal((columns, rows)).astype(np.float32).T
        keep = kept(rows, columns)
        y, *_ = ge2rt.launch("EPILOGUE", x, scale=2.0, device="cpu", **STREAM)
        assert np.array_equal(y, np.where(keep, 2 * x, 0))
        gx, gbias = np.zeros_like(x), np.zeros(columns, np.float32)
        ge2rt.launch(
            "EPILOGUE_BWD", x, out=(gx, None, gbias), scale=2.0, alpha=0.5, device="cpu", **STREAM
        )
        assert np.array_equal(gx, np.where(keep, x, 0))
        np.testing.assert_allclose(gbias, np.where(keep, 2 * x, 0).sum(0), rtol=1e-5, atol=1e-5)


# What curand() of cuRAND 10.3.10 gives after curand_init(seed, subsequence, offset): its header,
# compiled by NVRTC and run on the CPU device.
CURAND = {
    (81985529216486895, 4294967299, 17179869177): (
        999597523, 3124105208, 1683728062, 1937975960, 3488681108,
        1864788832, 1653813351, 562066227, 3641736491,
    ),
    (0, 1099511627777, 17179869190): (
        4257603317, 1995678715, 15816405, 1381364288, 2442597327,
        3221091951, 1035299960, 1774552010, 3089306983,
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", CURAND)
def test_dropout_draws_the_words_of_curand(place: tuple[int, int, int]) -> None:
    seed, subsequence, offset = place
    for p in (0.1, 0.25, 0.5, 0.75, 0.95):
        y = ge2rt.launch(
            "EPILOGUE", np.ones((3, 3), np.float32), None, None, None, dropout="philox", p=p,
            seed=seed, subsequence=subsequence, offset=offset,
        )  # fmt: skip
        first = y[0] if isinstance(y, tuple) else y
        wanted = [word >= p * 2**32 for word in CURAND[place]]
        np.testing.assert_array_equal(np.ravel(first) != 0, wanted)


def test_what_is_dropped_or_left_out_may_be_no_number() -> None:
    x, c = np.float32([[1, np.nan, np.inf]]), np.full((1, 3), np.nan, np.float32)
    mask = np.uint8([[2, 0, 0]])
    y, *_ = ge2rt.launch("EPILOGUE", x, None, c, mask, beta=0.0, dropout="mask", device="cpu")
    assert y.tolist() == [[1, 0, 0]]


def test_in_place_with_a_bias_a_row_and_what_act_was_applied_to() -> None:
    x = RNG.standard_normal((33, 20)).astype(np.float32)
    bias, former, z = RNG.standard_normal(33).astype(np.float32), x.copy(), np.zeros_like(x)
    ge2rt.launch(
        "EPILOGUE", x, bias, out=(x, z), act="relu", bias_kind="per_m", alpha=2.0, device="cpu"
    )
    np.testing.assert_allclose(z, 2 * former + bias[:, None], rtol=1e-6, atol=1e-6)
    assert np.array_equal(x, np.maximum(z, 0))


def test_the_gradient_of_a_bias_without_rows_is_0() -> None:
    gy, gbias = np.zeros((0, 5), np.float64), np.ones(5)
    ge2rt.launch("EPILOGUE_BWD", gy, out=(None, None, gbias), device="cpu")
    assert not gbias.any()


def test_what_does_not_fit_is_told() -> None:
    x = np.ones((4, 3), np.float32)
    for call, words in (
        (lambda: ge2rt.launch("EPILOGUE", x, dropout="mask"), "a mask goes with dropout 'mask'"),
        (lambda: ge2rt.launch("EPILOGUE", x, dropout="philox", p=1.0), "p must be below 1"),
        (lambda: ge2rt.launch("EPILOGUE", x, x[:, 0].copy()), "do not broadcast"),
        (lambda: ge2rt.launch("EPILOGUE_BWD", x, out=(x,), act="relu"), "an activation needs Z"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            call()
