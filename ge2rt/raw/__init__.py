"""Kernels from any CUDA C++ text, by CuPy's calling conventions, on every device."""
