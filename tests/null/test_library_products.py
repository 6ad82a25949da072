"""Meanings of products with epilogues and of their gradients, against independent statements."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ge2rt.spec.library.norms import philox4x32
from ge2rt.spec.library.products import epilogue, epilogue_bwd, gemm, gemm_bwd

RNG = np.random.default_rng(3)
ACTS = {
    "none": lambda z: z,
    "relu": lambda z: max(z, 0.0),
    "relu_where": lambda z: z if z > 0 else 0.0,
    "leaky_relu": lambda z: z if z > 0 else 0.2 * z,
    "gelu": lambda z: 0.5 * z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    "gelu_erf": lambda z: z * 0.5 * (1 + math.erf(z / math.sqrt(2))),
    "silu": lambda z: z / (1 + math.exp(-z)),
    "sigmoid": lambda z: 1 / (1 + math.exp(-z)),
    "tanh": math.tanh,
}
KINDS = {"scalar": (1,), "per_m": (3,), "per_n": (4,)}


def settings(act="none", kind="per_n", *, trans_a=False, trans_b=False, alpha=1.0, beta=1.0):
    return act, kind, 0.2, trans_a, trans_b, alpha, beta


def operands(kind, *, trans_a=False, trans_b=False):
    a, b = RNG.standard_normal((3, 5)), RNG.standard_normal((5, 4))
    return (
        a.T.copy() if trans_a else a, b.T.copy() if trans_b else b,
        RNG.standard_normal(KINDS[kind]), RNG.standard_normal((3, 4)),
    )  # fmt: skip


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, False), (True, False), (True, True)])
def test_gemm_element_by_element(act, kind, trans_a, trans_b):
    a, b, bias, c = operands(kind, trans_a=trans_a, trans_b=trans_b)
    given = settings(act, kind, trans_a=trans_a, trans_b=trans_b, alpha=1.5, beta=-0.5)
    y, z = gemm(a, b, bias, c, *given)
    for m in range(3):
        for n in range(4):
            total = sum(
                (a[k, m] if trans_a else a[m, k]) * (b[n, k] if trans_b else b[k, n])
                for k in range(5)
            )
            expected = 1.5 * total - 0.5 * c[m, n] + bias[{"scalar": 0, "per_m": m}.get(kind, n)]
            assert math.isclose(z[m, n], expected, rel_tol=1e-12, abs_tol=1e-12)
            assert math.isclose(y[m, n], ACTS[act](expected), rel_tol=1e-12, abs_tol=1e-12)


def test_gemm_without_the_optional_parts():
    a, b, _, c = operands("per_n")
    y, z = gemm(a, b, None, None, *settings())
    np.testing.assert_allclose(y, a @ b)
    np.testing.assert_array_equal(y, z)
    unread = np.full_like(c, np.nan)
    np.testing.assert_array_equal(gemm(a, b, None, unread, *settings(beta=0.0))[0], y)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, True), (True, False)])
def test_gemm_gradients_are_central_differences(act, kind, trans_a, trans_b):
    args = operands(kind, trans_a=trans_a, trans_b=trans_b)
    given = settings(act, kind, trans_a=trans_a, trans_b=trans_b, alpha=0.75, beta=-1.25)
    a, b, _, _ = args
    g_y, z = RNG.standard_normal((3, 4)), gemm(*args, *given)[1]
    g_a, g_b, g_c, g_bias = gemm_bwd(a, b, g_y, z, *given)
    step = 1e-6
    for gradient, index in ((g_a, 0), (g_b, 1), (g_bias, 2), (g_c, 3)):
        assert gradient.shape == args[index].shape
        for place in np.ndindex(gradient.shape):
            moved = []
            for sign in (1, -1):
                near = [x.copy() for x in args]
                near[index][place] += sign * step
                moved.append((gemm(*near, *given)[0] * g_y).sum())
            difference = (moved[0] - moved[1]) / (2 * step)
            assert math.isclose(gradient[place], difference, rel_tol=1e-5, abs_tol=1e-7)


def test_the_gradient_at_the_kink_of_relu_is_0():
    zero = np.zeros((1, 1))
    assert gemm_bwd(zero, zero, zero + 1, zero, *settings("relu"))[2] == 0


def test_gradients_of_nothing():
    a, b = np.zeros((0, 5)), np.zeros((5, 4))
    g_a, g_b, g_c, g_bias = gemm_bwd(a, b, np.zeros((0, 4)), None, *settings())
    assert (g_a.shape, g_c.shape) == ((0, 5), (0, 4))
    assert not g_b.any()
    assert g_bias.tolist() == [0, 0, 0, 0]


NO_DROPOUT = ("none", 0.0, 0, 0, 0)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", KINDS)
def test_epilogue_element_by_element(act, kind):
    x, c, mask = RNG.standard_normal((3, 3, 4))
    bias = RNG.standard_normal(KINDS[kind])
    y, z = epilogue(x, bias, c, mask, act, kind, 0.2, 1.5, -0.5, 3.0, "mask", *NO_DROPOUT[1:])
    for m, n in np.ndindex(3, 4):
        expected = 1.5 * x[m, n] - 0.5 * c[m, n] + bias[{"scalar": 0, "per_m": m}.get(kind, n)]
        assert math.isclose(z[m, n], expected, rel_tol=1e-12, abs_tol=1e-12)
        kept = 3.0 * mask[m, n] * ACTS[act](expected)
        assert math.isclose(y[m, n], kept, rel_tol=1e-12, abs_tol=1e-12)


def test_epilogue_without_the_optional_parts():
    x, c = RNG.standard_normal((2, 3, 4))
    plain = ("none", "per_n", 0.0, 1.0, 0.0, 1.0, *NO_DROPOUT)
    for given in (None, np.full_like(c, np.nan)):
        y, z = epilogue(x, None, given, None, *plain)
        assert np.array_equal(y, x)
        assert np.array_equal(z, x)


def test_epilogue_drops_by_a_mask_of_integers_or_by_the_stream():
    x = np.array([[1.0, np.nan, 2.0, 3.0, 4.0]])
    plain = ("none", "per_n", 0.0, 1.0, 1.0, 2.0)
    mask = np.array([[1, 0, 255, 0, 1]], np.uint8)
    dropped, _ = epilogue(x, None, None, mask, *plain, "mask", *NO_DROPOUT[1:])
    assert dropped.tolist() == [[2, 0, 4, 0, 8]]
    x, high = np.ones((2, 5)), 2**33 + 7
    got, _ = epilogue(x, None, None, None, *plain, "philox", 0.5, 2**32 + 5, high, 4 * high + 3)
    words = philox4x32(np.array([[7 + i, 2, 7, 2] for i in range(4)]), (5, 1)).ravel()[3:13]
    assert got.ravel().tolist() == [2 * (int(word) >= 2**31) for word in words]
    back, _, _ = epilogue_bwd(x, None, None, *plain, "philox", 0.5, 2**32 + 5, high, 4 * high + 3)
    assert np.array_equal(back, got)
