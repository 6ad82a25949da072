"""Runs instruction rules on arrays: one native function a case, all cases in one LLVM module."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_int64, c_void_p
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from ge2rt.ptx.ast import Instr, Operand, Pair, Reg
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules import PURE, WARP
from ge2rt.ptx.rules.operands import float_text

LLVM_OF = {"uint16": "i16", "uint32": "i32", "uint64": "i64", "float32": "float",
           "float64": "double", "bool": "i1"}  # fmt: skip
NUMPY_OF = {v: k for k, v in LLVM_OF.items()}
STEP = 32


@dataclass
class Case:
    """``form`` applied to arrays, Python ints (immediates) and floats (f32 immediates)."""

    form: str
    sources: Sequence[Any]
    operands: tuple[Operand, ...] = ()
    mask: np.ndarray | None = None
    splatted: bool = False  # immediates come as vectors
    results: list[np.ndarray] = field(default_factory=list)

    @property
    def instr(self) -> Instr:
        op, *mods = self.form.split(".")
        return Instr(op, tuple(mods), self.operands or (Reg("%d"),), None, 7)


PAIR = (Pair(Reg("%d"), Reg("%p")),)


@lru_cache(maxsize=1)
def target() -> tuple[llvm.TargetMachine, str]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    found = llvm.Target.from_default_triple()
    return found.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=1
    ), features


def _source(e: Emitter, given: Any, k: int, at: str, lanes: int) -> Value:
    if isinstance(given, bool | np.bool_):
        raise TypeError("predicates come as arrays")
    if isinstance(given, int):
        return Value("i64", str(given))
    if isinstance(given, float):
        return Value("float", float_text(given))
    kind = LLVM_OF[given.dtype.name]
    memory = "i8" if kind == "i1" else kind
    pointer = e.raw(f"getelementptr {memory}, ptr %a{k}, i64 {at}", "ptr")
    full = f"<{lanes} x {memory}>" if lanes else memory
    value = e.raw(f"load {full}, ptr {pointer.text}, align 1", memory, lanes)
    # Not trunc: LLVM 22's EVEX compression drops a vpmovb2m whose mask register is reused in place.
    return e.compare("icmp ne", value, Value("i8", "0")) if kind == "i1" else value


def _store(e: Emitter, value: Value, k: int, at: str) -> str:
    kind = value.type
    if kind == "i1":
        value = e.convert("zext", value, "i8")
    pointer = e.raw(f"getelementptr {value.type}, ptr %r{k}, i64 {at}", "ptr")
    e.line(f"store {value}, ptr {pointer.text}, align 1")
    return NUMPY_OF[kind]


def _function(case: Case, name: str, lanes: int, features: str) -> tuple[Emitter, str, list[str]]:
    e = Emitter(lanes or 1, features=features)
    warp = case.instr.op in WARP
    sources = [_source(e, s, k, "%i", lanes) for k, s in enumerate(case.sources)]
    if warp:
        assert case.mask is not None
        mask = _source(e, case.mask, len(sources), "%i", lanes)
        sources = [e.splat(s, lanes) for s in sources]
        results = WARP[case.instr.op](e, case.instr, sources, mask)
    else:
        if case.splatted:
            sources = [e.splat(s, lanes) for s in sources]
        results = PURE[case.instr.op](e, case.instr, sources)
    for value in results:
        assert value.lanes == lanes, (case.form, value)
    kinds = [_store(e, v, k, "%i") for k, v in enumerate(results)]
    count = len(case.sources) + warp
    params = [f"ptr %a{k}" for k in range(count)] + [f"ptr %r{k}" for k in range(len(results))]
    text = (
        f"define void @{name}({', '.join([*params, 'i64 %n'])}) #0 {{\nentry:\n  br label %loop\n"
        "loop:\n  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n" + "\n".join(e.lines)
        + f"\n  %next = add i64 %i, {lanes or 1}\n  %more = icmp slt i64 %next, %n\n"
        "  br i1 %more, label %loop, label %end\nend:\n  ret void\n}\n"
    )  # fmt: skip
    return e, text, kinds


def run(cases: Sequence[Case], *, lanes: int = STEP, features: str | None = None) -> None:
    """Fill in ``results`` of each case."""
    machine, host = target()
    texts, declarations, built = [], {}, []
    for k, case in enumerate(cases):
        e, text, kinds = _function(case, f"f{k}", lanes, host if features is None else features)
        texts.append(text)
        declarations.update(e.declarations)
        built.append(kinds)
    attributes = (
        'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }'
    )
    module = llvm.parse_assembly("\n".join([*declarations.values(), *texts, attributes]))
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, _fresh_machine())
    engine.finalize_object()
    for k, (case, kinds) in enumerate(zip(cases, built, strict=True)):
        _call(engine.get_function_address(f"f{k}"), case, kinds)


def _fresh_machine() -> llvm.TargetMachine:
    found = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return found.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True
    )


def some(array: np.ndarray, lanes: int, step: int = 1) -> np.ndarray:
    """Every ``step``-th element for vectors, fewer for the scalar form, which shares the rules."""
    return array[:: step if lanes else 7 * step].copy()


def _padded(array: np.ndarray) -> np.ndarray:
    spare = -len(array) % STEP
    return (
        np.concatenate([array, np.resize(array, spare)]) if spare else np.ascontiguousarray(array)
    )


def _call(address: int, case: Case, kinds: list[str]) -> None:
    arrays = [s for s in case.sources if isinstance(s, np.ndarray)]
    n = len(arrays[0]) if arrays else len(case.mask)
    given = [_padded(s) if isinstance(s, np.ndarray) else None for s in case.sources]
    if case.mask is not None:
        given.append(_padded(case.mask))
    size = n + -n % STEP
    out = [np.zeros(size, kind) for kind in kinds]
    pointers = [a.ctypes.data if a is not None else 0 for a in given] + [o.ctypes.data for o in out]
    CFUNCTYPE(None, *[c_void_p] * len(pointers), c_int64)(address)(*pointers, size)
    case.results = [o[:n] for o in out]


# -- integer operands ----------------------------------------------------------------------------

EDGES = (0, 1, 2, 3, 7, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF,
         0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 0x123456789ABCDEF0, 0x7FFFFFFFFFFFFFFF,
         0x8000000000000000, 0xFFFFFFFFFFFFFFFF)  # fmt: skip


def wrap(x: int, bits: int) -> int:
    return x & ((1 << bits) - 1)


def signed(x: int, bits: int) -> int:
    x = wrap(x, bits)
    return x - (1 << bits) if x >> (bits - 1) else x


def operands(widths: tuple[int, ...], seed: int) -> list[np.ndarray]:
    """Pairs of edges (shifted against each other for a third operand), then random words."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.product(EDGES, EDGES))
    columns = [[p[0] for p in pairs], [p[1] for p in pairs], [p[0] ^ p[1] for p in pairs[::-1]]]
    out = []
    for width, column in zip(widths, columns, strict=False):
        fixed = np.array([wrap(v, width) for v in column], f"u{width // 8}")
        wild = rng.integers(0, 1 << width, 120, dtype=fixed.dtype, endpoint=False)
        out.append(np.concatenate([fixed, wild >> rng.integers(0, width, 120).astype(fixed.dtype)]))
    return out
