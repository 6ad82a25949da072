"""Switching from one stack to another, by machine: save what a callee keeps, load the same.

``ge2rt_switch(ptr where to store the stack pointer, i64 the other stack pointer)``; a fresh stack
returns into ``ge2rt_trampoline``, which calls its function with its strand.
"""

from __future__ import annotations

SWITCH = {
    "x86_64": """
module asm ".text"
module asm ".p2align 4"
module asm "ge2rt_switch:"
module asm "  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15"
module asm "  movq %rsp, (%rdi); movq %rsi, %rsp"
module asm "  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; retq"
module asm "ge2rt_trampoline:"
module asm "  movq %r15, %rdi; callq *%r14; ud2"
""",
    "aarch64": """
module asm ".text"
module asm ".p2align 4"
module asm "ge2rt_switch:"
module asm "  sub sp, sp, #160; stp x19, x20, [sp]; stp x21, x22, [sp, #16]"
module asm "  stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]; stp x27, x28, [sp, #64]"
module asm "  stp x29, x30, [sp, #80]; stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]"
module asm "  stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]"
module asm "  mov x9, sp; str x9, [x0]; mov sp, x1"
module asm "  ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]"
module asm "  ldp x25, x26, [sp, #48]; ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]"
module asm "  ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]"
module asm "  ldp d14, d15, [sp, #144]; add sp, sp, #160; ret"
module asm "ge2rt_trampoline:"
module asm "  mov x0, x19; blr x20; brk #1"
""",
}
# Bytes from the first saved word to the stack's top, and where strand, function and return lie.
FIRST_FRAME = {"x86_64": (72, 0, 8, 48), "aarch64": (160, 0, 8, 88)}
