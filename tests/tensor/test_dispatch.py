"""The layers of a call: what answers, what is told, operators and devices from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ge2rt
import ge2rt.nn.functional as F
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from ge2rt.tensors import dispatch

RNG = np.random.default_rng(2)


def leaf(*shape: int) -> Any:
    return ge2rt.tensor(RNG.standard_normal(shape).astype(np.float32), requires_grad=True)


def near(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)


class Odd(ge2rt.Tensor):
    layout = "odd"


def test_explain_tells_each_layer() -> None:
    x, w = ge2rt.ones(2, 3), ge2rt.ones(3, 2, requires_grad=True)
    told = str(dispatch.explain("matmul", x, w))
    assert "matmul(a, b): np.matmul (products)" in told
    assert "recorded, for operands 1" in told
    assert "strided on cpu: ge2rt.tensors.dispatch.dense" in told
    assert "f32[2, 3], f32[3, 2]" in told
    assert "kernel" in told
    assert "Did you mean 'matmul'?" in str(dispatch.explain("matmull", x))
    x = Odd(x.array)
    told = str(dispatch.explain("add", x, x))
    assert "add has no implementation for odd tensors on cpu" in told
    assert "strided on cpu, strided on cuda" in told
    with pytest.raises(UnsupportedError, match="no implementation for odd tensors"):
        x + x


def test_a_type_that_answers_for_itself() -> None:
    class Noted:
        def __init__(self, value: Any) -> None:
            self.value, self.requires_grad = value, False

        def __ge2rt_function__(self, op: Any, args: Any, options: Any) -> Any:
            if op.name == "exp":
                return NotImplemented
            plain = [a.value if isinstance(a, Noted) else a for a in args]
            return Noted((op.name, dispatch.call(op, plain, options)))

    x = Noted(ge2rt.ones(2))
    name, value = (ge2rt.ones(2) + x).value
    assert name == "add"
    assert value.tolist() == [2, 2]
    assert ge2rt.ops.sum(x, axis=0).value[1].item() == 2


def test_an_operator_registered_for_one_layout() -> None:
    def by_hand(op: Any, args: Any, options: Any) -> Any:
        return "by hand"

    dispatch.register("cpu", "odd", "add")(by_hand)
    try:
        x = Odd(np.ones(2, np.float32))
        assert x + x == "by hand"
        with pytest.raises(UnsupportedError, match="subtract has no implementation"):
            x - x
    finally:
        del dispatch.BACKENDS["cpu", "odd"]


def test_tensors_on_two_devices_are_refused() -> None:
    x, y = ge2rt.ones(2), ge2rt.ones(2)
    y._device = ge2rt.get_device("null")
    with pytest.raises(InvalidTypeError, match="different devices"):
        x + y


def test_shipped_kernels_as_operators_with_their_gradients() -> None:
    conv = ge2rt.kernel_operator("CONV2D")
    x, w, b = leaf(2, 3, 6, 5), leaf(4, 3, 3, 3), leaf(4)
    g = ge2rt.tensor(RNG.standard_normal((2, 4, 6, 5)).astype(np.float32))
    y = conv(x, w, b, pad=[1])
    near(y, F.conv2d(x, w, b, padding=1))
    y.backward(g)
    got = [v.grad for v in (x, w, b)]
    for v in (x, w, b):
        v.grad = None
    F.conv2d(x, w, b, padding=1).backward(g)
    for one, v in zip(got, (x, w, b), strict=True):
        near(one, v.grad)
    y = conv(x.detach(), w, pad=[1])  # one gradient only
    y.backward(g)
    assert y.history[0].name == "CONV2D"


def test_an_op_type_is_chosen_by_the_outputs_that_are_wanted() -> None:
    gy, x, w = (RNG.standard_normal(s).astype(np.float32)
                for s in ((1, 2, 4, 4), (1, 3, 6, 6), (2, 3, 3, 3)))  # fmt: skip
    gx = np.empty_like(x)
    found = ge2rt.launch("CONV2D_BWD", gy, x, w, out=(gx, None, None))
    assert found[0] is gx
    want = np.empty_like(x)
    ge2rt.launch("conv2d_bwd", gy, x, w, out=(want, None, None))
    np.testing.assert_array_equal(gx, want)


def test_attention_by_its_kernel() -> None:
    q, k, v = leaf(2, 5, 8), leaf(2, 6, 8), leaf(2, 6, 4)
    sdpa = ge2rt.kernel_operator("SDPA")
    y = sdpa(q, k, v)
    near(y, F.scaled_dot_product_attention(q, k, v))
    y.sum().backward()
    got = q.grad
    q.grad = None
    F.scaled_dot_product_attention(q, k, v).sum().backward()
    near(got, q.grad)


YAML = """
api_version: 1
kernels:
  - name: user_cube
    op: USER_CUBE
    template: user_cube.cu.j2
    score: 10
    types: {T: [f32, f64]}
    inputs: [{name: X, dtype: T, shape: ["*S"]}]
    outputs: [{name: Y, dtype: T, shape: ["*S"]}]
    attrs: {scale: {type: float, default: 1.0}}
    launch: {grid: ["ceildiv(size(X), 128)"], block: [128]}
    reference: "scale * X * X * X"
    tolerance: {f32: {rtol: 1.0e-5, atol: 1.0e-6}, f64: {rtol: 1.0e-12, atol: 0}}
    backward: USER_CUBE_BWD
  - name: user_cube_bwd
    op: USER_CUBE_BWD
    template: user_cube_bwd.cu.j2
    score: 10
    types: {T: [f32, f64]}
    inputs: [{name: X, dtype: T, shape: ["*S"]}, {name: gY, dtype: T, shape: ["*S"]}]
    outputs: [{name: gX, dtype: T, shape: ["*S"]}]
    attrs: {scale: {type: float, default: 1.0}}
    launch: {grid: ["ceildiv(size(X), 128)"], block: [128]}
    reference: "3 * scale * X * X * gY"
    tolerance: {f32: {rtol: 1.0e-5, atol: 1.0e-6}, f64: {rtol: 1.0e-12, atol: 0}}
"""
CODE = """
{{{{ headers }}}}
extern "C" __global__ void {{{{ kernel }}}}({{{{ params }}}}) {{
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < {{{{ X.size }}}}) {line};
}}
"""


def test_a_kernel_of_ones_own_by_yaml_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(YAML)
    lines = {"user_cube": "Y[i] = {{ scale }} * X[i] * X[i] * X[i]",
             "user_cube_bwd": "gX[i] = 3 * {{ scale }} * X[i] * X[i] * gY[i]"}  # fmt: skip
    for name, line in lines.items():
        (tmp_path / f"{name}.cu.j2").write_text(CODE.format(line=line))
    ge2rt.load_registry(tmp_path / "mine.yaml")
    cube = ge2rt.kernel_operator("USER_CUBE")
    x = leaf(3, 4)
    y = (cube(x * 2.0, scale=0.5) + x).sum()
    y.backward()
    values = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), 12 * values**2 + 1, rtol=1e-4)
    with pytest.raises(InvalidArgumentError, match="no attribute 'scal'"):
        cube(x, scal=1)


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Did you mean 'CONV2D'"):
        ge2rt.kernel_operator("CONV3D")
    copy = ge2rt.kernel_operator("SORT")
    with pytest.raises(UnsupportedError, match="has no gradient"):
        copy(leaf(3)).sum().backward()
