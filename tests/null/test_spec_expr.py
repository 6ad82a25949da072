"""The expression language against Python's own evaluation, and its refusals."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec.descs import desc_of
from ge2rt.spec.expr import MAX_BITS, parse

NAMES = {"M": 5, "N": -3, "Z": 0, "x": 0.5, "yes": True, "S": (2, 3, 4), "kind": "cuda"}

_leaf = st.one_of(
    st.sampled_from(["M", "N", "Z", "x", "yes"]),
    st.integers(0, 99).map(str),
    st.floats(0, 8, allow_nan=False).map(repr),
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", "and", "or"])
    return st.one_of(
        st.tuples(inner, binary, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["**"]), st.integers(0, 4)).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        inner.map(lambda t: f"(-{t})"),
        inner.map(lambda t: f"(not {t})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} < {t[1]} <= {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]}, {t[1]})[1]"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(_leaf, _grow, max_leaves=12))
def test_agrees_with_python(text: str) -> None:
    try:
        expected = eval(text, {"__builtins__": {"max": max}}, dict(NAMES))  # noqa: S307 - the oracle
    except (ZeroDivisionError, OverflowError):
        with pytest.raises(InvalidArgumentError):
            parse(text).evaluate(NAMES)
        return
    try:
        got = parse(text).evaluate(NAMES)
    except InvalidArgumentError as fault:
        assert f"more than {MAX_BITS} bits" in str(fault)  # noqa: PT017 - the only way to differ
        return
    assert type(got) is type(expected)
    assert got == expected or (math.isnan(got) and math.isnan(expected))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ceildiv(M, 2)", 3),
        ("ceildiv(0, 4)", 0),
        ("align(M, 4)", 8),
        ("next_pow2(M)", 8),
        ("next_pow2(8)", 8),
        ("next_pow2(0)", 1),
        ("prev_pow2(M)", 4),
        ("clamp(M, 1, 3)", 3),
        ("prod(S)", 24),
        ("prod(())", 1),
        ("sum(S)", 9),
        ("len(S)", 3),
        ("S[-1]", 4),
        ("S[1:]", (3, 4)),
        ("S[:1] + S[2:]", (2, 4)),
        ("min(S)", 2),
        ("range(2, 4)", (2, 3)),
        ("int(2.9)", 2),
        ("float(2)", 2.0),
        ("abs(N)", 3),
        ("broadcast((3, 1), (4,))", (3, 4)),
        ("reduced(S, (1,), False)", (2, 4)),
        ("reduced(S, (-1,), keepdim=True)", (2, 3, 1)),
        ("reduced(S, ())", ()),
        ("axes_of((-1, 0), 3)", (0, 2)),
        ("axes_of(None, 2)", (0, 1)),
        ("axes_of(1, 2)", (1,)),
        ("kept((-1,), 3)", (0, 1)),
        ("sizeof('f16')", 2),
        ("is_float('bf16') and not is_float('i8')", True),
        ("is_integer('bool')", False),
        ("kind in ('cuda', 'cpu')", True),
        ("None is None", True),
        ("'a' == kind", False),
        ("2 ** -1", 0.5),
        ("[1, 2]", (1, 2)),
        ("(-1) ** 10 ** 9", 1),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse(text).evaluate(NAMES) == value


def test_buffers_answer_questions() -> None:
    names = {"X": desc_of((4, 1, 3), "f16", (9, 0, 3)), "gone": None}
    values = {
        "rank(X)": 3, "stride(X, 0)": 9, "extent(X, -1)": 3, "shape(X)": (4, 1, 3), "size(X)": 12,
        "contiguous(X)": False, "present(X)": True, "present(gone)": False, "dtype(X)": "f16",
        "sizeof(X)": 2,
    }  # fmt: skip
    assert {text: parse(text).evaluate(names) for text in values} == values
    with pytest.raises(InvalidArgumentError, match="takes the name of a buffer that is there"):
        parse("stride(gone, 0)").evaluate(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: syntax"),
        ("M +", "column 1: syntax"),
        ("a.b", "access to attributes is not allowed"),
        ("(lambda: 1)()", "only functions of the table can be called"),
        ("lambda: 1", "lambda is not allowed"),
        ("[i for i in S]", "a comprehension is not allowed"),
        ("f'{M}'", "a formatted string is not allowed"),
        ("(y := 1)", "assignment is not allowed"),
        ("1 << 3", "this operator is not allowed"),
        ("~M", "this operator is not allowed"),
        ("b'x'", "is not allowed"),
        ("1j", "is not allowed"),
        ("...", "is not allowed"),
        ("max(*S)", "arguments are not allowed"),
        ("max(**S)", "arguments are not allowed"),
        ("1 + ceildivv(M, 2)", "column 5: unknown function 'ceildivv'. Did you mean 'ceildiv'?"),
        ("__import__('os')", "unknown function '__import__'"),
        ("open('x')", "unknown function 'open'"),
        ("-" * 200 + "1", "nested too deeply"),
        ("(" * 300 + "1" + ")" * 300, "expression"),
        ("1" * 5000, "longer than 4096 characters"),
        ("2**3 if M else " + "9" * 100, f"more than {MAX_BITS} bits"),
    ],
)
def test_refused_when_parsed(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MM + 1", "expression 'MM + 1', column 1: name 'MM' is not known here. Did you mean 'M'?"),
        ("1 + M // Z", "expression '1 + M // Z', column 5: division by zero"),
        ("M % Z", "division by zero"),
        ("10 ** 10 ** 10", f"more than {MAX_BITS} bits"),
        ("(10 ** 70) * (10 ** 70)", f"more than {MAX_BITS} bits"),
        ("'a' * 3", "* takes numbers, not str and int"),
        ("S * 1000000", "* takes numbers, not tuple and int"),
        ("'%s' % M", "% takes numbers"),
        ("S[7]", "tuple index out of range"),
        ("M[0]", "not subscriptable"),
        ("M < S", "not supported"),
        ("(-8) ** 0.5", "fractional power"),
        ("range(10 ** 9)", "more than 10000 items"),
        ("prod(M)", "prod takes a tuple of whole numbers"),
        ("ceildiv(x, 2)", "ceildiv takes whole numbers, not 0.5"),
        ("prev_pow2(0)", "needs a positive number"),
        ("axes_of((3,), 3)", "axis out of range; expected -3 <= axis < 3, got (3,)"),
        ("broadcast((2,), (3,))", "do not broadcast"),
        ("sizeof('f17')", "dtype cannot be used"),
        ("rank(M)", "rank takes"),
        ("max()", "empty"),
        ("max(1, S)", "max takes numbers"),
        ("1e308 ** 2", "too large"),
    ],
)
def test_refused_when_evaluated(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse(text).evaluate(NAMES)
    assert message in str(caught.value)


def test_short_circuit_guards() -> None:
    assert parse("Z != 0 and M // Z").evaluate(NAMES) is False
    assert parse("1 if Z == 0 else M // Z").evaluate(NAMES) == 1


def test_a_comment_is_the_note() -> None:
    expression = parse("N > 0  # an empty reduction has no maximum")
    assert expression.note == "an empty reduction has no maximum"
    assert expression.evaluate(NAMES) is False
    assert parse("kind == '#'").note == ""


def test_names_and_equality() -> None:
    expression = parse("ceildiv(M, N) + len(S)")
    assert expression.names == {"M", "N", "S"}
    assert expression.calls == {"ceildiv", "len"}
    assert expression == parse("ceildiv(M, N) + len(S)")
    assert hash(expression) == hash(parse(str(expression)))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="MNS ()[]+-*/%<>=.,:'\"#0123456789efijlnor_{}\\\n@~", max_size=30))
def test_only_our_errors(text: str) -> None:
    with contextlib.suppress(InvalidArgumentError):
        parse(text).evaluate(NAMES)
