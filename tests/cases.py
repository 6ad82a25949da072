"""The one table of cases: traps by name, and the cases that follow from each declaration."""

from __future__ import annotations

from functools import cache
from typing import Any

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.shapes import canonical_strides, contiguous_strides
from ge2rt.run.cases import Case, cases_for
from ge2rt.spec.match import infer_outputs
from ge2rt.spec.model import BufferDesc, KernelSpec
from ge2rt.spec.registry import default_registry

# kernel, input shapes, types, attributes, layouts (in the order of the buffers; "" is contiguous)
Row = tuple[str, tuple[tuple[int, ...] | None, ...], dict[str, str], dict[str, Any], str]

GEMM, TC = "gemm_bias_act_f32", "gemm_bias_act_tc_f16"
HEADS = "attention"
HALF, WIDE = {"TB": "f16", "TD": "f16"}, {"TB": "f32", "TD": "f32"}
TRAPS: tuple[Row, ...] = (
    ("copy", ((2, 2),), {"T": "f32"}, {}, "transposed -"),
    ("copy", ((100, 70),), {"T": "f16"}, {}, "transposed -"),
    ("copy", ((3, 64, 128),), {"T": "u8"}, {}, "- transposed"),
    ("copy", ((40, 5, 33),), {"T": "f64"}, {}, "transposed -"),
    ("copy", ((2, 5),), {"T": "i64"}, {}, "sliced -"),
    ("copy", ((1, 77),), {"T": "bf16"}, {}, "transposed transposed"),
    ("copy", ((70000,),), {"T": "u8"}, {}, "offset -"),
    ("copy", ((3, 40000),), {"T": "f32"}, {}, "- negative"),
    ("copy", ((300, 5, 3),), {"T": "f64"}, {}, "transposed sliced"),
    ("elementwise_unary", ((65536,),), {"T": "f32"}, {"op": "gelu"}, "- X"),
    ("elementwise_unary", ((257, 19),), {"T": "i8"}, {"op": "neg"}, "broadcast -"),
    ("elementwise_unary", ((1000,),), {"T": "u8"}, {"op": "clip", "clip_min": 3.0}, "- -"),
    ("elementwise_binary", ((100,), (100,)), {"T": "i8"}, {"op": "floordiv"}, "- - -"),
    ("elementwise_binary", ((100,), (100,)), {"T": "i64"}, {"op": "mod"}, "- negative -"),
    ("elementwise_binary", ((100,), (100,)), {"T": "u8"}, {"op": "add"}, "- - A"),
    ("elementwise_binary", ((60, 1), (1, 70)), {"T": "f32"}, {"op": "floordiv"}, "- sliced -"),
    ("elementwise_binary", ((60, 70), (70,)), {"T": "f16"}, {"op": "mod"}, "transposed - -"),
    ("elementwise_binary", ((), (4, 1, 3)), {"T": "i32"}, {"op": "pow"}, "- - -"),
    (GEMM, ((1, 1), (1, 1), (1,)), {}, {"act": "relu"}, "- - - -"),
    (GEMM, ((65, 0), (0, 3), (3,)), {}, {"act": "sigmoid"}, "- - - -"),
    (GEMM, ((129, 66), (66, 131), None), {}, {}, "transposed transposed - -"),
    (GEMM, ((70, 64), (64, 40), (70,)), {}, {"bias_kind": "per_m"}, "- - - transposed"),
    (GEMM, ((70, 64), (64, 40), (40,)), {}, {"act": "leaky_relu"}, "- - sliced -"),
    (GEMM, ((70, 64), (64, 40), (70, 1)), {}, {"act": "tanh"}, "- transposed - -"),
    (GEMM, ((192, 96), (96, 128), ()), {}, {"bias_kind": "scalar"}, "negative - - -"),
    (TC, ((128, 64), (64, 128), (128,)), {**WIDE, "TD": "f16"}, {}, "- - - -"),
    (TC, ((128, 64), (64, 128), None), WIDE, {}, "transposed transposed - -"),
    (TC, ((70, 64), (64, 40), (70,)), HALF, {"bias_kind": "per_m"}, "- - - -"),
    (TC, ((3, 7), (7, 5), (5,)), HALF, {"act": "gelu"}, "sliced offset - sliced"),
    ("reduce", ((100_003,),), {"T": "f32"}, {"op": "sum"}, "- -"),
    ("reduce", ((70_000, 3),), {"T": "f32"}, {"op": "mean", "axes": (0,)}, "- -"),
    ("reduce", ((3, 70, 40, 2),), {"T": "f16"}, {"op": "max", "axes": (0, 2)}, "sliced -"),
    ("reduce", ((4, 0),), {"T": "f32"}, {"op": "prod", "axes": (1,)}, "- -"),
    ("reduce_int", ((256,),), {"T": "bool"}, {"op": "sum"}, "- -"),
    ("reduce_uint", ((300, 70),), {"T": "u8"}, {"op": "sum", "axes": (1,)}, "transposed -"),
    ("reduce_extreme", ((64, 64),), {"T": "i64"}, {"op": "min", "axes": (0,)}, "- -"),
    ("reduce_arg", ((9, 5000),), {"T": "u8"}, {"op": "argmax", "axes": (1,)}, "- -"),
    ("reduce_arg", ((9, 50, 20),), {"T": "f32"}, {"op": "argmin", "axes": (0, 1)}, "negative -"),
    ("softmax", ((17, 3000), None), {"T": "f32"}, {}, "- - -"),
    ("softmax", ((300, 20, 300), None), {"T": "f32"}, {"axis": 0}, "- - X"),
    ("softmax", ((40, 1024), (1, 1024)), {"T": "f16"}, {"log": True, "scale": 30.0}, "- - -"),
    ("layernorm", ((5, 9000), (9000,), None), {"T": "f32"}, {}, "- - - -"),
    ("layernorm", ((700, 1), None, None), {"T": "f32"}, {}, "transposed - - -"),
    ("rmsnorm", ((3, 4, 1025), (1025,), (1025,)), {"T": "bf16"}, {"eps": 0.0}, "- sliced - X"),
    (HEADS, (*[(3, 130, 64)] * 3, None), {"T": "f32"}, {"causal": True, "scale": 0.125},
     "- - - - -"),
    (HEADS, ((2, 1, 64), *[(2, 300, 64)] * 2, (1, 1, 300)), {"T": "f16", "TM": "bool"}, {},
     "- - transposed - -"),
    (HEADS, ((5, 9), (70, 9), (70, 200), (5, 1)), {"T": "bf16", "TM": "f32"}, {},
     "- sliced - - transposed"),
    ("scan", ((3, 70_001),), {"T": "f32"}, {"op": "cumsum"}, "- -"),
    ("scan", ((300, 40),), {"T": "i16"}, {"op": "cumprod", "axis": 0}, "negative X"),
    ("sort", ((2, 13_000),), {"T": "f32"}, {}, "- -"),
    ("sort", ((100, 7),), {"T": "u8"}, {"axis": 0}, "- transposed"),
    ("argsort", ((2, 7001),), {"T": "bf16"}, {}, "sliced -"),
)  # fmt: skip


def dense(shape: tuple[int, ...], dtype: str) -> BufferDesc:
    """A row-major descriptor."""
    return BufferDesc(shape, DTYPES[dtype], canonical_strides(shape, contiguous_strides(shape)))


def trap(row: Row, seed: int = 0) -> Case:
    """The case of one row."""
    name, shapes, types, attrs, layouts = row
    kernel = default_registry().get(name)
    inputs = [None if s is None else dense(s, types.get(b.dtype, b.dtype))
              for s, b in zip(shapes, kernel.inputs, strict=True)]  # fmt: skip
    outputs = infer_outputs(kernel, inputs, attrs)
    pairs = list(zip(kernel.buffers, [*inputs, *outputs], strict=True))
    words = dict(zip((b.name for b in kernel.buffers), layouts.split(), strict=True))
    return Case(
        kernel, {}, types, attrs,
        {b.name: words[b.name].replace("-", "contiguous") for b, d in pairs if d},
        seed, {b.name: d.shape for b, d in pairs if d},
    )  # fmt: skip


@cache
def all_cases(full: bool = False) -> tuple[Case, ...]:
    """Every trap and every case of every shipped kernel."""
    found = [trap(row, seed) for seed, row in enumerate(TRAPS)]
    for kernel in shipped():
        found += cases_for(kernel, full)
    return tuple(found)


def shipped() -> list[KernelSpec]:
    """The kernels of kernels.yaml."""
    registry = default_registry()
    return [registry.get(name) for name in registry.names()]
