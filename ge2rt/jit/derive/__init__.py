"""Functions of functions: gradients, pullbacks, tangents, batches. Inside ``@jit`` and alone.

Each runs the user's function on fresh symbols, works on the nodes that come out
(:mod:`ge2rt.autodiff`), and puts what was really given in place of the symbols. So forward and
backward are one graph, compiled and fused as one.
"""
