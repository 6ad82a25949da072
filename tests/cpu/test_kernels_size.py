"""Code of shape-generic kernels stays small: compile time grows with it."""

from __future__ import annotations

from cpu.native_run import ptx_of

from ge2rt.build.render import render
from ge2rt.cli.calls import parse_inputs
from ge2rt.device.limits import virtual_gpu
from ge2rt.ptx.lower import lower_to_ir
from ge2rt.ptx.native import LowerOptions
from ge2rt.ptx.parse import parse_module
from ge2rt.run.offline import problem_for


def test_the_activation_of_a_matrix_product_is_not_there_for_each_sum() -> None:
    """32 sums a lane; the tail for each of them made 17,000 lines and two seconds of LLVM."""
    given = parse_inputs(["f16[64,33]", "f16[33,257]", "f32[257]"], "cpu")
    problem = problem_for(
        "gemm_bias_act_tc_f16", given, {"act": "tanh"}, virtual_gpu("sm_80", 1), static=False
    )
    text = ptx_of(render(problem).text)
    assert text.count("tanh") + text.count("ex2.approx") <= 4
    module = parse_module(text)
    options = LowerOptions(block=problem.block, lanes=0)
    lowered = lower_to_ir(module, module.entries()[0], options)
    assert lowered.llvm_ir.count("\n") < 10_000
