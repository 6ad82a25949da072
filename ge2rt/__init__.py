"""ge2rt: a kernel runtime that compiles from source at run time, for GPUs and for CPUs.

The public names are loaded on first use, so ``import ge2rt`` reads no file, touches no device and
costs little more than NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# public name -> module that holds it
_PUBLIC = {
    "GE2_API_VERSION": "ge2rt.spec.version",
    "check_api_version": "ge2rt.spec.version",
    "check_client": "ge2rt.spec.version",
    "launch_kernel": "ge2rt.abi",
    "query_kernels": "ge2rt.abi",
    "query_capability": "ge2rt.abi",
    "ge_v2_kernel_table_raw": "ge2rt.abi",
    "ge_v2_capability_table_raw": "ge2rt.abi",
    "last_error": "ge2rt.base.errors",
    "prepare": "ge2rt.run.launch",
    "launch": "ge2rt.faces",
    "choice": "ge2rt.faces",
    "warmup": "ge2rt.faces",
    "synchronize": "ge2rt.faces",
    "clear_caches": "ge2rt.faces",
    "Stream": "ge2rt.faces",
    "Event": "ge2rt.faces",
    "RawModule": "ge2rt.raw.module",
    "RawKernel": "ge2rt.raw.module",
    "ElementwiseKernel": "ge2rt.raw.elementwise",
    "ReductionKernel": "ge2rt.raw.reduction",
    "jit": "ge2rt.jit",
    "JitFunction": "ge2rt.jit.function",
    "grad": "ge2rt.jit.derive.gradients",
    "value_and_grad": "ge2rt.jit.derive.gradients",
    "vjp": "ge2rt.jit.derive.directions",
    "jvp": "ge2rt.jit.derive.directions",
    "vmap": "ge2rt.jit.derive.batches",
    "jacobian": "ge2rt.jit.derive.jacobians",
    "hessian": "ge2rt.jit.derive.jacobians",
    "Compiled": "ge2rt.jit.compiled",
    "cos": "ge2rt.jit.functions",
    "detach": "ge2rt.jit.functions",
    "einsum": "ge2rt.jit.functions",
    "erf": "ge2rt.jit.functions",
    "exp": "ge2rt.jit.functions",
    "expm1": "ge2rt.jit.functions",
    "gather": "ge2rt.jit.functions",
    "gelu": "ge2rt.jit.functions",
    "log": "ge2rt.jit.functions",
    "log1p": "ge2rt.jit.functions",
    "log_softmax": "ge2rt.jit.functions",
    "logsumexp": "ge2rt.jit.functions",
    "matmul": "ge2rt.jit.functions",
    "maximum": "ge2rt.jit.functions",
    "minimum": "ge2rt.jit.functions",
    "relu": "ge2rt.jit.functions",
    "rsqrt": "ge2rt.jit.functions",
    "sigmoid": "ge2rt.jit.functions",
    "silu": "ge2rt.jit.functions",
    "sin": "ge2rt.jit.functions",
    "softmax": "ge2rt.jit.functions",
    "sqrt": "ge2rt.jit.functions",
    "take": "ge2rt.jit.functions",
    "tanh": "ge2rt.jit.functions",
    "topk": "ge2rt.jit.functions",
    "where": "ge2rt.jit.functions",
    "Tensor": "ge2rt.tensors",
    "Storage": "ge2rt.tensors.storage",
    "tensor": "ge2rt.tensors.making",
    "asarray": "ge2rt.tensors.making",
    "from_numpy": "ge2rt.tensors.making",
    "from_dlpack": "ge2rt.tensors.making",
    "empty": "ge2rt.tensors.making",
    "full": "ge2rt.tensors.making",
    "zeros": "ge2rt.tensors.making",
    "ones": "ge2rt.tensors.making",
    "arange": "ge2rt.tensors.making",
    "linspace": "ge2rt.tensors.making",
    "eye": "ge2rt.tensors.making",
    "kernel_operator": "ge2rt.tensors.kernels",
    "save": "ge2rt.tensors.files",
    "load": "ge2rt.tensors.files",
    "Generator": "ge2rt.tensors.random",
    "manual_seed": "ge2rt.tensors.random",
    "rand": "ge2rt.tensors.random",
    "randn": "ge2rt.tensors.random",
    "randint": "ge2rt.tensors.random",
    "randperm": "ge2rt.tensors.random",
    "no_grad": "ge2rt.tensors.tape",
    "enable_grad": "ge2rt.tensors.tape",
    "dispatch": "ge2rt.tensors.dispatch",
    "ops": "ge2rt.ops",
    "autograd": "ge2rt.tensors.autograd",
    "array_api": "ge2rt.array_api",
    "nn": "ge2rt.nn",
    "optim": "ge2rt.optim",
    "parallel": "ge2rt.parallel",
    "sparse": "ge2rt.sparse",
    "torch": "ge2rt.torch",
    "load_registry": "ge2rt.spec.registry",
    "get_device": "ge2rt.device.registry",
    "register_device": "ge2rt.device.registry",
    "Plan": "ge2rt.run.plan",
    "Status": "ge2rt.base.errors",
    "ErrorRecord": "ge2rt.base.errors",
    "Ge2rtError": "ge2rt.base.errors",
    "InvalidArgumentError": "ge2rt.base.errors",
    "InvalidTypeError": "ge2rt.base.errors",
    "DeviceError": "ge2rt.base.errors",
    "UnsupportedError": "ge2rt.base.errors",
    "CompileError": "ge2rt.base.errors",
    "OutOfMemoryError": "ge2rt.base.errors",
    "VersionError": "ge2rt.base.errors",
    "InternalError": "ge2rt.base.errors",
    "RegistryError": "ge2rt.base.errors",
}

# without "torch", which `from ge2rt import *` would put in the place of PyTorch
__all__ = sorted([*(name for name in _PUBLIC if name != "torch"), "__version__"])

if TYPE_CHECKING:
    from ge2rt import array_api, nn, ops, optim, parallel, sparse, torch
    from ge2rt.abi import (
        ge_v2_capability_table_raw,
        ge_v2_kernel_table_raw,
        launch_kernel,
        query_capability,
        query_kernels,
    )
    from ge2rt.base.errors import (
        CompileError,
        DeviceError,
        ErrorRecord,
        Ge2rtError,
        InternalError,
        InvalidArgumentError,
        InvalidTypeError,
        OutOfMemoryError,
        RegistryError,
        Status,
        UnsupportedError,
        VersionError,
        last_error,
    )
    from ge2rt.device.registry import get_device, register_device
    from ge2rt.faces import Event, Stream, choice, clear_caches, launch, synchronize, warmup
    from ge2rt.jit.compiled import Compiled
    from ge2rt.jit.derive.batches import vmap
    from ge2rt.jit.derive.directions import jvp, vjp
    from ge2rt.jit.derive.gradients import grad, value_and_grad
    from ge2rt.jit.derive.jacobians import hessian, jacobian
    from ge2rt.jit.function import JitFunction, jit
    from ge2rt.jit.functions import (
        cos,
        detach,
        einsum,
        erf,
        exp,
        expm1,
        gather,
        gelu,
        log,
        log1p,
        log_softmax,
        logsumexp,
        matmul,
        maximum,
        minimum,
        relu,
        rsqrt,
        sigmoid,
        silu,
        sin,
        softmax,
        sqrt,
        take,
        tanh,
        topk,
        where,
    )
    from ge2rt.raw.elementwise import ElementwiseKernel
    from ge2rt.raw.module import RawKernel, RawModule
    from ge2rt.raw.reduction import ReductionKernel
    from ge2rt.run.launch import prepare
    from ge2rt.run.plan import Plan
    from ge2rt.spec.registry import load_registry
    from ge2rt.spec.version import GE2_API_VERSION, check_api_version, check_client
    from ge2rt.tensors import Tensor, autograd, dispatch
    from ge2rt.tensors.files import load, save
    from ge2rt.tensors.kernels import kernel_operator
    from ge2rt.tensors.making import (
        arange,
        asarray,
        empty,
        eye,
        from_dlpack,
        from_numpy,
        full,
        linspace,
        ones,
        tensor,
        zeros,
    )
    from ge2rt.tensors.random import Generator, manual_seed, rand, randint, randn, randperm
    from ge2rt.tensors.storage import Storage
    from ge2rt.tensors.tape import enable_grad, no_grad


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'ge2rt' has no attribute {name!r}.{_hint(name)}")
    loaded = importlib.import_module(module)
    value = loaded if module.endswith(f".{name}") else getattr(loaded, name)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    if name.startswith("_"):  # Python asks for such names, which loads nothing
        return ""
    from ge2rt.spec.habits import PACKAGE, hint
    from ge2rt.tensors.operators import table

    if name in table() and name not in PACKAGE:
        return f" Use ge2rt.ops.{name}."
    return hint(name, PACKAGE, __all__)


def __dir__() -> list[str]:
    return __all__
