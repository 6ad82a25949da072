"""PTX text -> LLVM IR -> native object: the translator under the CPU device."""
