"""Names that people know from NumPy and PyTorch, and what stands here for them; for messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ge2rt.spec.suggest import did_you_mean

_DTYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "half": "f16", "float": "f32", "double": "f64",
    "int": "i32", "long": "i64", "bool": "bool",
}  # fmt: skip

PACKAGE: Mapping[str, str] = {
    **{name: f"dtypes are strings here: dtype={ours!r}" for name, ours in _DTYPES.items()},
    "cat": "use ge2rt.ops.concat", "concatenate": "use ge2rt.ops.concat",
    "array": "use ge2rt.tensor",
    "as_tensor": "use ge2rt.asarray", "Module": "use ge2rt.nn.Module",
    "functional": "use ge2rt.nn.functional", "compile": "use ge2rt.jit",
    "func": "use ge2rt.grad, ge2rt.vmap", "device": "devices are strings here: device='cpu'",
    "cuda": "devices are strings here: device='cuda:0'",
}  # fmt: skip

NETWORKS: Mapping[str, str] = {
    **{f"BatchNorm{n}d": "use nn.BatchNorm, which is for any number of axes" for n in (1, 2, 3)},
    "MaxPool2d": "use nn.functional.max_pool2d", "AvgPool2d": "use nn.functional.avg_pool2d",
    "ModuleDict": "a plain dict of modules may be an attribute", "utils":
    "clipping is optim.clip_grad_norm_", "init": "layers draw their weights by nn.manual_seed;"
    " write others with p.copy_(...) under ge2rt.no_grad()",
    "Transformer": "nn.MultiHeadAttention, nn.LayerNorm and nn.Linear make one",
}  # fmt: skip

_TENSOR_METHODS = {
    "mul": "multiply", "sub": "subtract", "div": "divide", "true_divide": "divide",
    "neg": "negative", "clamp": "clip", "eq": "equal", "ne": "not_equal", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
TENSORS: Mapping[str, str] = {
    **{name: f"use x.astype({ours!r})" for name, ours in _DTYPES.items()},
    "dim": "use x.ndim", "numel": "use x.size", "element_size": "use x.itemsize",
    "cpu": "use x.to('cpu')", "cuda": "use x.to('cuda:0')", "type": "use x.astype(dtype)",
    "data": "use x.detach()", "t": "use x.T", "copy": "use x.clone()", "ravel": "use x.flatten()",
    **{name: f"use x.{ours}(...)" for name, ours in _TENSOR_METHODS.items()},
    **{f"{name}_": f"use x.{ours}_(...)" for name, ours in _TENSOR_METHODS.items()},
    "mm": "use x @ y", "bmm": "use x @ y", "grad_fn": "use x.history",
    "view_as": "use x.view(other.shape)",
}  # fmt: skip


def hint(name: str, habits: Mapping[str, str], known: Iterable[str]) -> str:
    """A sentence behind a message, with a blank before it; empty for names of Python's own."""
    if name.startswith("_"):
        return ""
    told = habits.get(name)
    text = f"{told[0].upper()}{told[1:]}." if told else did_you_mean(name, known)
    return f" {text}" if text else ""
