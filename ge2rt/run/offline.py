"""Specialise and compile for an architecture that is not here: no device is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.build.problem import make_problem
from ge2rt.build.records import Problem
from ge2rt.device.api import DeviceProps
from ge2rt.device.limits import virtual_gpu
from ge2rt.run.launch import find_kernel
from ge2rt.run.select import choose, complete, refused, require
from ge2rt.spec.match import match
from ge2rt.spec.model import Bound, BufferDesc, Refusal
from ge2rt.spec.registry import default_registry


def arch_props(arch: str) -> DeviceProps:
    """Properties of a GPU of this architecture, such as ``sm_90``; InvalidArgumentError else."""
    try:
        gpu = virtual_gpu(arch, 108)
    except InvalidArgumentError as fault:
        raise fault.about(argument="arch") from None
    return replace(gpu, name=arch, kind="cuda", binary_kind="cubin")


def problem_for(
    name: str,
    inputs: Sequence[BufferDesc | None],
    attrs: Mapping[str, Any],
    props: DeviceProps,
    *,
    static: bool = True,
    aligned: bool = True,
    tunables: Mapping[str, int] | None = None,
) -> Problem:
    """The specialisation of a kernel (or of the best one of an op type) for inputs on ``props``."""
    kernels = default_registry().kernels_of(name)
    if kernels:
        bound = require(choose(kernels, inputs, attrs, props, infer=True)).bound
        assert bound is not None
    else:
        bound = bind(name, inputs, attrs, props)
    return make_problem(bound, props, aligned=aligned, static=static, tunables=tunables)


def bind(
    name: str, inputs: Sequence[BufferDesc | None], attrs: Mapping[str, Any], props: DeviceProps
) -> Bound:
    """Match a kernel with inputs; its outputs follow from them. Raises the reason otherwise."""
    kernel = find_kernel(name)
    descs = complete(kernel, inputs, attrs)
    bound = descs if isinstance(descs, Refusal) else match(kernel, descs, attrs, props)
    if isinstance(bound, Refusal):
        raise refused(bound, kernel.name)
    return bound
