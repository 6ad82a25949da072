"""Rendering: what templates see, the sandbox, line maps, literals, errors."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import build_samples as bs
import pytest

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import CompileError
from ge2rt.build import render as rendering
from ge2rt.build.facts import facts
from ge2rt.build.literals import Literal, literal
from ge2rt.build.problem import make_problem
from ge2rt.build.render import render
from ge2rt.spec.model import AttrSpec, BufferSpec


@pytest.fixture(autouse=True)
def _memory_only(monkeypatch):
    monkeypatch.setenv("GE2RT_NO_CACHE", "1")
    rendering.clear()


def problem(
    folder, text=None, *, x=None, static=True, aligned=True, texts=None, attrs=None, **parts
):
    files = {"scale": text} if text is not None else {}
    spec = bs.kernel(bs.write_templates(folder, **files, **(texts or {})), **parts)
    given = x or bs.desc((100,))
    y = bs.desc(given.shape, given.dtype.name)
    return make_problem(
        bs.bound(spec, [given, y], **(attrs or {})), bs.PROPS, static=static, aligned=aligned
    )


def text_of(*args, **parts):
    return render(problem(*args, **parts)).text


def test_the_sample(tmp_path):
    source = render(problem(tmp_path))
    assert source.entry == "ge2rt_scale"
    assert source.name == "scale.cu.j2"
    assert source.text == (
        '\nextern "C" __global__ void __launch_bounds__(256) ge2rt_scale('
        "const float* __restrict__ X, float* __restrict__ Y, const float alpha) {\n"
        "  const int i = (int)blockIdx.x * 256 + threadIdx.x;\n"
        "  if (i < 100) {\n"
        "    Y[i] = X[i] * alpha;\n"
        "  }\n}\n"
    )


def test_line_map_points_at_templates_and_includes(tmp_path):
    source = render(problem(tmp_path, texts={"_scale": "{# c #}\n" + bs.SHARED}))
    lines = source.text.split("\n")
    where = {line.strip(): source.line_map.find(n) for n, line in enumerate(lines, 1)}
    assert where["if (i < 100) {"] == ("scale.cu.j2", 6)
    assert where["Y[i] = X[i] * alpha;"] == ("scale.cu.j2", 8)
    assert where["}"] == ("scale.cu.j2", 13)


def test_line_map_of_macros_loops_and_includes(tmp_path):
    text = """{% import "_m.cuh.j2" as m %}
{% include "_scale.cuh.j2" %}
{% for k in range(2) %}
  a{{ k }};
{% endfor %}
{{ m.body("z") }}
{%- set q = 1 %}
{% set block %}
  captured {{ q }};
{% endset %}
{{ block }}
last;
"""
    shared = "{% macro body(x) %}\n\n  one {{ x }};\n  {{ x }} two;\n{% endmacro %}\n"
    source = render(problem(tmp_path, text, texts={"_m": shared, "_scale": "\nincluded;\n"}))
    found = {
        line.strip(): source.line_map.find(n)
        for n, line in enumerate(source.text.split("\n"), 1)
        if line.strip()
    }
    assert found == {
        "included;": ("_scale.cuh.j2", 2),
        "a0;": ("scale.cu.j2", 4),
        "a1;": ("scale.cu.j2", 4),
        "one z;": ("_m.cuh.j2", 3),
        "z two;": ("_m.cuh.j2", 4),
        "captured 1;": ("scale.cu.j2", 9),
        "last;": ("scale.cu.j2", 12),
    }


def test_marks_do_not_disturb_text_that_is_compared(tmp_path):
    text = """{% macro t() -%}
{{ T }}
{%- endmacro %}
{% set empty %}
{% if false %}x{% endif %}
{% endset %}
{{ "same" if t() == "float" else "other" }} {{ "full" if empty|trim else "empty" }}
"""
    assert text_of(tmp_path, text).strip() == "same empty"


def test_a_dynamic_text_has_no_extents_and_is_the_same_for_all(tmp_path):
    texts = {
        text_of(tmp_path, x=bs.desc(shape), static=False) for shape in [(7777,), (61,), (1, 431)]
    }
    one = {text_of(tmp_path, x=bs.desc((n,)), static=False) for n in (7777, 7779)}
    assert len(one) == 1
    assert "7777" not in one.pop()
    assert len(texts) == 2  # the rank differs
    assert len({text_of(tmp_path, x=bs.desc((n,))) for n in (7777, 7779)}) == 2


def test_dynamic_values_cannot_be_computed_with(tmp_path):
    text = "\n{% if it.size % 4 == 0 %}vector{% endif %}"
    assert "vector" in text_of(tmp_path, text)
    with pytest.raises(CompileError) as caught:
        text_of(tmp_path, text, static=False)
    record = caught.value.record
    assert record.message == "the value of it_extent0 is not known in a shape-generic kernel"
    assert record.where == f"{tmp_path / 'scale.cu.j2'}:2"
    assert record.kernel == "scale"
    guarded = "{% if it.size is static and it.size % 4 == 0 %}vector{% else %}any{% endif %}"
    assert text_of(tmp_path, guarded, static=False) == "any"


def test_buffers_spaces_types_and_names(tmp_path):
    text = (
        "{{ X.name }} {{ X.ctype }} {{ X.dtype }} {{ X.rank }} {{ X.shape[1] }} {{ X.strides[0] }} "
        "{{ X.size }} {{ X.contiguous }} {{ X.itemsize }} {{ X.vec }} {{ X.present }} | "
        "{{ it.rank }} {{ it.size }} {{ it.strides['Y'][0] }} {{ it.vec }} | "
        "{{ T }} {{ T.acc }} {{ T.name }} | {{ arch_cc }} {{ block[0] }} {{ is_static }} {{ S[1] }}"
    )
    assert text_of(tmp_path, text, x=bs.desc((4, 8), "f16")) == (
        "X __half f16 2 8 8 32 true 2 8 true | 1 32 1 8 | __half float f16 | 80 256 true 8"
    )


def test_headers_follow_the_dtypes(tmp_path):
    assert text_of(tmp_path, "{{ headers }}", x=bs.desc((4,), "f16")) == "#include <cuda_fp16.h>"
    assert text_of(tmp_path, "{{ headers }}") == ""


def test_restrict_is_left_out_where_memory_may_be_shared(tmp_path):
    outputs = [BufferSpec("Y", "output", "T", ("*S",), overlap=("X",))]
    text = text_of(tmp_path, "{{ params }}", outputs=outputs)
    assert text == "const float* X, float* Y, const float alpha"


def test_wide_indices_print_as_long_long(tmp_path):
    x = bs.desc((4, 4), strides=(2**29, 1))
    text = text_of(
        tmp_path, "{{ index_t }} {{ X.strides[0] }} {{ X.shape[0] * 2 }} {{ threads }}", x=x
    )
    assert text == "long long 536870912LL 8LL 256"
    dynamic = text_of(tmp_path, "{{ params }}", x=x, static=False)
    assert "const long long X_stride0" in dynamic


def test_attributes_print_as_literals(tmp_path):
    attrs = [AttrSpec("on", "bool", True), AttrSpec("n", "int", 2**40), AttrSpec("f", "float", 0.5),
             AttrSpec("kind", "str", "sum"), AttrSpec("to", "dtype", "f16"),
             AttrSpec("axes", "ints", (1, -2))]  # fmt: skip
    text = "{{ on }} {{ n }} {{ f }} {{ kind }} {{ to.ctype }} {{ axes[1] }} {{ f|lit(T) }}"
    spec = bs.kernel(bs.write_templates(tmp_path, scale=text), attrs=attrs)
    x = bs.desc((4,))
    given = make_problem(bs.bound(spec, [x, x]), bs.PROPS)
    assert render(given).text == "true 1099511627776LL 0.5 sum __half (-2) 0.5f"


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (math.inf, "f32", "__int_as_float(0x7f800000)"),
        (-math.inf, "f32", "__int_as_float((int)0xff800000)"),
        (math.nan, "f32", "__int_as_float(0x7fffffff)"),
        (-0.0, "f32", "(-0.0f)"),
        (0.1, "f32", "0.10000000149011612f"),
        (1e39, "f32", "__int_as_float(0x7f800000)"),
        (1, "f32", "1.0f"),
        (math.inf, "f64", "__longlong_as_double(0x7ff0000000000000LL)"),
        (-1e-320, "f64", "(-1e-320)"),
        (0.1, "f16", "__float2half_rn(0.0999755859375f)"),
        (3.0, "bf16", "__float2bfloat16_rn(3.0f)"),
        (-(2**63), "i64", "(-9223372036854775807LL - 1)"),
        (2**64 - 1, "u64", "18446744073709551615ULL"),
        (-(2**31), "i32", "(-2147483647 - 1)"),
        (-128, "i8", "(-128)"),
        (True, "bool", "true"),
        (7.0, "i32", "7"),
    ],
)
def test_literals(value, dtype, expected):
    assert literal(value, DTYPES[dtype]) == expected


@pytest.mark.parametrize(
    ("value", "dtype"), [(256, "u8"), (-1, "u32"), (2**63, "i64"), (0.5, "i32")]
)
def test_values_out_of_range_are_refused(value, dtype):
    with pytest.raises(CompileError, match="does not fit its dtype"):
        literal(value, DTYPES[dtype])


def test_literal_arithmetic_keeps_the_width():
    assert str(Literal(3, True) * 2 + 1) == "7LL"
    assert str(2 * Literal(3, True)) == "6LL"
    assert str(10 - Literal(3)) == "7"
    assert str(Literal(2**30) * 4) == "4294967296LL"
    assert f"{Literal(7):3d}" == "  7"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\n\n{{ nothing }}", 3, "'nothing' is undefined"),
        ("a\n{{ X.missing }}", 2, "has no attribute 'missing'"),
        ("a\n{% if %}", 2, "template syntax"),
        ("a\n{{ fail('only for short rows') }}", 2, "only for short rows"),
        ("{{ (1, 2) }}", 1, "has no spelling in C++"),
        ("\n{{ 1 // 0 }}", 2, "division"),
        ("\n{% include '_absent.cuh.j2' %}", 2, "was not found"),
        ("{{ 'x' * 999999999 }}", 1, "repetition"),
        ("{{ 10 ** 1000 }}", 1, "out of bounds"),
        ("{{ 300|lit('u8') }}", 1, "does not fit its dtype"),
    ],
)
def test_template_faults_name_file_and_line(tmp_path, text, line, message):
    with pytest.raises(CompileError) as caught:
        text_of(tmp_path, text)
    assert message in caught.value.record.message
    assert caught.value.record.where == f"{tmp_path / 'scale.cu.j2'}:{line}"


@pytest.mark.parametrize(
    ("text", "message", "step"),
    [
        ("{{ X.stride[0] }}", "a buffer has no attribute 'stride'", "Did you mean 'strides'?"),
        ("{{ X.colour }}", "a buffer has no attribute 'colour'", "it has contiguous, ctype"),
        ("{{ X.strides[9] }}", "has no element 9", "axes count from 0"),
        ("{{ nothing }}", "'nothing' is undefined", "names: "),
    ],
)
def test_what_is_not_there_is_told_in_the_words_of_templates(tmp_path, text, message, step):
    with pytest.raises(CompileError) as caught:
        text_of(tmp_path, text)
    assert message in caught.value.record.message
    assert caught.value.record.next_step.startswith(step)


def test_faults_in_included_files_name_these(tmp_path):
    with pytest.raises(CompileError) as caught:
        text_of(tmp_path, texts={"_scale": "{% macro times(x) %}\n\n{{ oops }}\n{% endmacro %}"})
    assert caught.value.record.where == f"{tmp_path / '_scale.cuh.j2'}:3"
    assert "names: S, T, X, Y, aligned, alpha" in caught.value.record.next_step


@pytest.mark.parametrize(
    "text",
    [
        "{{ X.__class__.__mro__ }}",
        "{{ ''.__class__ }}",
        "{{ X.present.__init__.__globals__ }}",
        "{{ range.__call__.__self__ }}",
        "{{ cycler }}",
        "{{ lipsum }}",
        "{{ '%s'.format.__globals__ }}",
        "{{ it.strides.update({}) }}",
        "{% include '../secret.cu.j2' %}",
        "{% include '/etc/passwd' %}",
        "{% include '..\\\\secret' %}",
        "{% include '_link.cuh.j2' %}",
        "{% include 'sub/../../secret.cu.j2' %}",
        "{% for i in range(10000000) %}{% endfor %}",
    ],
)
def test_the_sandbox_holds(tmp_path, text):
    folder = tmp_path / "templates"
    (tmp_path / "secret.cu.j2").write_text("secret")
    bs.write_templates(folder)
    (folder / "sub").mkdir()
    (folder / "_link.cuh.j2").symlink_to(tmp_path / "secret.cu.j2")
    with pytest.raises(CompileError):
        text_of(folder, text)


def test_shipped_files_are_found_only_with_an_underscore(tmp_path, monkeypatch):
    shipped = tmp_path / "shipped"
    bs.write_templates(shipped, _common="common", copy="copy")
    monkeypatch.setattr("ge2rt.base.paths.resource", lambda name: shipped)
    own = tmp_path / "own"
    assert text_of(own, "{% include '_common.cuh.j2' %}") == "common"
    with pytest.raises(CompileError, match="was not found"):
        text_of(own, "{% include 'copy.cu.j2' %}")
    bs.write_templates(own, _common="mine")
    assert text_of(own, "{% include '_common.cuh.j2' %}") == "mine"


def test_an_edited_template_is_read_again(tmp_path):
    assert text_of(tmp_path, "one") == "one"
    assert text_of(tmp_path, "second") == "second"


def test_templates_must_be_utf8(tmp_path):
    given = problem(tmp_path)
    (tmp_path / "scale.cu.j2").write_bytes(b"// \xff")
    with pytest.raises(CompileError, match="must be UTF-8"):
        render(given)


def test_text_is_the_same_in_every_process(tmp_path):
    bs.write_templates(tmp_path)
    code = (
        "import sys, build_samples as bs\n"
        "from ge2rt.build.problem import make_problem\n"
        "from ge2rt.build.render import render\n"
        "from ge2rt.build.front import front_key\n"
        f"k = bs.kernel({str(tmp_path)!r}, tunables={{'B': (1,), 'A': (2,)}})\n"
        "p = make_problem(bs.bound(k, [bs.desc((3, 4)), bs.desc((3, 4))]), bs.PROPS)\n"
        "print(front_key(p, 'ptx').digest, hash(render(p).text) != 0, render(p).text)"
    )
    tests = str(Path(bs.__file__).parent)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": tests, "GE2RT_NO_CACHE": "1"},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def calls():
    shapes = [(8, 16), (16, 8), (8, 17), (128,), (2, 8, 16), (1, 128), (1,), ()]
    kinds = [lambda s: None, lambda s: tuple(reversed(bs.shapes.contiguous_strides(s[::-1])))]
    for shape in shapes:
        for kind in kinds:
            for dtype in ("f32", "f16"):
                yield bs.desc(shape, dtype, kind(shape)), bs.desc(shape, dtype)


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("aligned", [True, False])
def test_equal_facts_are_equal_texts(tmp_path, static, aligned):
    text = bs.SCALE + "// {{ it.vec }} {{ X.vec }} {{ X.contiguous }} {{ it.rank }}\n"
    text += "// {{ X.strides|join(',') }} {{ X.shape|join(',') }} {{ it.shape|join(',') }}\n"
    spec = bs.kernel(bs.write_templates(tmp_path, scale=text))
    texts: dict[str, str] = {}
    for x, y in calls():
        given = make_problem(bs.bound(spec, [x, y]), bs.PROPS, static=static, aligned=aligned)
        rendered = render(given).text
        assert texts.setdefault(repr(facts(given)), rendered) == rendered
    assert len(set(texts.values())) == len(texts)
