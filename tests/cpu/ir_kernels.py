"""Kernels in hand-written LLVM IR that obey the interface of ge2rt.ptx.native, and their device.

They stand in for the translator's output, so that the device is tested apart from it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ge2rt.device import objects
from ge2rt.device.cpu import CpuDevice
from ge2rt.device.translate import Translator
from ge2rt.ptx.isa import check_module, static_shared
from ge2rt.ptx.native import GlobalImage, GlobalSlot, LowerOptions, NativeKernel
from ge2rt.ptx.parse import parse_module

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry count(.param .u64 out, .param .u64 spins) { ret; }
.visible .entry stop_at(.param .u64 out, .param .u64 block) { ret; }
.visible .entry look(.param .u64 out) { ret; }
.visible .entry tiny(.param .u64 out, .param .f32 x) { ret; }
.visible .entry meet(.param .u64 out, .param .u64 patience) { ret; }
.visible .entry bounded(.param .u64 out) .maxntid 64, 1, 1 { ret; }
"""

_LOOP = """
define void @{name}(ptr %launch, ptr %arena, i64 %first, i64 %last) {{
entry:
  %params = load ptr, ptr %launch
  %out = load ptr, ptr %params
  %second_p = getelementptr i8, ptr %params, i64 8
  %abort_p = getelementptr i8, ptr %launch, i64 16
  %abort = load ptr, ptr %abort_p
  br label %loop
loop:
  %b = phi i64 [ %first, %entry ], [ %b1, %next ]
  %more = icmp slt i64 %b, %last
  br i1 %more, label %poll, label %exit
poll:
  %word = load atomic i32, ptr %abort monotonic, align 4
  %stop = icmp ne i32 %word, 0
  br i1 %stop, label %exit, label %block
block:
  {body}
next:
  %b1 = add i64 %b, 1
  br label %loop
exit:
  ret void
}}
"""

_COUNT = """
  %spins = load i64, ptr %second_p
  %cell = getelementptr i32, ptr %out, i64 %b
  %old = atomicrmw add ptr %cell, i32 1 monotonic
  br label %spin
spin:
  %i = phi i64 [ 0, %block ], [ %i1, %spin ]
  %v = phi i64 [ 1, %block ], [ %v2, %spin ]
  %v1 = mul i64 %v, 3
  %v2 = add i64 %v1, %i
  %i1 = add i64 %i, 1
  %again = icmp slt i64 %i1, %spins
  br i1 %again, label %spin, label %spun
spun:
  store i64 %v2, ptr %arena
  br label %next
"""

_STOP = """
  %at = load i64, ptr %second_p
  %cell = getelementptr i32, ptr %out, i64 %b
  %old = atomicrmw add ptr %cell, i32 1 monotonic
  %here = icmp eq i64 %b, %at
  br i1 %here, label %trap, label %next
trap:
  %r = cmpxchg ptr %abort, i32 0, i32 1 monotonic monotonic
  br label %next
"""

# out: [grid x y z, dynamic shared] as i32, the arena's and the variables' address, first variable
_LOOK = """
  %grid = getelementptr i8, ptr %launch, i64 32
  %shape = load <4 x i32>, ptr %grid, align 4
  store <4 x i32> %shape, ptr %out, align 4
  %arena_i = ptrtoint ptr %arena to i64
  %o1 = getelementptr i8, ptr %out, i64 16
  store i64 %arena_i, ptr %o1
  %globals_p = getelementptr i8, ptr %launch, i64 8
  %globals = load ptr, ptr %globals_p
  %o2 = getelementptr i8, ptr %out, i64 24
  store ptr %globals, ptr %o2
  %value = load i32, ptr %globals
  %o3 = getelementptr i8, ptr %out, i64 32
  store i32 %value, ptr %o3
  %value1 = add i32 %value, 1
  store i32 %value1, ptr %globals
  %dynamic = extractelement <4 x i32> %shape, i32 3
  %last_i = add i32 %dynamic, 4095
  %last_byte = zext i32 %last_i to i64
  %end = getelementptr i8, ptr %arena, i64 %last_byte
  store i8 1, ptr %end
  br label %next
"""

# out[0] = x / 2 (a subnormal where x is the smallest normal), out[1] = expf(x)
_TINY = """
  %x = load float, ptr %second_p
  %half = fmul float %x, 5.0e-1
  store float %half, ptr %out
  %e = call float @expf(float %x)
  %o1 = getelementptr i8, ptr %out, i64 4
  store float %e, ptr %o1
  br label %next
"""

# Block b (0 or 1) sets out[b], waits for the other's mark, and sets out[2 + b] where it saw it.
_MEET = """
  %patience = load i64, ptr %second_p
  %mine = getelementptr i32, ptr %out, i64 %b
  store atomic i32 1, ptr %mine seq_cst, align 4
  %rest = sub i64 1, %b
  %other = getelementptr i32, ptr %out, i64 %rest
  br label %wait
wait:
  %i = phi i64 [ 0, %block ], [ %i1, %spin ]
  %seen = load atomic i32, ptr %other seq_cst, align 4
  %met = icmp ne i32 %seen, 0
  br i1 %met, label %found, label %spin
spin:
  %i1 = add i64 %i, 1
  %on = icmp slt i64 %i1, %patience
  br i1 %on, label %wait, label %next
found:
  %at = add i64 %b, 2
  %mark = getelementptr i32, ptr %out, i64 %at
  store i32 1, ptr %mark
  br label %next
"""

_BODIES = {
    "count": _COUNT, "stop_at": _STOP, "look": _LOOK, "tiny": _TINY, "meet": _MEET,
    "bounded": _LOOK,
}  # fmt: skip

IMAGE = GlobalImage(
    slots=(GlobalSlot("counter", "global", 0, 4), GlobalSlot("pointer", "global", 8, 8)),
    image=b"\7\0\0\0" + bytes(12),
    relocations=((8, 0),),
)


@cache
def native_object(name: str) -> bytes:
    text = "declare float @expf(float)\n" + _LOOP.format(name=name, body=_BODIES[name])
    return objects.compile_ir(text)


def lower(module: Any, entry: str, options: LowerOptions) -> NativeKernel:
    function = module.functions[entry]
    return NativeKernel(
        entry=entry, symbol=entry, object_code=native_object(entry), llvm_ir="",
        param_bytes=function.param_bytes,
        param_layout=tuple((p.type, p.offset, p.nbytes) for p in function.params),
        shared_bytes=0, arena_bytes=4096, notes=(f"block {options.block}",),
    )  # fmt: skip


def translator() -> Translator:
    return Translator(
        parse=parse_module, check=check_module, lower=lower, emit=lambda kernel, options: kernel,
        image=lambda module: IMAGE,
        static_shared=static_shared, version="hand-written",
    )  # fmt: skip


def make_device(store: objects.ObjectStore | None = None) -> CpuDevice:
    return CpuDevice(store=store or objects.MemoryStore(), translator=translator)
