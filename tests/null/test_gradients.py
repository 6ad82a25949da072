"""Backward meanings against central differences of the forward meanings, in f64.

A backward kernel's buffers are named after the forward's: ``gX`` is the gradient of ``X`` where it
is an output, and the cotangent of ``X`` where it is an input. The derivative along a random
direction is compared, so that a case costs two evaluations an input, whatever its size.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ge2rt.base.dtypes import DTYPES
from ge2rt.run.case_arrays import make_arrays
from ge2rt.run.cases import Case, cases_for
from ge2rt.spec.lists import with_items
from ge2rt.spec.match import match
from ge2rt.spec.model import Bound, BufferDesc, KernelSpec
from ge2rt.spec.reference import evaluate_reference
from ge2rt.spec.registry import default_registry

Arrays = dict[str, Any]
_STEP = 1e-6
_CASES = 8
_LARGEST = 20_000  # elements
# attributes by which a gradient is not the derivative, on purpose
_CHANGED = {"embedding": {"padding_idx", "scale_grad_by_freq"}}


def twin(kernel: KernelSpec) -> KernelSpec:
    """The same kernel with every floating point buffer in f64."""

    def wide(dtype: str) -> str:
        return "f64" if dtype in DTYPES and DTYPES[dtype].is_float else dtype

    types = {n: tuple(dict.fromkeys(wide(t) for t in ts)) for n, ts in kernel.types.items()}
    buffers = [tuple(replace(b, dtype=wide(b.dtype)) for b in part)
               for part in (kernel.inputs, kernel.outputs)]  # fmt: skip
    needs = tuple(r for r in kernel.requires if not r.names & {"cc", "tensor_cores", "kind"})
    return replace(kernel, types=types, inputs=buffers[0], outputs=buffers[1], requires=needs)


def pairs() -> list[tuple[str, str]]:
    """Names of (forward, backward) kernels."""
    registry = default_registry()
    found = []
    for name in registry.names():
        backward = registry.get(name)
        if not backward.op.endswith("_BWD"):
            continue
        forwards = [k for n in registry.names() if (k := registry.get(n)).backward == backward.op]
        wanted = {b.name for b in backward.inputs if not b.optional and not is_gradient(b.name)}
        fitting = [k for k in forwards if wanted <= {b.name for b in k.buffers}]
        assert fitting, f"{name}: no forward kernel has the buffers {sorted(wanted)}"
        found.append((max(fitting, key=lambda k: len(k.buffers)).name, name))
    return found


def is_gradient(name: str) -> bool:
    return name[0] == "g" and name not in ("gamma",)


def gradient_of(name: str, known: Mapping[str, Any]) -> str:
    """The buffer whose gradient ``name`` is: ``gX`` is that of X, ``gBias`` that of bias."""
    plain = name[1:]
    for candidate in (plain, plain[:1].lower() + plain[1:]):
        if candidate in known:
            return candidate
    return ""


def evaluate(bound: Bound, arrays: Arrays) -> Arrays:
    """The outputs of a kernel's meaning by name."""
    given = [
        None if desc is None
        else arrays[spec.name] if spec.role == "input" or spec.inout
        else np.zeros(desc.shape, desc.dtype.numpy)
        for spec, desc in zip(bound.kernel.buffers, bound.descs, strict=True)
    ]  # fmt: skip
    outputs = [b.name for b, d in zip(bound.kernel.buffers, bound.descs, strict=True)
               if b.role == "output" and d is not None]  # fmt: skip
    return dict(zip(outputs, evaluate_reference(bound, given), strict=True))


def bind(
    kernel: KernelSpec, arrays: Arrays, forward: Arrays, attrs: Mapping[str, Any]
) -> Bound | None:
    """The backward for these arrays with all gradients; None where it refuses the call."""
    descs = [desc_of(arrays.get(b.name)) for b in kernel.inputs]
    descs += [desc_of(forward.get(gradient_of(b.name, forward))) for b in kernel.outputs]
    bound = match(kernel, descs, attrs)
    return bound if isinstance(bound, Bound) else None


def desc_of(array: Any) -> BufferDesc | None:
    if array is None:
        return None
    strides = tuple(s // array.itemsize if e > 1 else 0
                    for s, e in zip(array.strides, array.shape, strict=True))  # fmt: skip
    return BufferDesc(array.shape, next(d for d in DTYPES.values() if d.numpy == array.dtype),
                      strides)  # fmt: skip


def compare(case: Case, backward: KernelSpec) -> int:
    """Compare all gradients of one case; returns how many."""
    changed = _CHANGED.get(case.kernel.name, set())
    case = replace(
        case, layouts=dict.fromkeys(case.layouts, "contiguous"),
        attrs={n: v for n, v in case.attrs.items() if n not in changed},
    )  # fmt: skip
    if backward.many:
        first_list = next(b.group for b in case.kernel.buffers if b.group)
        items = sum(b.group == first_list for b in case.kernel.buffers)
        backward = with_items(backward, items)
    made = make_arrays(case)
    rng = np.random.default_rng(case.seed + 1)
    forward: Arrays = {n: laid.view.copy() for n, laid in made.buffers.items()}
    outputs = evaluate(made.bound, forward)
    if not all(np.isfinite(y).all() for y in outputs.values()):  # roots and logarithms
        inputs = {b.name for b in made.bound.kernel.inputs}
        forward |= {n: np.abs(x) + 0.5 for n, x in forward.items()
                    if n in inputs and x.dtype == np.float64}  # fmt: skip
        outputs = evaluate(made.bound, forward)
    cotangents: Arrays = {}
    given: Arrays = {**forward, **outputs}
    first = next(iter(outputs))
    for spec in backward.inputs:
        if is_gradient(spec.name):
            of = gradient_of(spec.name, outputs) or (first if spec.name == "gY" else "")
            if of:
                cotangents[of] = given[spec.name] = rng.standard_normal(outputs[of].shape)
    for spec in backward.outputs:
        if spec.inout:
            given[spec.name] = np.zeros_like(forward[gradient_of(spec.name, forward)])
    attrs = {n: v for n, v in made.bound.attrs.items() if n in backward.attrs}
    bound = bind(backward, given, forward, attrs)
    if bound is None:
        return 0
    gradients = evaluate(bound, given)
    checked = 0
    for name, gradient in gradients.items():
        of = gradient_of(name, forward)
        if not of or forward[of].dtype != np.float64:
            continue
        direction = rng.standard_normal(forward[of].shape)
        sides = [
            evaluate(made.bound, {**forward, of: forward[of] + sign * _STEP * direction})
            for sign in (1, -1)
        ]
        wanted = sum(
            float(np.sum(g * (sides[0][out] - sides[1][out]))) / (2 * _STEP)
            for out, g in cotangents.items()
        )
        got = float(np.sum(gradient * direction))
        scale = float(np.sum(np.abs(gradient * direction))) + 1
        assert abs(got - wanted) <= 1e-4 * scale, f"{case}: {name} {got} instead of {wanted}"
        checked += 1
    return checked


@pytest.mark.parametrize(("forward", "backward"), pairs())
def test_a_backward_is_the_derivative_of_its_forward(forward: str, backward: str) -> None:
    registry = default_registry()
    kernel, gradient = twin(registry.get(forward)), twin(registry.get(backward))
    fitting = (
        case for case in cases_for(kernel, full=True)
        if not case.empty and sum(np.prod(s) for s in case.shapes.values()) <= _LARGEST
    )  # fmt: skip
    checked, tried = 0, 0
    for case in itertools.islice(fitting, 4 * _CASES):
        tried += 1
        checked += compare(case, gradient) > 0
        if checked == _CASES:
            break
    assert checked >= 1, f"no case of {tried} could be compared"
