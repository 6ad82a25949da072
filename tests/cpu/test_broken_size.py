"""Code that must not grow with the square of the kernel: large switches, many barriers."""

from __future__ import annotations

import numpy as np
from cpu.native_run import load, ptx_of

from ge2rt.ptx import codegen
from ge2rt.ptx.lower import lower_to_ir
from ge2rt.ptx.native import LowerOptions
from ge2rt.ptx.parse import parse_module


def _switch(cases: int) -> str:
    body = "".join(
        f"case {i}: v = v * 3 + {i * 7}; {'break;' if i % 3 else ''} " for i in range(cases - 1)
    )
    return f"""extern "C" __global__ void k(unsigned *out) {{
        unsigned t = threadIdx.x, v = 0;
        #pragma unroll 1
        for (int i = 0; i < 20; i++)
            switch ((t * 37 + i * 11 + v) % {cases}) {{ {body} default: v ^= 5; }}
        out[t] = v; }}"""


def _steps(thread: int, cases: int) -> int:
    value = 0
    for i in range(20):
        case = (thread * 37 + i * 11 + value) % cases
        while case < cases - 1:
            value = (value * 3 + case * 7) & 0xFFFFFFFF
            if case % 3:
                break
            case += 1
        else:
            value ^= 5
    return value


def test_a_switch_with_many_cases() -> None:
    """The masks of all cases stay in memory: their phis grew with the square of the cases."""
    sizes = {}
    for cases in (60, 120):
        module = parse_module(ptx_of(_switch(cases)))
        text = lower_to_ir(module, "k", LowerOptions((64, 1, 1))).llvm_ir
        sizes[cases] = str(codegen.optimise(text, codegen.host(), 0)).count("\n")
    assert sizes[120] < 2.5 * sizes[60]
    out = np.zeros(64, "u4")
    assert load(ptx_of(_switch(60)), "k", (64,), opt_level=0)((1,), [out]) == 0
    np.testing.assert_array_equal(out, [_steps(t, 60) for t in range(64)])


def test_many_barriers() -> None:
    rounds = 60
    steps = "".join(
        f"s[t] += q[(t + {i}) & 63]; __syncthreads();"
        f"q[t] ^= s[(t + {i * 3}) & 63]; __syncthreads();\n"
        for i in range(rounds)
    )
    source = f"""extern "C" __global__ void k(unsigned *out) {{
        __shared__ unsigned s[64], q[64];
        unsigned t = threadIdx.x;
        s[t] = t; q[t] = t * 7; __syncthreads();
        {steps} out[t] = s[t] + q[t]; }}"""
    out = np.zeros(64, "u4")
    assert load(ptx_of(source), "k", (64,), opt_level=0)((1,), [out]) == 0
    t = np.arange(64)
    s, q = t.astype("u4"), (t * 7).astype("u4")
    for i in range(rounds):
        s = s + q[(t + i) & 63]
        q = q ^ s[(t + i * 3) & 63]
    np.testing.assert_array_equal(out, s + q)
