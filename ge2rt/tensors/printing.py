"""A tensor as text, as NumPy writes arrays."""

from __future__ import annotations

import numpy as np

from ge2rt.tensors.tensor import Tensor


def text(x: Tensor) -> str:
    """``tensor([1., 2.], dtype=f32)``, with device and gradient where they are not the usual."""
    array = x._host()
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    body = np.array2string(array, separator=", ", prefix="tensor(")
    more = [f"dtype={x.dtype.name}"]
    if x.device != "cpu":
        more.append(f"device={x.device!r}")
    if 0 in x.shape:
        more.append(f"shape={x.shape}")
    if x.history is not None:
        more.append(f"history={x.history[0].name!r}")
    elif x.requires_grad:
        more.append("requires_grad=True")
    return f"tensor({body}, {', '.join(more)})"
