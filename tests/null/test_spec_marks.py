"""YAML with places: values, marks, duplicate keys, syntax errors, bombs."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge2rt.spec.marks import MAX_BYTES, MarksFault, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1e-5", {"a": 1e-5}),
        ("a: 1.0e-5", {"a": 1e-5}),
        ("a: .5", {"a": 0.5}),
        ("a: 0x10", {"a": 16}),
        ("a: 0o17", {"a": 15}),
        ("a: 010", {"a": 10}),
        ("a: -3", {"a": -3}),
        ("a: -.inf", {"a": -math.inf}),
        ("a: 1_000", {"a": "1_000"}),
        ("a: no", {"a": "no"}),
        ("a: on", {"a": "on"}),
        ("a: true", {"a": True}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: '1'", {"a": "1"}),
        ("a: !!str 1", {"a": "1"}),
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        ("a: [N, Y, 1]", {"a": ["N", "Y", 1]}),
        ("1: x", {"1": "x"}),
        ("true: x", {"true": "x"}),
        ("b: &q {x: 1}\nc: *q", {"b": {"x": 1}, "c": {"x": 1}}),
        ("b: &q {x: 1, y: 1}\nc: {<<: *q, y: 2}", {"b": {"x": 1, "y": 1}, "c": {"y": 2, "x": 1}}),
        ("c: {<<: [{x: 1}, {x: 2, z: 3}]}", {"c": {"x": 1, "z": 3}}),
        ("\ufeffa: 1", {"a": 1}),
    ],
)
def test_values(text: str, value: object) -> None:
    assert read_yaml(text.encode()).value == value


def test_nan_is_a_number() -> None:
    assert math.isnan(read_yaml("a: .nan").value["a"])


def test_marks_of_values_and_keys() -> None:
    document = read_yaml("a: 1\nlist:\n  - x: 2\n  - {y: [3, 4]}\n")
    assert document.mark(("a",)) == (1, 4)
    assert document.mark(("a",), key=True) == (1, 1)
    assert document.mark(("list", 1, "y", 1)) == (4, 13)
    assert document.mark(("list", 1, "y"), key=True) == (4, 6)
    assert document.mark(("list", 1, "nowhere", 3)) == (4, 5)


def test_duplicate_keys_are_all_found() -> None:
    document = read_yaml("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    assert document.faults == (
        ((2, 11), ("b", "c"), "duplicate key, first on line 2"),
        ((3, 1), ("a",), "duplicate key, first on line 1"),
    )
    assert document.value == {"a": 1, "b": {"c": 1}}


def test_a_number_of_many_digits_is_a_fault() -> None:
    assert read_yaml("a: " + "9" * 5000).faults[0][2] == "the number has more than 100 digits"


@pytest.mark.parametrize(
    ("text", "mark", "message"),
    [
        (b"a: [1,\n", (2, 1), "YAML syntax: while parsing a flow node"),
        (b"a: 1\n\tb: 2", (2, 1), "YAML syntax"),
        (b"a: b: c", (1, 5), "mapping values are not allowed"),
        (b"a: !!python/object/apply:os.system [x]", (1, 4), "is not allowed"),
        (b"a: !!timestamp 2024-01-01", (1, 4), "the tag tag:yaml.org,2002:timestamp"),
        (b"a: 1\nb: &x [*x]", (2, 8), "the alias *x stands inside its anchor"),
        (b"a: *q", (1, 4), "no anchor &q"),
        (b"--- 1\n--- 2", (2, 1), "a second YAML document"),
        (b"? [a]\n: b", (1, 3), "a key must be a word"),
        (b"a: 1\nb: \xff", (2, 4), "the file is not UTF-8 text"),
        (b"a: \x00", (1, 4), "YAML syntax"),
        (b"{<<: 3}", (1, 2), "<< takes a mapping"),
    ],
)
def test_faults_that_end_the_reading(text: bytes, mark: tuple[int, int], message: str) -> None:
    with pytest.raises(MarksFault) as caught:
        read_yaml(text)
    assert caught.value.mark == mark
    assert message in caught.value.message


def test_bombs_are_bounded() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(MarksFault, match="values after expansion"):
        read_yaml("\n".join(rows))
    with pytest.raises(MarksFault, match=r"nested deeper|nesting depth"):
        read_yaml("[" * 5000)
    with pytest.raises(MarksFault, match="nested deeper than 50 levels"):
        read_yaml("[" * 60 + "]" * 60)
    with pytest.raises(MarksFault, match="larger than 8 MiB"):
        read_yaml(b" " * (MAX_BYTES + 1))


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(st.binary(max_size=60), st.text(alphabet="ab:-[]{}&*!?|>'\"#\n\t <1.,%", max_size=40))
)
def test_only_marks_faults(data: bytes | str) -> None:
    with contextlib.suppress(MarksFault):
        read_yaml(data)
