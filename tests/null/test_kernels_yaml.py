"""The shipped kernels file: it is complete, its cases are many, its templates render."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from cases import TRAPS, all_cases, shipped, trap

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.paths import resource
from ge2rt.build.problem import make_problem
from ge2rt.build.render import render
from ge2rt.run.case_arrays import make_arrays
from ge2rt.run.cases import cases_for
from ge2rt.spec.registry import Registry

PROPS = {kind: SimpleNamespace(kind=kind, arch="sm_80", cc=8.0, tensor_cores=True)
         for kind in ("cpu", "cuda")}  # fmt: skip
KERNELS = {kernel.name: kernel for kernel in shipped()}
by_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


def rendered(case, kind="cpu", *, static=True):
    return render(make_problem(make_arrays(case).bound, PROPS[kind], static=static)).text


def test_the_file_passes_the_full_check():
    registry = Registry()
    registry.add_file(resource("kernels.yaml"), trusted=False)
    assert set(registry.names()) == set(KERNELS)


def test_the_two_gemm_kernels_keep_the_scores_of_the_contract():
    scores = {k.table_key: k.score for k in KERNELS.values()}
    assert scores["GEMM_BIAS_ACT__gemm_bias_act_f32"] == 80
    assert scores["GEMM_BIAS_ACT__gemm_bias_act_tc_f16"] == 40
    tensor_core = KERNELS["gemm_bias_act_tc_f16"]
    assert tensor_core.min_mnk is None  # or a selector would put it before f32
    assert tensor_core.flags["tensor_core"]
    ranked = sorted(
        (k for k in KERNELS.values() if k.op == "GEMM_BIAS_ACT"), key=lambda k: -k.score
    )
    assert [k.score for k in ranked[:2]] == [80, 40]
    assert {k.param_block for k in ranked[:2]} == {"gemm_basic"}
    assert max(k.score + 30 * k.flags.get("tensor_core", False) for k in ranked[2:]) < 70


@by_kernel
def test_every_kernel_says_what_it_means(kernel):
    assert kernel.reference is not None
    assert kernel.doc
    attrs = {f"attr:{name}": attr.choices for name, attr in kernel.attrs.items()}
    choices = {**kernel.types, **attrs}
    used = {dtype for b in kernel.outputs for dtype in choices.get(b.dtype, (b.dtype,))}
    floats = {dtype for dtype in used if DTYPES[dtype].is_float}
    stated = set(kernel.tolerance)
    assert floats <= stated or all(t.rtol == t.atol == 0 for t in kernel.tolerance.values())


def test_there_are_enough_cases():
    assert len(all_cases()) >= 400
    for kernel in KERNELS.values():
        cases = cases_for(kernel)
        assert len(cases) >= 20
        assert sum(not case.plain for case in cases) >= len(cases) / 2
        assert len({str(case) for case in cases}) == len(cases)


@by_kernel
def test_cases_reach_every_choice_and_dtype(kernel):
    cases = cases_for(kernel, full=True)
    for name, dtypes in kernel.types.items():
        assert {case.types[name] for case in cases} == set(dtypes)
    for name, attr in kernel.attrs.items():
        seen = {case.attrs.get(name, attr.default) for case in cases}
        assert set(attr.choices) <= seen
    for buffer in kernel.inputs:
        layouts = {  # of each item of a list
            case.layouts.get(b.name, "absent") for case in cases for b in case.kernel.inputs
            if buffer.name in (b.name, b.group)
        }  # fmt: skip
        assert len(layouts) >= 6
        assert ("absent" in layouts) == buffer.optional


def test_cases_are_the_same_in_each_call():
    kernel = KERNELS["layernorm"]
    first, second = cases_for(kernel), cases_for(kernel)
    assert [str(c) for c in first] == [str(c) for c in second]
    arrays = [make_arrays(cases[5]).buffers["X"].view for cases in (first, second)]
    assert np.array_equal(*arrays)


def test_the_table_of_traps_is_accepted():
    for seed, row in enumerate(TRAPS):
        assert make_arrays(trap(row, seed)).bound.kernel.name == row[0]


@by_kernel
def test_an_output_that_was_not_written_is_a_fault(kernel):
    for case in cases_for(kernel):
        arrays = make_arrays(case)
        in_place = any(layout in arrays.buffers for layout in case.layouts.values())
        written = [b.name for b in case.kernel.outputs if b.name in arrays.buffers]
        kept = all(  # nothing is added to what is there
            case.dtype(b) != "bool" and np.array_equal(arrays.buffers[n].view, e, equal_nan=True)
            for n, e in zip(written, arrays.expected, strict=True)
            for b in case.kernel.outputs if b.name == n
        )  # fmt: skip
        if not (arrays.is_empty or in_place or kept):
            assert arrays.faults(), str(case)


def test_the_right_output_is_no_fault_and_a_byte_beside_it_is():
    case = trap(("copy", ((33, 70),), {"T": "i16"}, {}, "- sliced"))
    arrays = make_arrays(case)
    output = arrays.buffers["Y"]
    output.view[...] = arrays.expected[0]
    assert arrays.faults() == []
    output.memory[0] ^= 0x10
    assert arrays.faults() == ["Y: memory beside the output was written"]


@by_kernel
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_templates_render_static_and_dynamic(kernel, kind):
    for case in cases_for(kernel)[::6]:
        if make_arrays(case).is_empty:
            continue
        for static in (True, False):
            text = rendered(case, kind, static=static)
            assert text.count(f"ge2rt_{kernel.name}(") == 1
            assert "{{" not in text
            assert "{%" not in text


@by_kernel
def test_a_shape_generic_kernel_holds_no_extent(kernel):
    """The odd extents of the cases are nowhere in the text."""
    for case in cases_for(kernel):
        arrays = make_arrays(case)
        extents = {
            e for shape in case.shapes.values() for e in shape if e in (33, 70, 77, 4097, 257)
        }
        if extents and not arrays.is_empty:
            text = rendered(case, static=False).replace("[32][33]", "")  # a tile of copy's
            numbers = set(re.findall(r"\b\d+\b", text))
            assert not numbers & {str(e) for e in extents}, str(case)


def test_wide_accesses_are_used_where_they_are_allowed():
    case = trap(("copy", ((4096,),), {"T": "f32"}, {}, "- -"))
    bound = make_arrays(case).bound
    wide = render(make_problem(bound, PROPS["cuda"], aligned=True)).text
    narrow = render(make_problem(bound, PROPS["cuda"], aligned=False)).text
    assert "PACK = 4" in wide
    assert "PACK = 1" in narrow
