"""Meaning of single instructions as LLVM IR, in tables keyed by base opcode.

``PURE`` rules read registers and write registers, lane by lane: no memory, no control, no other
lane. They must be safe on lanes that are switched off (no trap: a division guards its divisor).
``WARP`` rules see all lanes of a warp and the mask of those that take part.
"""
