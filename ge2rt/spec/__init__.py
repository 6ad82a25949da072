"""What a kernel is: kernels.yaml, its schema, expressions, the registry, and matching of calls."""
