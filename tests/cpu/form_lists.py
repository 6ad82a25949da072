"""The harvested forms: those that the generator feeds, and the tests that show the other ones."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import numpy as np
from cpu.form_kernels import REGISTER, form_of, kind_at, operands
from cpu.form_values import bits_of, edge_words

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "ptx" / "harvest.txt"
EXAMPLES = [line.split("  ", 1)[1] for line in GOLDEN.read_text().splitlines()]

_LANE_BY_LANE = frozenset((
    "abs", "add", "addc", "and", "atom", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "copysign",
    "cos", "cvt", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "ld", "lg2", "lop3", "mad", "madc",
    "max", "min", "mov", "mul", "neg", "not", "or", "popc", "prmt", "rcp", "rsqrt", "sad", "selp",
    "set", "setp", "shf", "shl", "shr", "sin", "sqrt", "st", "sub", "subc", "tanh", "vabsdiff2",
    "vabsdiff4", "xor",
))  # fmt: skip
_OVER_LANES = frozenset(("shfl", "vote", "match", "redux", "elect", "activemask"))

GRID_BARRIER = "test_complete_waits.py::test_waiting_programs_end_with_the_right_values"
# A pattern of forms and the test of their values, for what needs more than operands.
STATED: dict[str, str] = {
    r"mov\.u32 \S+, %envreg\d;": GRID_BARRIER,
    r"mov\.(b32|u32|u64|pred) .*%(?!p\d|r|f|envreg)\w+(\.[xyz])?;": "test_special_registers",
    r"cvta\..*": "test_addresses",
    r"isspacep\..*": "test_the_space_of_an_address",
    r"mov\.u(32|64) \S+, variable;|(mapa|getctarank)\..*": "test_addresses_of_shared_memory",
    r"(mov|atom\.\S*)\.b128 .*": "test_words_of_128_bits",
    r"wmma\..*": "test_wmma",
    r"ldmatrix\..*": "test_ldmatrix",
    r"mbarrier\..*|cp\.async\.mbarrier\..*": "test_mbarrier",
    r"cp\.async\.(ca|cg|commit_group|wait_group)\b.*": "test_asynchronous_copies",
    r"(membar|fence|bar\.sync|barrier\.(sync|cluster)|bar\.warp\.sync)\b.*": "test_orders",
    r"nanosleep\..*|pmevent .*|brkpt;": "test_hints_change_nothing",
    r"exit;": "test_lanes_that_exit",
    r"trap;": "test_trap_stops_the_launch",
    r"bar\.red\..*": "test_barriers_that_reduce",
}  # fmt: skip


def is_special(example: str) -> bool:
    """A move that reads a special register, a variable's address or 128 bits."""
    rest = REGISTER.sub("", " ".join(operands(example)))
    return form_of(example).startswith("mov") and ("%" in rest or "variable" in rest)


def is_generated(example: str) -> bool:
    """Whether the generator can feed a form."""
    opcode = form_of(example).split(".")[0]
    if "b128" in form_of(example) or is_special(example):
        return False
    return opcode in _LANE_BY_LANE or opcode in _OVER_LANES


def looks_over_lanes(example: str) -> bool:
    """Whether a form needs a whole warp."""
    return form_of(example).split(".")[0] in _OVER_LANES


def stated(example: str) -> list[str]:
    """The tests in ``test_form_statements.py`` that show a form's value."""
    return [test for pattern, test in STATED.items() if re.fullmatch(pattern, example)]


def with_other_constants(example: str, number: int) -> list[str]:
    """The form with edge values for its constants, ``number`` times; [] where it has none."""
    rng = np.random.default_rng(zlib.crc32(example.encode()))
    parts = operands(example)
    mods = form_of(example).split(".")
    at = [k for k, text in enumerate(parts) if k and re.fullmatch(r"-?\d+|0[fd][0-9A-F]+", text)]
    if not at or mods[0] in ("st", "mov"):
        return []
    out = []
    for _ in range(number):
        changed = list(parts)
        for k in at:
            changed[k] = _constant(mods, k, rng)
        out.append(f"{'.'.join(mods)} {', '.join(changed)};")
    return out


def _constant(mods: list[str], place: int, rng: np.random.Generator) -> str:
    if mods[0] == "lop3":
        return str(rng.integers(0, 256))
    kind = kind_at(mods, place)
    word = int(rng.choice(np.array(edge_words(kind), np.uint64)))
    if kind == "f32":
        return f"0f{word:08X}"
    if kind == "f64":
        return f"0d{word:016X}"
    if kind == "count" or kind[0] == "u" or mods[0] in ("prmt", "bfi"):
        return str(word)
    return str(struct.unpack("<q", struct.pack("<Q", word << (64 - bits_of(kind))))[0]
               >> (64 - bits_of(kind)))  # fmt: skip
