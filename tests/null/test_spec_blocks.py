"""Parameter blocks of legacy clients: layouts, defaults, orders, refusals."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import pytest
from spec_files import GEMM, one_kernel, write_file

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.spec.blocks import BLOCKS, block_to_call, read_block
from ge2rt.spec.descs import desc_of
from ge2rt.spec.model import KernelSpec
from ge2rt.spec.registry import Registry

_C_FORMATS = {
    "gemm_basic": "5i", "gemm_forward_ex": "7i2f4if2i", "gemm_backward_ex": "11i2f2if",
}  # fmt: skip
_kept: list[Any] = []  # the memory of the blocks, alive for the whole module


def put(name: str, **fields: Any) -> int:
    """The address of a block; fields that are not named are 0."""
    order = [f.partition(":")[0] for f in BLOCKS[name].split()]
    values = [fields.pop(f, 0) for f in order]
    assert not fields
    buffer = ctypes.create_string_buffer(struct.pack(_C_FORMATS[name], *values))
    _kept.append(buffer)
    return ctypes.addressof(buffer)


@pytest.fixture
def gemm(tmp_path: Path) -> KernelSpec:
    registry = Registry()
    registry.add_file(write_file(tmp_path, GEMM.replace("{T: [f32, f16]}", "{T: [f16, f32]}")))
    return registry.get("gemm")


@pytest.fixture
def extended(tmp_path: Path) -> KernelSpec:
    return one_kernel(
        tmp_path,
        inputs="[{name: A, dtype: f32, shape: [M, K]}, {name: B, dtype: f32, shape: [K, N]},"
        " {name: C, dtype: f32, shape: [M, N], optional: true},"
        " {name: bias, dtype: f32, shape: ['*P'], optional: true}]",
        outputs="[{name: D, dtype: f32, shape: [M, N]},"
        " {name: Z, dtype: f32, shape: [M, N], optional: true}]",
        attrs="{alpha: {default: 1.0}, beta: {default: 0.0}, leaky_slope: {default: 0.01},"
        " act: {choices: [none, relu, leaky_relu, gelu, sigmoid, tanh], default: none},"
        " bias_kind: {choices: [scalar, per_m, per_n], default: per_n}}",
        param_block="gemm_forward_ex",
    )


def test_the_basic_block(gemm: KernelSpec) -> None:
    block = put("gemm_basic", M=4, N=6, K=5, has_bias=1, act=1)
    call = block_to_call(gemm, [16, 32, 48, 64, block], "cuda")
    assert call.descs == (
        desc_of((4, 5), "f16", device="cuda"), desc_of((5, 6), "f16", device="cuda"),
        desc_of((6,), "f32", device="cuda"), desc_of((4, 6), "f16", device="cuda"),
    )  # fmt: skip
    assert call.attrs == {"act": "relu"}
    assert call.pointers == [16, 32, 48, 64]


@pytest.mark.parametrize("buffers", [[16, 32, 64], [16, 32, None, 64], [16, 32, 0, 64]])
def test_without_a_bias(gemm: KernelSpec, buffers: list[Any]) -> None:
    block = put("gemm_basic", M=4, N=6, K=5)
    call = block_to_call(gemm, [*buffers, block])
    assert [d is None for d in call.descs] == [False, False, True, False]
    assert call.pointers == [16, 32, 64]
    assert call.attrs == {"act": "none"}


def test_the_block_is_copied(gemm: KernelSpec) -> None:
    address = put("gemm_basic", M=4, N=6, K=5)
    block = read_block("gemm_basic", address)
    ctypes.memset(address, 0, 20)
    assert block == {"M": 4, "N": 6, "K": 5, "has_bias": 0, "act": 0}


def test_the_extended_forward(extended: KernelSpec) -> None:
    block = put(
        "gemm_forward_ex", M=4, N=6, K=5, lda=8, ldd=7, beta=0.5, use_C=1, has_bias=1, bias_kind=1,
        act_kind=2, leaky_slope=0.25, save_preact=1,
    )  # fmt: skip
    call = block_to_call(extended, [1, 2, 3, 4, 5, 6, block])
    # the block's order is A B C D bias Z, ours is A B C bias D Z
    assert call.pointers == [1, 2, 3, 5, 4, 6]
    assert [d.shape for d in call.descs if d] == [(4, 5), (5, 6), (4, 6), (4,), (4, 6), (4, 6)]
    assert [d.strides for d in call.descs if d] == [(8, 1), (6, 1), (6, 1), (1,), (7, 1), (7, 1)]
    assert call.attrs == {
        "alpha": 1.0, "beta": 0.5, "leaky_slope": 0.25, "act": "leaky_relu", "bias_kind": "per_m",
    }  # fmt: skip


def test_bias_kinds(extended: KernelSpec) -> None:
    for kind, extent in enumerate((1, 4, 6)):
        block = put("gemm_forward_ex", M=4, N=6, K=5, has_bias=1, bias_kind=kind)
        call = block_to_call(extended, [1, 2, 4, 5, block])
        assert call.descs[3] == desc_of((extent,), "f32")
        assert call.pointers == [1, 2, 5, 4]


def test_the_extended_backward(tmp_path: Path) -> None:
    kernel = one_kernel(
        tmp_path,
        inputs="[{name: A, dtype: f32, shape: [M, K]}, {name: B, dtype: f32, shape: [K, N]},"
        " {name: C, dtype: f32, shape: [M, N], optional: true},"
        " {name: gY, dtype: f32, shape: [M, N]}, {name: Z, dtype: f32, shape: [M, N]}]",
        outputs="[{name: gA, dtype: f32, shape: [M, K], optional: true},"
        " {name: gB, dtype: f32, shape: [K, N], optional: true},"
        " {name: gBias, dtype: f32, shape: ['*P'], optional: true}]",
        attrs="{alpha: {default: 1.0}, act: {choices: [none, relu], default: none}}",
        param_block="gemm_backward_ex",
    )
    block = put("gemm_backward_ex", M=4, N=6, K=5, alpha=0.0, ldZ=6, bias_kind=2, act_kind=1)
    call = block_to_call(kernel, [1, 2, 0, 4, 5, 6, 0, 0, 9, block])
    assert call.pointers == [1, 2, 4, 5, 6, 9]
    assert [d is None for d in call.descs] == [False, False, True, False, False, False, True, False]
    assert call.attrs == {"alpha": 0.0, "act": "relu"}  # alpha is literal here
    with pytest.raises(UnsupportedError, match="the kernel has no buffer gC"):
        block_to_call(kernel, [1, 2, 0, 4, 5, 6, 0, 8, 9, block])
    with pytest.raises(InvalidArgumentError, match="expected 9: A, B, C, gY"):
        block_to_call(kernel, [1, 2, 4, 5, block])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"M": -1, "N": 1, "K": 1}, "argument 'M': the parameter block cannot be used; expected at "
         "least 0, got -1"),
        ({"M": 1, "N": 1, "K": 1, "act": 7}, "argument 'act': the parameter block cannot be used; "
         "expected 0 none, 1 relu, got 7"),
        ({"M": 1, "N": 1, "K": 1, "has_bias": 1}, "expected 4: A, B, bias, D, and the block, got "
         "3"),
    ],
)  # fmt: skip
def test_bad_blocks(gemm: KernelSpec, fields: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        block_to_call(gemm, [16, 32, 64, put("gemm_basic", **fields)])
    assert message in str(caught.value)


def test_bad_leading_dimension_and_kind(extended: KernelSpec) -> None:
    for fields, text in [
        ({"lda": 3}, "expected at least 5, got 3"),
        ({"bias_kind": 3}, "0 scalar"),
    ]:
        block = put("gemm_forward_ex", M=4, N=6, K=5, has_bias=1, **fields)
        with pytest.raises(InvalidArgumentError, match=text):
            block_to_call(extended, [1, 2, 4, 5, block])


@pytest.mark.parametrize("address", [0, -4, 3, None, True, "x", 1.5])
def test_bad_addresses(address: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="parameter block"):
        read_block("gemm_basic", address)


@pytest.mark.parametrize("buffers", [[], ["x", 1, 2, 3], [True, 1, 2, 3]])
def test_bad_pointers(gemm: KernelSpec, buffers: list[Any]) -> None:
    block = [put("gemm_basic", M=1, N=1, K=1)] if buffers else []
    with pytest.raises(InvalidArgumentError, match="argument 'buffers'"):
        block_to_call(gemm, [*buffers, *block])


def test_an_attribute_the_kernel_has_not(tmp_path: Path) -> None:
    text = GEMM.replace("choices: [none, relu], default: none", "default: none")
    text = text.replace("act: {default", "other: {default").replace('"act(A', '"(A')
    registry = Registry()
    registry.add_file(write_file(tmp_path, text))
    block = put("gemm_basic", M=1, N=1, K=1, act=1)
    with pytest.raises(UnsupportedError, match="the kernel has no attribute act; got act = relu"):
        block_to_call(registry.get("gemm"), [16, 32, 64, block])
