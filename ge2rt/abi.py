"""The ge_v2 functions: the frozen contract that other compilers call (``docs/contract.md``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from ge2rt.base.errors import InvalidArgumentError, last_error
from ge2rt.base.text import show
from ge2rt.device.registry import get_device
from ge2rt.run.launch import launch_kernel
from ge2rt.run.select import capable, missing_attrs
from ge2rt.spec.descs import CallDescs, parse_descs
from ge2rt.spec.registry import default_registry
from ge2rt.spec.version import GE2_API_VERSION, check_api_version

__all__ = [
    "GE2_API_VERSION",
    "check_api_version",
    "ge_v2_capability_table_raw",
    "ge_v2_kernel_table_raw",
    "last_error",
    "launch_kernel",
    "query_capability",
    "query_kernels",
]

Descs: TypeAlias = "Mapping[str, Any] | Sequence[Mapping[str, Any]] | None"


def query_kernels() -> list[str]:
    """The registered kernel names, sorted."""
    return sorted(default_registry().names())


def query_capability(
    op_type: str, in_descs: Descs = None, out_descs: Descs = None
) -> dict[str, int]:
    """Bare kernel name -> declared score, for the kernels of ``op_type`` that can run these descs.

    Args:
        op_type: such as ``"GEMM_BIAS_ACT"``; an unknown one gives ``{}``.
        in_descs: inputs as ``{"buffers": [...]}``, a list of descs, or a mapping of names to descs;
            empty means no condition: the plain table.
        out_descs: outputs likewise; empty means that they follow from the inputs.

    A required attribute that is not given disqualifies nothing: a kernel is listed where it can run
    the descs with some value of it.

    The rule scores of ge_v2 (tensor cores, ``min_mnk``) are the selector's own and are not in here.
    Malformed descs raise :class:`~ge2rt.InvalidArgumentError`.

    """
    kernels = default_registry().kernels_of(op_type)
    inputs, outputs = _desc_list(in_descs, "in_descs"), _desc_list(out_descs, "out_descs")
    if not inputs.buffers and not outputs.buffers:
        return {kernel.name: kernel.score for kernel in kernels}
    named = [d.device for d in (*inputs.buffers, *outputs.buffers) if d is not None and d.device]
    props = (get_device(named[0]) if named else get_device()).props
    attrs = {**inputs.attrs, **outputs.attrs}
    return {
        kernel.name: kernel.score
        for kernel in kernels
        if any(
            capable(kernel, inputs.buffers, outputs.buffers or None, {**attrs, **rest}, props)
            for rest in missing_attrs(kernel, attrs, (*inputs.buffers, *outputs.buffers))
        )
    }


def ge_v2_kernel_table_raw() -> dict[str, Callable[..., int]]:
    """Kernel name -> callable ``(buffers, descs, stream=0) -> int``."""
    return {name: partial(launch_kernel, name) for name in query_kernels()}


def ge_v2_capability_table_raw() -> dict[str, int]:
    """``"<OPTYPE>__<KERNEL_NAME>"`` -> declared score."""
    registry = default_registry()
    kernels = (registry.get(name) for name in query_kernels())
    return {kernel.table_key: kernel.score for kernel in kernels}


def _desc_list(descs: Descs, argument: str) -> CallDescs:
    if descs is None or (isinstance(descs, (Mapping, Sequence)) and len(descs) == 0):
        return CallDescs((), {}, None)
    if isinstance(descs, Mapping):
        if "buffers" in descs:
            return parse_descs(descs)
        return parse_descs({"buffers": list(descs.values())})
    if isinstance(descs, Sequence) and not isinstance(descs, str | bytes):
        return parse_descs({"buffers": list(descs)})
    raise InvalidArgumentError(
        "descs cannot be read", argument=argument, got=show(descs),
        expected='{"buffers": [...]}, a list of descs, or {}',
    )  # fmt: skip
