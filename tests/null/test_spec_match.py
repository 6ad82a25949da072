"""Matching of calls: binding, refusals with their details, inferred outputs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_files import GEMM, one_kernel, write_file

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InvalidArgumentError, Status, UnsupportedError
from ge2rt.spec.descs import desc_of
from ge2rt.spec.match import (
    infer_outputs,
    match,
    match_all_reasons,
    overlaps_itself,
    refusal_error,
)
from ge2rt.spec.model import Bound, BufferDesc, KernelSpec, Refusal
from ge2rt.spec.registry import Registry


@dataclass(frozen=True)
class Gpu:
    kind: str = "cuda"
    cc: float = 8.0
    tensor_cores: bool = True


@pytest.fixture(scope="module")
def gemm(tmp_path_factory: pytest.TempPathFactory) -> KernelSpec:
    registry = Registry()
    registry.add_file(write_file(tmp_path_factory.mktemp("gemm"), GEMM))
    return registry.get("gemm")


def f32(*shape: int) -> BufferDesc:
    return desc_of(shape, "f32")


A, B, BIAS, D = f32(4, 5), f32(5, 6), f32(6), f32(4, 6)


def bound(result: Bound | Refusal) -> Bound:
    assert isinstance(result, Bound), result
    return result


def refused(result: Bound | Refusal) -> Refusal:
    assert isinstance(result, Refusal)
    return result


def test_everything_gets_its_value(gemm: KernelSpec) -> None:
    found = bound(match(gemm, [A, B, BIAS, D], {"act": "relu", "slope": 1}, Gpu()))
    assert found.descs == (A, B, BIAS, D)
    assert found.types == {"T": DTYPES["f32"]}
    assert found.attrs == {"act": "relu", "slope": 1.0, "level": 1, "fast": False, "axes": ()}
    names = dict(found.names)
    assert {n: names.pop(n) for n in ("A", "B", "bias", "D")} == {
        "A": A, "B": B, "bias": BIAS, "D": D,
    }  # fmt: skip
    assert names == {
        **found.attrs, "T": "f32", "M": 4, "K": 5, "N": 6, "MN": 24, "TWICE": 48,
    }  # fmt: skip
    assert found.desc("bias") == BIAS


def test_absent_optional_inputs(gemm: KernelSpec) -> None:
    assert bound(match(gemm, [A, B, D])).descs == (A, B, None, D)
    assert bound(match(gemm, [A, B, None, D])).descs == (A, B, None, D)


def test_optional_buffers_are_dropped_from_the_last(tmp_path: Path) -> None:
    kernel = one_kernel(
        tmp_path,
        inputs="[{name: X, dtype: T, shape: [N]}, {name: g, dtype: T, shape: [N], optional: true},"
        " {name: b, dtype: T, shape: [N], optional: true}]",
        outputs="[{name: Y, dtype: T, shape: [N]}, {name: Z, dtype: T, shape: [N], optional: "
        "true}]",
    )
    x, g, b, y, z = (desc_of((3,), "f32", offset=i) for i in range(5))
    assert bound(match(kernel, [x, g, b, y, z])).descs == (x, g, b, y, z)
    assert bound(match(kernel, [x, g, b, y])).descs == (x, g, b, y, None)
    assert bound(match(kernel, [x, g, y])).descs == (x, g, None, y, None)
    assert bound(match(kernel, [x, y])).descs == (x, None, None, y, None)
    few = refused(match(kernel, [x]))
    assert (few.detail, few.expected, few.got) == ("missing_output", "X, [g], [b], Y, [Z]", "1")


REFUSALS: list[tuple[list[BufferDesc | None], dict[str, Any], str, str]] = [
    ([A, B, BIAS, D, D], {}, "argument", "wrong number of buffers; expected A, B, [bias], D, got "
     "5"),
    ([A], {}, "missing_input", "wrong number of buffers; expected A, B, [bias], D, got 1"),
    ([A, None, BIAS, D], {}, "missing_input", "argument 'B': required input is missing"),
    ([A, B, BIAS, None], {}, "missing_output", "argument 'D': required output is missing"),
    ([desc_of((4, 5), "i8"), B, D], {}, "dtype",
     "argument 'A': dtype does not fit; expected f32 | f16, got i8"),
    ([A, desc_of((5, 6), "f16"), D], {}, "dtype",
     "argument 'B': dtype does not fit; expected f32 as A, got f16"),
    ([A, B, desc_of((6,), "f16"), D], {}, "dtype",
     "argument 'bias': dtype does not fit; expected f32, got f16"),
    ([A, f32(7, 6), D], {}, "shape",
     "argument 'B': shape does not fit; expected [K, N] with K = 5 as in A, got [7, 6]"),
    ([A, B, f32(1), D], {}, "shape",
     "argument 'bias': shape does not fit; expected [N] with N = 6 as in B, got [1]"),
    ([A, f32(5, 6, 1), D], {}, "shape",
     "argument 'B': shape does not fit; expected [K, N], got [5, 6, 1]"),
    ([A, B, f32(4, 7)], {}, "shape", "expected [M, N] with N = 6 as in B, got [4, 7]"),
    ([A, B, desc_of((4, 6), "f32", (0, 1))], {}, "stride",
     "argument 'D': output has a zero stride; expected each element at its own address, got shape "
     "[4, 6], strides [0, 1]. write into a dense array and copy"),
    ([A, B, desc_of((4, 6), "f32", (1, 1))], {}, "stride", "argument 'D': output overlaps itself"),
    ([A, B, D], {"akt": "relu"}, "argument",
     "argument 'akt': unknown attribute; expected act, slope, level, fast, axes. Did you mean "
     "'act'?"),
    ([A, B, D], {"act": "rely"}, "argument",
     "argument 'act': attribute cannot be used; expected none | relu, got 'rely'. Did you mean "
     "'relu'?"),
    ([A, B, D], {"slope": 2}, "argument",
     "argument 'slope': attribute cannot be used; expected float >= 0 and <= 1, got 2"),
    ([A, B, D], {"slope": float("nan")}, "argument", "expected float >= 0 and <= 1, got nan"),
    ([A, B, D], {"slope": "1"}, "argument", "expected float >= 0 and <= 1, got '1'"),
    ([A, B, D], {"level": True}, "argument", "expected int >= 1, got True"),
    ([A, B, D], {"level": 1.0}, "argument", "expected int >= 1, got 1.0"),
    ([A, B, D], {"level": 0}, "argument", "expected int >= 1, got 0"),
    ([A, B, D], {"fast": 1}, "argument", "expected bool, got 1"),
    ([A, B, D], {"slope": True}, "argument", "got True"),
    ([A, B, D], {"axes": [1, 0.5]}, "argument", "expected a list of whole numbers, got [1, 0.5]"),
    ([A, B, D], {"axes": object()}, "argument", "got an object of type object"),
    ([A, B, D], {"act": 10**400}, "argument", "expected none | relu, got 1000"),
]  # fmt: skip


@pytest.mark.parametrize(("descs", "attrs", "detail", "text"), REFUSALS)
def test_refusals(
    gemm: KernelSpec,
    descs: list[BufferDesc | None],
    attrs: dict[str, Any],
    detail: str,
    text: str,
) -> None:
    found = refused(match(gemm, descs, attrs, Gpu()))
    assert found.code is Status.INVALID
    assert found.detail == detail
    error = refusal_error(gemm, found)
    assert isinstance(error, InvalidArgumentError)
    assert text in str(error)
    assert str(error).startswith("[-1 INVALID] gemm")


def test_attribute_values_are_converted(gemm: KernelSpec) -> None:
    given = {"slope": np.float32(0.5), "level": np.int8(3), "fast": np.True_, "axes": np.array([1])}
    found = bound(match(gemm, [A, B, D], given)).attrs
    assert found == {"act": "none", "slope": 0.5, "level": 3, "fast": True, "axes": (1,)}
    assert [type(found[n]) for n in ("slope", "level", "fast")] == [float, int, bool]
    assert bound(match(gemm, [A, B, D], {"axes": 1, "act": None})).attrs["axes"] == (1,)


def test_requirements_keep_text_and_values(gemm: KernelSpec) -> None:
    old = refused(match(gemm, [A, B, D], {}, Gpu(cc=6.1)))
    assert old.code is Status.NOT_IMPLEMENTED
    assert str(refusal_error(gemm, old)) == (
        "[-3 NOT_IMPLEMENTED] gemm: a requirement of the kernel does not hold; expected cc >= 7.0, "
        "got cc = 6.1"
    )
    assert isinstance(refusal_error(gemm, old), UnsupportedError)
    empty = refused(match(gemm, [f32(4, 0), f32(0, 6), D]))
    assert (empty.message, empty.expected, empty.got) == (
        "an empty sum is not for this kernel", "K > 0", "K = 0",
    )  # fmt: skip


def test_device_requirements_wait_for_a_device(gemm: KernelSpec) -> None:
    assert isinstance(match(gemm, [A, B, D], {}, None), Bound)


def test_all_reasons(gemm: KernelSpec) -> None:
    ((kernel, found),) = match_all_reasons([gemm], [A], {}, Gpu())
    assert kernel is gemm
    assert refused(found).detail == "missing_input"


@pytest.mark.parametrize(
    ("pattern", "shape", "names"),
    [
        ("['*S']", (), {"S": ()}),
        ("['*S']", (2, 3), {"S": (2, 3)}),
        ("['*B', N]", (3,), {"B": (), "N": 3}),
        ("['*B', N]", (1, 2, 3), {"B": (1, 2), "N": 3}),
        ("[N, '*B', M]", (1, 2, 3), {"N": 1, "B": (2,), "M": 3}),
        ("[N, '*B', M]", (4, 5), {"N": 4, "B": (), "M": 5}),
        ("[N, N]", (4, 4), {"N": 4}),
        ("[N, 3]", (4, 3), {"N": 4}),
        ("[]", (), {}),
    ],
)
def test_patterns(
    tmp_path: Path, pattern: str, shape: tuple[int, ...], names: dict[str, Any]
) -> None:
    kernel = one_kernel(
        tmp_path, inputs=f"[{{name: X, dtype: T, shape: {pattern}}}]",
        outputs="[{name: Y, dtype: T, shape: 'shape(X)'}]",
    )  # fmt: skip
    found = bound(match(kernel, [f32(*shape), f32(*shape)]))
    assert {n: v for n, v in found.names.items() if n not in ("X", "Y", "T")} == names


@pytest.mark.parametrize(
    ("pattern", "shape"),
    [
        ("['*B', N]", ()),
        ("[N, '*B', M]", (3,)),
        ("[N, N]", (3, 4)),
        ("[N, 3]", (4, 4)),
        ("[]", (1,)),
    ],
)
def test_patterns_that_do_not_fit(tmp_path: Path, pattern: str, shape: tuple[int, ...]) -> None:
    kernel = one_kernel(
        tmp_path, inputs=f"[{{name: X, dtype: T, shape: {pattern}}}]",
        outputs="[{name: Y, dtype: T, shape: 'shape(X)'}]",
    )  # fmt: skip
    found = refused(match(kernel, [f32(*shape), f32(*shape)]))
    assert (found.argument, found.detail) == ("X", "shape")


def test_same_star_twice_must_agree(tmp_path: Path) -> None:
    kernel = one_kernel(tmp_path)
    assert isinstance(match(kernel, [f32(2, 3), f32(2, 3)]), Bound)
    found = refused(match(kernel, [f32(2, 3), f32(3, 2)]))
    assert (found.expected, found.got) == ("[*S] with S = [2, 3] as in X", "[3, 2]")


def test_output_formula(tmp_path: Path) -> None:
    kernel = one_kernel(
        tmp_path,
        attrs="{axes: {type: ints, default: []}, keepdim: {default: false}, to: {type: dtype,"
        " default: f16}}",
        outputs="[{name: Y, dtype: 'attr:to', shape: 'reduced(S, axes, keepdim)'}]",
    )
    y = desc_of((2,), "f16")
    assert isinstance(match(kernel, [f32(2, 3), y], {"axes": [-1]}), Bound)
    wrong = refused(match(kernel, [f32(2, 3), y]))
    assert (wrong.argument, wrong.expected, wrong.got) == ("Y", "[]", "[2]")
    outside = refused(match(kernel, [f32(2, 3), y], {"axes": [2]}))
    assert "axis out of range; expected -2 <= axis < 2, got (2,)" in outside.message
    other = refused(match(kernel, [f32(2, 3), y], {"axes": [1], "to": "f32"}))
    assert (other.detail, other.expected) == ("dtype", "f32")
    assert infer_outputs(kernel, [f32(2, 3)], {"axes": 0, "keepdim": True, "to": np.int8}) == (
        desc_of((1, 3), "i8"),
    )


def test_layouts(tmp_path: Path) -> None:
    kernel = one_kernel(
        tmp_path, inputs="[{name: X, dtype: T, shape: ['*S'], layouts: [rowmajor, NCHW]}]"
    )
    x = desc_of((1, 2, 3, 4), "f32", layout="NHWC")
    found = refused(match(kernel, [x, f32(1, 2, 3, 4)]))
    assert (found.detail, found.expected, found.got) == ("layout", "rowmajor | NCHW", "NHWC")


def test_required_attributes(tmp_path: Path) -> None:
    kernel = one_kernel(tmp_path, attrs="{op: {choices: [a, b], required: true}}")
    found = refused(match(kernel, [f32(2), f32(2)]))
    assert (found.message, found.argument, found.expected) == (
        "attribute is missing", "op", "a | b",
    )  # fmt: skip


def test_nan_is_out_of_every_range(tmp_path: Path) -> None:
    kernel = one_kernel(tmp_path, attrs="{eps: {default: 1.0, min: 0}}")
    for value, fits in ((float("nan"), False), (float("inf"), True), (0, True)):
        assert isinstance(match(kernel, [f32(2), f32(2)], {"eps": value}), Bound) is fits


def test_lets_may_wait_for_outputs(tmp_path: Path) -> None:
    kernel = one_kernel(
        tmp_path, let="{TOTAL: 'M * 2', LATER: 'TOTAL + 1'}",
        outputs="[{name: Y, dtype: T, shape: [M]}]", param_block="gemm_basic",
    )  # fmt: skip
    assert bound(match(kernel, [f32(2), f32(5)])).names["LATER"] == 11
    with pytest.raises(InvalidArgumentError, match="extent M does not follow from the inputs"):
        infer_outputs(kernel, [f32(2)])


def test_infer_outputs(gemm: KernelSpec, tmp_path: Path) -> None:
    x = desc_of((4, 5), "f16", (1, 4), "cuda:1")
    (d,) = infer_outputs(gemm, [x, desc_of((5, 6), "f16")])
    assert d == desc_of((4, 6), "f16", device="cuda:1")
    with pytest.raises(InvalidArgumentError, match="gemm, argument 'B': shape does not fit"):
        infer_outputs(gemm, [x, desc_of((7, 6), "f16")])
    kernel = one_kernel(
        tmp_path,
        outputs="[{name: Y, dtype: T, shape: ['*S']},"
        " {name: Z, dtype: T, shape: ['*S'], optional: true}]",
    )
    assert infer_outputs(kernel, [f32(3)]) == (f32(3), None)
    assert infer_outputs(kernel, [f32(3)], optional=["Z"]) == (f32(3), f32(3))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-6, 6)), max_size=3))
def test_self_overlap_is_exact_for_small_arrays(axes: list[tuple[int, int]]) -> None:
    shape, strides = tuple(e for e, _ in axes), tuple(s for _, s in axes)
    offsets = [
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*(range(e) for e in shape))
    ]
    assert overlaps_itself(shape, strides) == (len(set(offsets)) < len(offsets))
