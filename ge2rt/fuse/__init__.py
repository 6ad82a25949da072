"""Fusion and code generation: ``ge2rt.fuse.lower.lower(graph)`` makes a program of launches."""
