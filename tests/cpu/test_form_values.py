"""Each form that NVRTC was seen to emit computes the right value.

The generator of ``form_kernels.py`` feeds a form edge values and random ones in all lanes; the CPU
device must agree with the interpreter of ``tests/oracle`` to the bit, and approximate forms must
stay within the manual's bounds. What it cannot feed stands in ``form_lists.STATED``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cpu.form_kernels import form_of, fragment, space_of
from cpu.form_lists import (
    EXAMPLES,
    STATED,
    is_generated,
    looks_over_lanes,
    stated,
    with_other_constants,
)
from cpu.form_run import Batch, Way

from ge2rt.ptx import codegen

TOGETHER = 8  # forms in a kernel


def chunks() -> Iterator[list[str]]:
    groups: dict[tuple[str, bool], list[str]] = {}
    for example in filter(is_generated, EXAMPLES):
        key = space_of(example), looks_over_lanes(example)
        groups.setdefault(key, []).append(example)
    for members in groups.values():
        for start in range(0, len(members), TOGETHER):
            yield members[start : start + TOGETHER]


CHUNKS = list(chunks())


def ways(number: int, examples: list[str], full: bool) -> list[Way]:
    """The widths and qualities of code to run a kernel as.

    All of them with ``--full``: whole and half warps, one lane at a time, optimised and not, with
    the rules for AVX-512 and without. Else each form as a quick whole warp and as single lanes.
    """
    host = codegen.host().features
    if looks_over_lanes(examples[0]):
        narrow: list[Way] = []
    else:
        narrow = [Way(1), Way(16), Way(16, host, 0)]
    wide = [Way(32, "", 0), Way(32, host, 0), Way(32), Way(32, host)]
    if full:
        return wide + narrow
    return [wide[number % 2], *narrow[:1], *(wide[2:] + narrow[1:] if number % 20 == 0 else [])]


def name(number: int) -> str:
    return f"{number}-{form_of(CHUNKS[number][0])}"


@pytest.mark.parametrize("number", range(len(CHUNKS)), ids=name)
def test_values(number: int, full: bool) -> None:
    examples = CHUNKS[number]
    more = [e for one in examples for e in with_other_constants(one, 4 if full else 1)]
    count = 192 if full else 64
    batches = [Batch([fragment(e) for e in part], count) for part in (examples, more) if part]
    atoms = [e for e in examples if e.startswith("atom")]
    if atoms:
        batches.append(Batch([fragment(e, joined=4) for e in atoms], count))
    if full and not looks_over_lanes(examples[0]):  # a member mask must name its lane
        batches.append(Batch([fragment(e) for e in examples], 448, uniform=True))
    faults = []
    for batch in batches:
        expected = batch.on_the_oracle()
        for way in ways(number, examples, full):
            faults += [f"{way}: {text}" for text in batch.differences(batch.on_the_device(way),
                                                                      expected)]  # fmt: skip
    assert not faults


def test_no_form_is_left_out() -> None:
    """Each is generated or stated in one test, and the tests that are named exist."""
    unknown = [e for e in EXAMPLES if is_generated(e) + len(stated(e)) != 1]
    assert unknown == []
    unused = [p for p in STATED if not any(re.fullmatch(p, e) for e in EXAMPLES)]
    assert unused == []
    for test in set(STATED.values()):
        file, _, name = test.rpartition("::")
        text = Path(__file__).with_name(file or "test_form_statements.py").read_text()
        tests = [n.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
        assert name in tests


UNKNOWN = ["frob.u32 %r1, %r2;", "bar.arrive 0, 64;", "red.global.add.u32 [%rd1], 1;"]


@pytest.mark.parametrize("example", UNKNOWN)
def test_an_unknown_form_is_neither(example: str) -> None:
    assert not is_generated(example)
    assert not stated(example)
