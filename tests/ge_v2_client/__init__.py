"""A small compiler as ge_v2's clients are written: it knows the native module and nothing of ge2rt.

Graph -> passes -> selection by scores -> ``launch_kernel(name, pointers, descs, stream)``. It keeps
the habits of such clients, bad ones too: results of launches are dropped, parameter blocks are
freed at once, the selector does not look at dtypes.
"""
