"""Random programs of up to 30 steps: NumPy and jit agree within the bound carried along.

A few of a thousand programs a day by kernels; all of them with ``--full``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from jit.programs import RECIPES, Program, Value, make_program

from ge2rt.ir.ops import OPS
from ge2rt.jit import JitFunction
from ge2rt.jit.backend import build_kernels, build_reference

FULL = 1000
_TRACED = 120
# a kernel read what it wrote; views that no strides describe; a compilation that did not end
_FOUND = (34, 71, 121, 20011, 913)
_MADE_BY_PASSES = {"gemm_bias_act", "attention"}
_BY_DERIVATIVES = {"detach", "scatter_rows"}  # tests/grad has them
_BY_HELPERS_ONLY = {"erf", "sigmoid", "rsqrt"}  # NumPy has no function for these


def _agree(program: Program, wanted: list[Value], build: Any) -> JitFunction:
    f = JitFunction(program, build=build)
    for got, want in zip(f(*program.inputs), wanted, strict=True):
        assert got.dtype == want.array.dtype
        assert got.shape == want.array.shape
        if not want.error:
            np.testing.assert_array_equal(got, want.array)
        else:
            far = np.abs(got.astype(np.float64) - want.array.astype(np.float64)).max(initial=0)
            assert far <= want.error, f"{far} away, {want.error} allowed"
    return f


def _try(seed: int, build: Any) -> tuple[Program, JitFunction]:
    program, wanted = make_program(seed)
    try:
        return program, _agree(program, wanted, build)
    except Exception as fault:
        raise AssertionError(f"seed {seed}: {fault}\n{program}") from fault


def test_traced_programs() -> None:
    seen: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for seed in range(_TRACED):
        program, f = _try(seed, build_reference)
        seen.update(name for name, _, _ in program.steps)
        (form,) = f._forms.values()
        nodes.update(node.op for node in form.built.graph.nodes)
    assert {recipe.name for recipe in RECIPES} <= set(seen)
    assert set(OPS) - _MADE_BY_PASSES - _BY_HELPERS_ONLY - {
        "clamp",
        "full",
    } - _BY_DERIVATIVES <= set(nodes)


@pytest.mark.daily(2)
@pytest.mark.parametrize("seed", range(FULL))
def test_programs_by_kernels(seed: int) -> None:
    _try(seed, build_kernels)


@pytest.mark.parametrize("seed", _FOUND)
def test_programs_that_once_differed(seed: int) -> None:
    _try(seed, build_kernels)


def test_each_function_is_in_many_programs() -> None:
    seen: Counter[str] = Counter()
    for seed in range(FULL):
        seen.update(name for name, _, _ in make_program(seed)[0].steps)
    assert min(seen[recipe.name] for recipe in RECIPES) >= 20
