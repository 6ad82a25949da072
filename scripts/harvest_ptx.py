"""Collect the PTX forms that NVRTC emits, and say which the CPU device runs.

Compiles a kernel for every device function that CUDA's headers declare (math, half, bfloat16, fp8,
integer intrinsics, atomics, shuffles) and a set of programs with cooperative groups, CUB,
pipelines and tensor cores, for each architecture. Each distinct form (opcode, suffixes, kinds of
operands) becomes a line of ``tests/golden/ptx/harvest.txt``; ``docs/ptx-coverage.md`` is the table.
Lines from earlier runs stay, so that runs under several NVRTC versions add up.

    python scripts/harvest_ptx.py [--arch 80 ...] [--only tables]
"""

from __future__ import annotations

import argparse
import re
import site
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harvest_programs import PROGRAMS, SKIPPED

from ge2rt.base.errors import Ge2rtError
from ge2rt.ptx.ast import Address, Function, Imm, Instr, Not, Operand, Pair, Reg, Special, Symbol
from ge2rt.ptx.ast import Vector as Group
from ge2rt.ptx.parse import parse_module

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "ptx" / "harvest.txt"
ARCHES = (75, 80, 86, 89, 90)
HEADERS = (
    "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "crt/math_functions.h", "crt/device_functions.h",
    "crt/device_double_functions.h", "device_atomic_functions.h", "sm_20_atomic_functions.h",
    "sm_32_atomic_functions.h", "sm_60_atomic_functions.h", "sm_20_intrinsics.h",
    "sm_30_intrinsics.h", "sm_32_intrinsics.h", "sm_61_intrinsics.h", "crt/sm_70_rt.h",
    "crt/sm_80_rt.h", "crt/sm_90_rt.h", "cuda_awbarrier_primitives.h", "cuda_pipeline_primitives.h",
)  # fmt: skip
PRELUDE = "".join(
    f"#include <{name}>\n"
    for name in ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_pipeline_primitives.h")
)
BATCH = 60
EXTRA_INCLUDES: list[str] = []  # from the command line
_DECLARED = re.compile(
    r"(?P<head>[\w\s*]*?(?:DECL__|__device__|__device_builtin__)[\w\s*]*?)\b(?P<name>\w+)\s*"
    r"\((?P<args>[^()]*)\)\s*(?:(?:__\w+\s*)*(?:;|\{)|__DEF_IF_HOST)"
)
_NOISE = re.compile(r"/\*.*?\*/|//[^\n]*|^\s*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
_MACRO = re.compile(
    r"\b(?:extern|static|inline|__inline__|__forceinline__|__host__|__device__|__device_builtin__|"
    r"__cudart_builtin__|__\w*(?:DECL|STATIC|FUNCTIONS|INTRINSICS|NOEXCEPT)\w*__?|_CUDA_\w+|"
    r"__restrict__|cudaDeviceBuiltin)\b"
)


@dataclass
class Form:
    """A form: an example with registers named by their kind, and who emits it."""

    example: str
    archs: set[int] = field(default_factory=set)


# -- compiling -----------------------------------------------------------------------------------


def include_paths() -> list[str]:
    """Include folders of the installed CUDA wheels."""
    roots = [Path(p) for p in site.getsitepackages()]
    found = [p for root in roots for p in sorted((root / "nvidia").glob("*/include"))]
    found += [Path(p) for p in EXTRA_INCLUDES]
    return [str(p) for p in (*found, *(p / "cccl" for p in found if (p / "cccl").is_dir()))]


def compiled(source: str, arch: int, options: Iterable[str] = ()) -> tuple[str, str]:
    """(PTX, "") or ("", the compiler's log)."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "harvest.cu", [], [])
    flags = [f"-arch=compute_{arch}", "-std=c++17", "-default-device", "--device-int128", *options]
    try:
        nvrtc.compileProgram(program, [*flags, *(f"-I{p}" for p in include_paths())])
    except nvrtc.NVRTCError:
        return "", str(nvrtc.getProgramLog(program))
    text = nvrtc.getPTX(program)
    return (text.decode() if isinstance(text, bytes) else text).rstrip("\0"), ""


def declared() -> list[tuple[str, str, list[str]]]:
    """(result, name, argument types) of the device functions in the headers, each once."""
    found: dict[tuple[str, tuple[str, ...]], tuple[str, str, list[str]]] = {}
    for folder in include_paths():
        for header in HEADERS:
            path = Path(folder) / header
            if not path.is_file():
                continue
            text = _NOISE.sub(" ", path.read_text(errors="replace"))
            for match in _DECLARED.finditer(text):
                result = " ".join(_MACRO.sub(" ", match["head"]).split())
                given = [a for a in match["args"].split(",") if a.strip() not in ("", "void")]
                types = [_type(a) for a in given]
                name = match["name"]
                if result and None not in types and not name.startswith("operator"):
                    plain = [t for t in types if t is not None]
                    found.setdefault((name, tuple(plain)), (result, name, plain))
    return list(found.values())


def _type(argument: str) -> str | None:
    """The type of a declared argument, its name dropped; None where it cannot be told."""
    text = " ".join(_MACRO.sub(" ", argument.split("=")[0]).split())
    if "..." in text or "[" in text or "&" in text:
        return None
    match = re.fullmatch(r"(.*?[\s*])(\w+)", text)
    words = {"int", "float", "double", "long", "char", "short", "unsigned", "bool"}
    if match and match[2] not in words:
        return match[1].strip()
    return text


def kernel_of(number: int, function: tuple[str, str, list[str]]) -> str:
    """One line of CUDA: a kernel that calls the function on what it loads."""
    result, name, types = function
    arguments = ", ".join(
        f"({t})(p + {64 * k})" if t.endswith("*") else f"*({t}*)(p + {64 * k})"
        for k, t in enumerate(types)
    )
    call = f"{name}({arguments})"
    body = f"{call};" if result == "void" else f"auto r = {call}; *(decltype(r)*)q = r;"
    return f'extern "C" __global__ void k{number}(char *p, char *q) {{ {body} }}'


def texts_of_functions(arch: int) -> Iterator[str]:
    """PTX of all the declared functions that the compiler knows for an architecture."""
    functions = declared()
    for start in range(0, len(functions), BATCH):
        lines = [kernel_of(k, f) for k, f in enumerate(functions[start : start + BATCH])]
        for options in ([], ["-use_fast_math"]):
            yield from _without_faults(lines, arch, options)


def _without_faults(lines: list[str], arch: int, options: list[str]) -> Iterator[str]:
    head = PRELUDE.count("\n")
    left = list(lines)
    for _ in range(6):
        text, log = compiled(PRELUDE + "\n".join(left), arch, options)
        if text:
            yield text
            return
        bad = {int(n) - head - 1 for n in re.findall(r"harvest\.cu\((\d+)\): error", log)}
        if not bad:
            return
        left = [line for k, line in enumerate(left) if k not in bad]


def texts_of_programs(arch: int) -> Iterator[str]:
    """PTX of the programs that the compiler accepts for an architecture."""
    for name, source in PROGRAMS.items():
        text, log = compiled(source, arch)
        if text:
            yield text
        elif name not in SKIPPED:
            print(f"sm_{arch} {name}: {log.strip().splitlines()[0] if log else 'failed'}")


# -- forms ---------------------------------------------------------------------------------------

_KINDS = {"pred": "p", "b8": "rb", "b16": "rs", "b32": "r", "b64": "rd", "f32": "f", "f64": "fd",
          "b128": "rq"}  # fmt: skip


def forms_in(ptx: str) -> Iterator[str]:
    """Examples of all instructions in a module."""
    module = parse_module(ptx)
    for function in module.functions.values():
        for block in function.blocks:
            for instr in block.instrs:
                if instr.op not in ("bra", "brx", "call", "ret"):
                    yield example(instr, function)


def example(instr: Instr, function: Function) -> str:
    """The instruction with registers named by kind and numbered in order."""
    names = _Names(function)
    operands = ", ".join(names.text(o) for o in instr.operands)
    return f"{instr.form} {operands}".strip() + ";"


class _Names:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._given: dict[str, str] = {}

    def text(self, operand: Operand | None) -> str:
        """An operand as PTX text."""
        if operand is None:
            return "_"
        if isinstance(operand, Reg):
            return self._register(operand.name)
        if isinstance(operand, Imm):
            digits = 8 if operand.kind == "f32" else 16
            mark = {"f32": "0f", "f64": "0d"}.get(operand.kind)
            return f"{mark}{operand.value:0{digits}X}" if mark else str(operand.value)
        if isinstance(operand, Special):
            return f"%{operand.name}" + (f".{operand.axis}" if operand.axis else "")
        if isinstance(operand, Symbol):
            return "variable"
        if isinstance(operand, Address):
            base = "variable" if isinstance(operand.base, Symbol) else self.text(operand.base)
            return f"[{base}]"
        if isinstance(operand, Group):
            return "{" + ", ".join(self.text(o) for o in operand.items) + "}"
        if isinstance(operand, Pair):
            return f"{self.text(operand.first)}|{self.text(operand.second)}"
        assert isinstance(operand, Not)
        return "!" + self.text(operand.operand)

    def _register(self, name: str) -> str:
        kind = self._function.registers[name]
        kind = kind if kind in _KINDS else f"b{kind[1:]}" if kind[0] in "us" else "b16"
        return self._given.setdefault(name, f"%{_KINDS[kind]}{len(self._given) + 1}")


def shape(text: str) -> str:
    """What makes two examples one form: kinds of operands, not numbers."""
    text = re.sub(r"%(p|rb|rs|rd|rq|r|fd|f)\d+", r"%\1", text)
    return re.sub(r"(?<=[ {,])-?(?:0[fd][0-9A-F]+|\d+)(?=[,;}])", "#", text)


# -- the files -----------------------------------------------------------------------------------


def read_golden() -> dict[str, Form]:
    """The forms known so far, by shape."""
    found: dict[str, Form] = {}
    if GOLDEN.is_file():
        for line in GOLDEN.read_text().splitlines():
            archs, _, text = line.partition("  ")
            found[shape(text)] = Form(text, {int(a) for a in archs.split(",")})
    return found


def write_golden(forms: dict[str, Form]) -> None:
    """One line a form, sorted."""
    lines = [f"{','.join(map(str, sorted(f.archs)))}  {f.example}" for f in forms.values()]
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    GOLDEN.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ", 1)[1])) + "\n")


def collect(arches: Iterable[int], only: str | None) -> dict[str, Form]:
    """Forms of all sources, added to those known."""
    forms = read_golden()
    for arch in arches:
        texts = [] if only == "programs" else [*texts_of_functions(arch)]
        texts += [] if only == "functions" else [*texts_of_programs(arch)]
        for text in texts:
            try:
                examples = set(forms_in(text))
            except Ge2rtError as fault:
                print(f"sm_{arch}: {fault}")
                continue
            for one in examples:
                forms.setdefault(shape(one), Form(one)).archs.add(arch)
        write_golden(forms)
        print(f"sm_{arch}: {len(forms)} forms so far", flush=True)
    return forms


def main() -> None:
    """Collect, then write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", type=int, nargs="*", default=ARCHES)
    parser.add_argument("--only", choices=["tables", "functions", "programs"],
                        help="tables: do not compile anything")  # fmt: skip
    parser.add_argument("--include", nargs="*", default=[], help="further folders of headers")
    options = parser.parse_args()
    EXTRA_INCLUDES.extend(options.include)
    forms = read_golden() if options.only == "tables" else collect(options.arch, options.only)
    write_golden(forms)
    from ptx_coverage import write_table

    write_table(forms)


if __name__ == "__main__":
    main()
