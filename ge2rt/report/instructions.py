"""What the text of a PTX kernel tells: instructions by class, registers, the lines they stem from.

The text is read line by line, which is exact enough for counting and serves PTX that was never
loaded here. ``.loc`` is described in the PTX ISA manual, "Debugging Directives".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ge2rt.report.records import Instructions, LineLink

_COMMENT = re.compile(r"//.*")
_STATEMENT = re.compile(r"\s*[{}]*\s*(?:@!?[%\w$]+\s+)?([a-z]\w*(?:(?:\.|::)\w+)*)")
_LABEL = re.compile(r"\s*[$%\w]+:\s*")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+%\w+<(\d+)>")
_LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+[^,]+,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_SECTION = re.compile(r"^\s*\.section\s+\.debug\w*\s*\{.*?^\s*\}", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')

# Spaces of loads, stores and atomics; without one the address is generic, which is global here.
_SPACES = {"shared": "shared memory", "local": "local memory", "param": "parameters",
           "const": "parameters", "global": "global memory"}  # fmt: skip
_MEMORY = frozenset(["ld", "ldu", "st", "atom", "red", "prefetch", "cp", "ldmatrix", "stmatrix"])
_ROOTS = {
    "tensor cores": "mma wmma wgmma tcgen05",
    "special functions": "ex2 lg2 rcp rsqrt sqrt sin cos tanh",
    "compare and select": "setp selp set slct testp",
    "move and convert": "mov cvt cvta prmt pack unpack isspacep",
    "control": "bra brx ret call exit trap nanosleep",
    "warps and barriers": "bar barrier mbarrier membar fence shfl vote redux match elect",
}  # fmt: skip
_BY_ROOT = {root: name for name, roots in _ROOTS.items() for root in roots.split()}
_FLOATS = frozenset(["f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"])

CLASSES: tuple[str, ...] = (
    "float arithmetic", "integer and bits", "special functions", "tensor cores", "global memory",
    "shared memory", "local memory", "parameters", "compare and select", "move and convert",
    "warps and barriers", "control",
)  # fmt: skip
"""Names of the classes, in the order in which they are shown."""


def count_instructions(ptx: str) -> Instructions:
    """Instructions in a PTX text by class, each counted once however often it runs."""
    found = Counter(class_of(opcode) for line in ptx.splitlines() for opcode in _opcodes(line))
    registers: Counter[str] = Counter()
    for kind, count in _REGISTERS.findall(ptx):
        registers[kind] += int(count) - 1  # %r<51> declares %r0 to %r50; %r0 is never used
    return Instructions({name: found[name] for name in CLASSES if found[name]}, dict(registers))


def class_of(opcode: str) -> str:
    """The class of an opcode such as ``ld.global.nc.f32``."""
    root, *parts = opcode.replace("::", ".").split(".")
    if root in _MEMORY:
        if root in ("ldmatrix", "stmatrix"):
            return "shared memory"
        if root == "cp":
            return "global memory"
        return next((_SPACES[part] for part in parts if part in _SPACES), "global memory")
    if root in _BY_ROOT:
        return _BY_ROOT[root]
    return "float arithmetic" if _FLOATS.intersection(parts) else "integer and bits"


def _opcodes(line: str) -> Iterator[str]:
    if "." not in line and ";" not in line:
        return
    for statement in _COMMENT.sub("", line).split(";")[:-1]:
        found = _STATEMENT.match(_LABEL.sub("", statement))
        if found:
            yield found[1]


def link_lines(ptx: str, source: str) -> tuple[str, tuple[LineLink, ...]]:
    """The PTX without lines for debuggers, and for its instructions the lines they stem from.

    ``source`` is the name under which the CUDA text was compiled: lines of other files (headers)
    are left out of the chains.
    """
    own = {int(number) for number, name in _files(ptx) if name.endswith(source)} or {1}
    parents: dict[tuple[int, ...], tuple[int, ...]] = {}
    kept: list[str] = []
    links: list[LineLink] = []
    chain: tuple[int, ...] = ()
    for line in _SECTION.sub("", ptx).splitlines():
        found = _LOC.match(line)
        if found:
            here, outer = _place(found, 1), _place(found, 4)
            if outer:
                parents[here] = outer
            else:
                parents.pop(here, None)
            chain = tuple(at for file, at, _ in _outward(here, parents) if file in own)
            continue
        if _FILE.match(line) or (not line.strip() and (not kept or not kept[-1].strip())):
            continue
        kept.append(line)
        if chain and any(_opcodes(line)):
            links.append(LineLink(len(kept), chain))
        elif line.startswith("}"):
            chain = ()
    return "\n".join(kept), tuple(links)


def _files(ptx: str) -> Iterator[tuple[str, str]]:
    for line in ptx.splitlines():
        found = _FILE.match(line)
        if found:
            yield found[1], found[2]


def _place(found: re.Match[str], first: int) -> tuple[int, ...]:
    return tuple(int(found[first + i]) for i in range(3)) if found[first] else ()


def _outward(
    place: tuple[int, ...], parents: dict[tuple[int, ...], tuple[int, ...]]
) -> Iterator[tuple[int, ...]]:
    """The place, where it was inlined, where that was inlined..."""
    seen: set[tuple[int, ...]] = set()
    while place and place not in seen:
        seen.add(place)
        yield place
        place = parents.get(place, ())
