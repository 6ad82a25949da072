"""The table of PTX forms that NVRTC emits, and which of them the CPU device runs.

``harvest_ptx.py`` collects the forms; here each is put into a kernel of its own and lowered.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ge2rt.base.errors import Ge2rtError
from ge2rt.ptx.isa import check_module
from ge2rt.ptx.lower import lower_to_ir
from ge2rt.ptx.native import LowerOptions
from ge2rt.ptx.parse import parse_module

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "ptx-coverage.md"
TESTS = ROOT / "tests"
REFUSED = {
    "tex": "textures", "tld4": "textures", "txq": "textures", "istypep": "textures",
    "suld": "surfaces", "sust": "surfaces", "sured": "surfaces", "suq": "surfaces",
    "wgmma": "warp-group matrices (sm_90a)", "tcgen05": "tensor memory (sm_100a)",
    "cp.async.bulk": "tensor memory accelerator", "cp.reduce": "tensor memory accelerator",
    "red.async": "distributed shared memory", "st.async": "distributed shared memory",
    "multimem": "multicast memory", "setmaxnreg": "register budgets of warp groups (sm_90a)",
    "tensormap": "tensor memory accelerator",
}  # fmt: skip
"""Opcodes that the CPU device refuses by name, and what they belong to."""

_HEAD = """.version {version}
.target sm_{arch}
.address_size 64
.global .align 16 .b8 variable[64];
.visible .entry k(.param .u64 a)
{{
.reg .pred %p<40>; .reg .b8 %rb<40>; .reg .b16 %rs<40>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
.reg .f32 %f<40>; .reg .f64 %fd<40>; .reg .b128 %rq<40>;
{text}
ret;
}}
"""


class Known(Protocol):
    """What the table needs of a form."""

    example: str
    archs: set[int]


def refusal(form: str) -> str:
    """What a refused form belongs to, or ""."""
    for name, what in REFUSED.items():
        if form == name or form.startswith(name + "."):
            return what
    return ""


def space_of(example: str) -> str:
    """The state space of the variable that an example may name."""
    head = example.split()[0]
    return next((s for s in ("shared", "const", "local", "param") if f".{s}" in head), "global")


def module_with(examples: Sequence[str], arch: int) -> str:
    """A module whose kernel holds the instructions, all of one state space."""
    space = space_of(examples[0])
    version = "8.7" if arch < 100 else "9.0"
    text = _HEAD.format(version=version, arch=arch, text="\n".join(examples))
    if space == "param":
        return text.replace("variable]", "a]")
    variable = ".global .align 16 .b8 variable[64];"
    if space == "local":
        return text.replace(variable, "").replace(
            "{\n", "{\n" + variable.replace("global", space), 1
        )
    return text.replace(variable, variable.replace("global", space))


def fault_of(example: str, arch: int) -> str:
    """Why the form does not lower, or ""."""
    try:
        module = parse_module(module_with([example], arch))
        check_module(module)
        lower_to_ir(module, "k", LowerOptions((64, 1, 1)))
    except Ge2rtError as fault:
        return str(fault).splitlines()[0]
    return ""


def form_of(example: str) -> str:
    """The dotted name."""
    return re.split(r"[ ;]", example, maxsplit=1)[0]


def shown_by(example: str) -> set[str]:
    """The tests of a form's value."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    from cpu.form_lists import is_generated, stated

    return {*(["generator"] if is_generated(example) else []), *stated(example)}


@dataclass
class Row:
    """A form in the table."""

    archs: set[int] = field(default_factory=set)
    status: str = "runs"
    tests: list[set[str]] = field(default_factory=list)  # of each example

    @property
    def has_value(self) -> bool:
        """Whether a test shows what each example computes."""
        return all(self.tests)


_INTRO = """# PTX that the CPU device runs

Made by `scripts/harvest_ptx.py`: every form that NVRTC was seen to emit for the device
functions of CUDA's headers and for programs with cooperative groups, CUB, pipelines and
tensor cores. `tests/cpu/test_complete_harvest.py` fails on one that does not lower,
`tests/cpu/test_form_values.py` on one whose value no test shows.

{forms} forms of {families} opcodes; {run} run, the others are refused when the module is loaded.
{valued} have a test of their value: the generator of `tests/cpu/test_form_values.py` (edge values
and random ones in all lanes against the interpreter of `tests/oracle`, approximate forms against
the manual's bounds), or the test of `tests/cpu/test_form_statements.py` that the last table names.
"""


def write_table(forms: Mapping[str, Known]) -> None:
    """``docs/ptx-coverage.md``; gaps are printed, too."""
    rows: dict[str, Row] = {}
    for known in forms.values():
        form = form_of(known.example)
        row = rows.setdefault(form, Row())
        refused = refusal(form)
        fault = "" if refused else fault_of(known.example, max(known.archs))
        if fault:
            print(f"gap: {known.example}  {fault}", file=sys.stderr)
        if refused or fault:
            row.status = f"refused: {refused}" if refused else f"gap: {fault}"
        row.archs |= known.archs
        row.tests.append(shown_by(known.example))
    TABLE.write_text("\n".join(_lines(rows)) + "\n")


def _lines(rows: Mapping[str, Row]) -> Iterator[str]:
    families: dict[str, list[str]] = {}
    for form in sorted(rows):
        families.setdefault(form.split(".")[0], []).append(form)
    yield _INTRO.format(forms=len(rows), families=len(families),
                        run=sum(r.status == "runs" for r in rows.values()),
                        valued=sum(r.has_value for r in rows.values()))  # fmt: skip
    yield from ("| opcode | forms | with a test of their value |", "|---|---|---|")
    for family in sorted(families):
        members = [rows[form] for form in families[family]]
        yield f"| `{family}` | {len(members)} | {sum(r.has_value for r in members)} |"
    yield from ("", "| form | compute capability | status | value |", "|---|---|---|---|")
    for family in sorted(families):
        for form in families[family]:
            row = rows[form]
            archs = " ".join(map(str, sorted(row.archs)))
            tests = ", ".join(t.rpartition("::")[2] for t in sorted(set().union(*row.tests)))
            yield f"| `{form}` | {archs} | {row.status} | {tests or 'none'} |"
