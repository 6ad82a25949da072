"""What messages say to the mistakes that first kernels have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spec_files import one_kernel

import ge2rt
from ge2rt.base.errors import CompileError, InvalidArgumentError
from ge2rt.build.diagnostics import PREFIX, failure
from ge2rt.build.records import LineMap, Source
from ge2rt.cli.screen import console
from ge2rt.spec.descs import desc_of
from ge2rt.spec.expr import parse
from ge2rt.spec.marks import MarksFault, read_yaml
from ge2rt.spec.match import match
from ge2rt.spec.model import Bound
from ge2rt.spec.reference import REFERENCE, evaluate_reference
from ge2rt.spec.suggest import did_you_mean, nearest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("np.clip(x, 0, 1)", r"by their bare names; write clip\(\.\.\.\)"),
        ("np.foo(x)", r"by their bare names$"),
        ("sum(x, axis=1)", r"sum takes \(x, axes=None, keepdim=False\)"),
        ("softmax(x, dim=1)", r"softmax takes \(x, axis=-1, scale=1\.0, log=False\)"),
        ("where(x)", r"where takes \(c, x, y\)"),
        ("ceildiv(3)", r"ceildiv takes \(value, step\)"),
    ],
)
def test_a_reference_says_what_its_functions_take(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse(text, REFERENCE).evaluate({"x": np.ones((2, 3))}, REFERENCE)


def _failed(fault: str, name: str = "k.cu.j2") -> CompileError:
    text = "void k(half* x, int H) {}"
    source = Source(text, "k", name, (), LineMap(((name, 1),)))
    return failure(f"{PREFIX}{name}(1): error: {fault}\n  line\n    ^\n", source, "k", "sm_80")


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        ('identifier "__half" is undefined', "{{ headers }}"),
        ('identifier "half" is undefined', "#include <cuda_fp16.h>"),
        ('identifier "__nv_bfloat16" is undefined', "#include <cuda_bf16.h>"),
        ('identifier "H" is undefined', "H is an argument of the kernel"),
        ('identifier "N" is undefined', "write {{ N }}"),
        ('cannot open source file "stdio.h"', "printf, assert"),
        ('cannot open source file "mine.h"', '["-I/folder"]'),
    ],
)
def test_a_compile_error_names_the_usual_cause(fault: str, step: str) -> None:
    error = _failed(fault)
    assert step in error.record.next_step
    assert str(error).splitlines()[-1] == error.record.next_step  # not behind the caret


def test_text_that_is_no_template_gets_no_advice_for_templates() -> None:
    step = _failed('identifier "half" is undefined', "k.cu").record.next_step
    assert step == "begin the text with #include <cuda_fp16.h>"
    assert _failed('identifier "N" is undefined', "k.cu").record.next_step == ""
    assert _failed('identifier "H" is undefined', "k.cu").record.next_step == ""
    step = _failed('cannot open source file "mine.h"', "k.cu").record.next_step
    assert 'options=("-I/folder",)' in step


@pytest.mark.parametrize("header", ["vector", "string", "map"])
def test_headers_of_the_hosts_library_are_not_for_kernels(header: str) -> None:
    step = _failed(f'cannot open source file "{header}"', "k.cu").record.next_step
    assert "not for kernels" in step
    assert "-I" not in step


@pytest.mark.parametrize(
    ("header", "there"), [("stdint.h", "cuda/std/cstdint"), ("tuple", "cuda/std/tuple")]
)
def test_headers_that_kernels_have_elsewhere_are_named(header: str, there: str) -> None:
    step = _failed(f'cannot open source file "{header}"').record.next_step
    assert f"#include <{there}>" in step
    assert "nvidia-cuda-cccl" in step


def test_a_missing_semicolon_is_told_where_it_is_missing() -> None:
    text = "void k() {\n  int i = 0\n\n  // next\n  if (i) return;\n}\n"
    source = Source(text, "k", "k.cu.j2", (), LineMap(tuple(("k.cu.j2", n + 2) for n in range(6))))
    log = f'{PREFIX}k.cu.j2(5): error: expected a ";"\n    if (i) return;\n    ^\n'
    error = failure(log, source, "k", "sm_80")
    assert error.record.where == "k.cu.j2:3"
    assert 'k.cu.j2:3:12 (rendered line 2): error: expected a ";"\n    int i = 0\n' in str(error)
    inside = log.replace("if (i) return;", "i = 1 return;").replace("    ^", "          ^")
    moved = Source(text.replace("if (i) return;", "i = 1 return;"), "k", "k.cu.j2")
    assert failure(inside, moved, "k", "sm_80").record.where == "k.cu.j2:5"


def test_a_log_without_an_error_at_a_line_is_shown_as_it_is() -> None:
    error = failure("nvrtc: error: failed\nto open it\n", Source("", "k", "k.cu"), "k", "sm_80")
    assert "\nnvrtc: error: failed\nto open it" in str(error)


def test_other_compile_errors_have_no_guess() -> None:
    assert _failed('identifier "vlaue" is undefined').record.next_step == ""
    assert _failed('expected a ";"').record.next_step == ""


def test_an_input_by_keyword_is_told_apart_from_a_misspelt_attribute() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(InvalidArgumentError, match="mask is an input: give it by position"):
        ge2rt.launch("softmax", x, mask=x)
    for name in ("X", "x"):  # without the input that is then missing
        with pytest.raises(InvalidArgumentError, match=f"{name} is an input: give it by position"):
            ge2rt.launch("softmax", **{name: x})
    with pytest.raises(InvalidArgumentError, match="Y is an output: give it in out="):
        ge2rt.launch("softmax", x, Y=x)
    with pytest.raises(InvalidArgumentError, match="required input is missing"):
        ge2rt.launch("softmax", axis=0)
    with pytest.raises(InvalidArgumentError, match="Did you mean 'axis'"):
        ge2rt.launch("softmax", x, axs=0)


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("akt", ("act", "slope"), "act"),
        ("nope", ("copy", "reduce"), ""),
        ("saxpy", ("softmax", "copy"), ""),
        ("layernrom", ("layernorm", "rmsnorm"), "layernorm"),
        ("GEMM_BIAS", ("GEMM_BIAS_ACT", "REDUCE"), "GEMM_BIAS_ACT"),
        ("gemm", ("gemm_bias_act_f32", "copy"), "gemm_bias_act_f32"),
        ("transform", ("softmax", "transpose"), ""),
    ],
)
def test_only_near_names_are_suggested(name: str, known: tuple[str, ...], near: str) -> None:
    assert nearest(name, known) == near
    assert did_you_mean(name, known) == (f"Did you mean {near!r}?" if near else "")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a: x: y", "quote the text: a colon followed by a space starts a mapping"),
        ("a: [1, 2", "close the bracket"),
        ("a: @x", "quote a text that begins with @"),
        ("a: 'x", "close the quote"),
        ("- 1\nb: 2", "the items of one list begin in the same column"),
        ("a: 1\n b: 2\n  c", "a colon followed by a space starts a mapping"),
        ("a: *", "quote a text that begins with *"),
    ],
)
def test_yaml_syntax_has_a_hint(text: str, hint: str) -> None:
    with pytest.raises(MarksFault) as caught:
        read_yaml(text)
    assert hint in caught.value.message


def test_a_reference_fault_says_where_the_kernel_stands(tmp_path: Path) -> None:
    kernel = one_kernel(tmp_path, reference="X @ 1")
    x = desc_of((2, 3), "f32")
    bound = match(kernel, [x, x])
    assert isinstance(bound, Bound)
    with pytest.raises(InvalidArgumentError) as caught:
        evaluate_reference(bound, [np.ones((2, 3))])
    assert caught.value.record.where == f"{tmp_path / 'kernels.yaml'}:3"


def test_shapes_do_not_become_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("x:100:negative", markup=False)
    assert capsys.readouterr().out == "x:100:negative\n"


X = ge2rt.from_numpy(np.zeros(2, np.float32))
HABITS = [
    (ge2rt, "cat", "Use ge2rt.ops.concat."),
    (ge2rt, "stack", "Use ge2rt.ops.stack."),
    (ge2rt, "float32", "dtype='f32'"),
    (ge2rt, "launhc", "Did you mean 'launch'?"),
    (ge2rt.nn, "BatchNorm2d", "Use nn.BatchNorm"),
    (ge2rt.nn, "Lineer", "Did you mean 'Linear'?"),
    (ge2rt.nn.functional, "exp", "Use ge2rt.ops.exp."),
    (ge2rt.nn.functional, "soft_max", "Did you mean 'softmax'?"),
    (ge2rt.nn.functional, "zzz", "has no 'zzz'."),
    (X, "dim", "Use x.ndim."),
    (X, "float", "Use x.astype('f32')."),
    (X, "sofmax", "Did you mean 'softmax'?"),
]


@pytest.mark.parametrize(("owner", "name", "told"), HABITS, ids=[name for _, name, _ in HABITS])
def test_names_of_other_libraries_lead_to_ours(owner, name, told):
    with pytest.raises(AttributeError) as fault:
        getattr(owner, name)
    assert told in str(fault.value)
