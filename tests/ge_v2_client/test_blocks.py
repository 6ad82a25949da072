"""The extended blocks as clients send them: values against NumPy, codes for each broken rule."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import ge2rt
from ge2rt.device import registry
from ge_v2_client.arrays import address, floats
from ge_v2_client.native import Backward, Basic, Forward, call_with_block, load_native

M, N, K = 20, 24, 16
ACTS = ("none", "relu", "leaky_relu", "gelu", "sigmoid", "tanh")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("GE_NATIVE", "ge2rt.compat")
    ge2rt.clear_caches()
    yield
    for name in ("graph_executor", "graph_executor_v2", "ge2rt.compat"):
        sys.modules.pop(name, None)
    ge2rt.clear_caches()


def activated(z, act, slope):
    return {
        "none": z, "relu": np.maximum(z, 0), "leaky_relu": np.where(z > 0, z, slope * z),
        "gelu": 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
        "sigmoid": 1 / (1 + np.exp(-z)), "tanh": np.tanh(z),
    }[act]  # fmt: skip


def spread(array, lead):
    """The same rows, ``lead`` elements apart, between NaN."""
    memory = np.full((array.shape[0], lead), np.nan, array.dtype)
    memory[:, : array.shape[1]] = array
    return memory


def bias_of(kind):
    """A bias and the shape in which it is added."""
    bias = floats((1, M, N)[kind])
    return bias, bias.reshape(((1, 1), (M, 1), (1, N))[kind])


class Call:
    """One extended forward call and what it should give."""

    def __init__(self, *, c=False, bias=None, act=0, save=False, slope=0.2, alpha=1.0, beta=0.0,
                 pad=0):  # fmt: skip
        self.pad, self.alpha, self.beta, self.act, self.slope = pad, alpha, beta, act, slope
        a, b, old = floats(M, K), floats(K, N), floats(M, N)
        z = (alpha or 1.0) * (a.astype(float) @ b) + (beta * old if c else 0)
        vector, broad = bias_of(bias) if bias is not None else (None, 0)
        self.z = z + broad
        self.y = activated(self.z, ACTS[act], slope)
        lead = {"lda": K + pad, "ldb": N + pad, "ldc": N + pad, "ldd": N + pad} if pad else {}
        self.d, self.saved = (np.full((M, N + pad), np.nan, np.float32) for _ in range(2))
        self.block = Forward(
            M, N, K, alpha=alpha, beta=beta, use_C=c, has_bias=bias is not None,
            bias_kind=bias or 0, act_kind=act, leaky_slope=slope, save_preact=save, **lead,
        )  # fmt: skip
        held = [spread(a, K + pad), spread(b, N + pad)]
        held += [spread(old, N + pad)] if c else []
        held += [self.d] + ([vector] if vector is not None else []) + ([self.saved] if save else [])
        self.held, self.save = held, save

    def check(self, kernel="gemm_bias_act_f32_ex"):
        code = call_with_block(load_native(), kernel, [address(x) for x in self.held], self.block)
        assert code == 0, ge2rt.last_error()
        np.testing.assert_allclose(self.d[:, :N], self.y, rtol=1e-5, atol=1e-4)
        assert np.isnan(self.d[:, N:]).all()
        if self.save:
            np.testing.assert_allclose(self.saved[:, :N], self.z, rtol=1e-5, atol=1e-4)
            assert np.isnan(self.saved[:, N:]).all()


@pytest.mark.parametrize(
    ("kernel", "given"),
    [
        ("gemm_bias_act_f32_ex", {"c": True, "bias": 2, "act": 3, "save": True, "alpha": 0.5,
                                  "beta": -1.5, "pad": 3}),
        ("gemm_bias_act_ex", {"bias": 1, "act": 2}),
        ("gemm_bias_act_ex", {"bias": 0, "act": 5, "save": True}),
        ("gemm_bias_act_ex", {"c": True, "act": 4, "beta": 2.0}),
    ],
)  # fmt: skip
def test_forward(kernel, given):
    Call(**given).check(kernel)


def test_6_a_zeroed_alpha_means_1_and_beta_0_does_not_read_c():
    call = Call(c=True, alpha=0.0, beta=0.0)
    call.held[2][...] = np.nan
    call.check()


def gradients(a, b, g_y, z, *, act, slope, alpha, beta, kind):
    """What the backward should give, the derivative by central differences."""
    step = 1e-6
    z = z.astype(float)
    slopes = (
        activated(z + step, act, slope) - activated(z - step, act, slope)
    ) / (2 * step)  # fmt: skip
    g = g_y * slopes
    bias = (g.sum().reshape(1), g.sum(axis=1), g.sum(axis=0))[kind]
    return alpha * g @ b.T, alpha * a.T.astype(float) @ g, beta * g, bias


@pytest.mark.parametrize(
    ("kernel", "kind", "act", "absent", "pad"),
    [
        ("gemm_bias_act_bwd_f32_ex", 2, 3, (), 2),
        ("gemm_bias_act_bwd", 1, 2, ("gB",), 0),
        ("gemm_bias_act_bwd", 0, 5, ("C", "gA", "gB", "gC"), 0),
    ],
)
def test_backward(kernel, kind, act, absent, pad):
    a, b, g_y, z = floats(M, K), floats(K, N), floats(M, N), floats(M, N)
    settings = {"alpha": -0.5, "beta": 0.75, "slope": 0.3}
    right = gradients(a, b, g_y, z, act=ACTS[act], kind=kind, **settings)
    outputs = {
        name: np.full((*value.shape[:-1], value.shape[-1] + pad * (value.ndim - 1)), np.nan, "f4")
        for name, value in zip(("gA", "gB", "gC", "gBias"), right, strict=True)
    }
    block = Backward(
        M, N, K, *(K + pad, *[N + pad] * 4, K + pad, N + pad, N + pad), alpha=-0.5, beta=0.75,
        bias_kind=kind, act_kind=act, leaky_slope=0.3,
    )  # fmt: skip
    wide = {"A": spread(a, K + pad), "B": spread(b, N + pad), "C": spread(z, N + pad),
            "gY": spread(g_y, N + pad), "Z": spread(z, N + pad), **outputs}  # fmt: skip
    call = [0 if name in absent else address(array) for name, array in wide.items()]
    assert call_with_block(load_native(), kernel, call, block) == 0, ge2rt.last_error()
    for (name, got), expected in zip(outputs.items(), right, strict=True):
        if name in absent:
            assert np.isnan(got).all(), name
        else:
            part = got[..., : expected.shape[-1]]
            np.testing.assert_allclose(part, expected, rtol=1e-4, atol=1e-4, err_msg=name)
            assert np.isnan(got[..., expected.shape[-1] :]).all(), name


def test_6_alpha_is_literal_in_the_backward():
    a, b, g_y = floats(M, K), floats(K, N), floats(M, N)
    g_a, g_bias = np.full((M, K), np.nan, np.float32), np.full(N, np.nan, np.float32)
    block = Backward(M, N, K, ldZ=N, alpha=0.0, bias_kind=2)
    call = [address(a), address(b), 0, address(g_y), 0, address(g_a), 0, 0, address(g_bias)]
    assert call_with_block(load_native(), "gemm_bias_act_bwd", call, block) == 0
    assert not g_a.any()
    np.testing.assert_allclose(g_bias, g_y.sum(axis=0), rtol=1e-4, atol=1e-5)


def forward(**fields):
    return Forward(M, N, K, **{"alpha": 1.0, **fields})


HERE = floats(64)
P = address(HERE)


@pytest.mark.parametrize(
    ("kernel", "pointers", "block"),
    [
        ("gemm_bias_act_f32_ex", [P, P], forward()),  # too few
        ("gemm_bias_act_f32_ex", [P] * 3, forward(use_C=1)),
        ("gemm_bias_act_f32_ex", [P] * 3, forward(has_bias=1)),
        ("gemm_bias_act_f32_ex", [P] * 4, forward()),  # too many
        ("gemm_bias_act_f32_ex", [P, 0, P], forward()),  # a required pointer is missing
        ("gemm_bias_act_f32_ex", [P, P, 0], forward()),
        ("gemm_bias_act_f32_ex", [P, P, 0, P], forward(use_C=1)),
        ("gemm_bias_act_f32_ex", [P, P, P, 0], forward(save_preact=1)),
        ("gemm_bias_act_f32_ex", [P, P, P + 1], forward()),  # misaligned
        ("gemm_bias_act_f32_ex", [P, P, P], forward(act_kind=6)),  # no such code
        ("gemm_bias_act_f32_ex", [P, P, P, P], forward(has_bias=1, bias_kind=3)),
        ("gemm_bias_act_f32_ex", [P, P, P], forward(lda=K - 1)),  # rows overlap
        ("gemm_bias_act_f32_ex", [P, P, P], Forward(-1, N, K)),
        ("gemm_bias_act_bwd", [P] * 8, Backward(M, N, K, ldZ=N)),  # the slots are fixed
        ("gemm_bias_act_bwd", [P, P, 0, 0, P, P, 0, 0, 0], Backward(M, N, K, ldZ=N)),  # no gY
        ("gemm_bias_act_bwd", [P, P, 0, P, 0, P, 0, 0, 0], Backward(M, N, K, act_kind=1)),  # no Z
        ("gemm_bias_act_f32", [P, P], Basic(M, N, K, 0, 0)),
        ("gemm_bias_act_f32", [P, P, 0, P], Basic(M, N, K, 1, 0)),
        ("gemm_bias_act_f33", [P, P, P], Basic(M, N, K, 0, 0)),  # unknown kernel
    ],
)
def test_minus_1_for_each_broken_rule(kernel, pointers, block):
    before = HERE.copy()
    assert call_with_block(load_native(), kernel, pointers, block) == -1
    record = ge2rt.last_error()
    assert record.code == -1
    assert record.kernel == kernel or record.kernel in kernel + "_f32_ex"
    np.testing.assert_array_equal(HERE, before)


def test_minus_3_for_what_the_device_has_not(monkeypatch):
    """Tensor cores of the second generation, which this kernel wants."""
    monkeypatch.setenv("GE2RT_CPU_ARCH", "sm_75")
    monkeypatch.setattr(registry, "_devices", {})  # as in a new process
    ge2rt.clear_caches()
    a = floats(M, M, dtype=np.float16)
    block = Basic(M, M, M, 0, 0)
    call = [address(a), address(a), address(a.copy())]
    assert call_with_block(load_native(), "gemm_bias_act_tc_f16", call, block) == -3
    assert "cc >= 8.0" in str(ge2rt.last_error())
