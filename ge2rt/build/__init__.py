"""From a bound call to a compiled binary: problem, source, key, store, NVRTC. Needs no GPU."""
