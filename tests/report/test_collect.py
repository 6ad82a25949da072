from __future__ import annotations

import numpy as np
import pytest
from report.report_samples import arrays, compiled, report

from ge2rt.fuse.program import View
from ge2rt.ir.evaluate import evaluate
from ge2rt.jit import jit
from ge2rt.jit.backend import build_reference
from ge2rt.jit.function import JitFunction
from ge2rt.report.collect import collect, touched


def test_one_step_against_counts_by_hand() -> None:
    found = report("scaled")
    assert found.name == "scaled"
    assert found.signature == "x: f32[64,256], b: f32[256]"
    assert found.device == "cpu"
    (step,) = found.steps
    assert step.nodes == ("add", "mul")
    assert step.bytes_read == 64 * 256 * 4 + 256 * 4  # b is read once, not for each row
    assert step.bytes_written == 64 * 256 * 4
    assert step.block[0] >= 32
    assert step.grid[0] >= 1
    assert not step.library
    (kernel,) = found.kernels
    assert step.kernel == kernel.name == kernel.title
    assert kernel.generated
    assert found.launches == 1


def test_every_computing_node_has_its_step() -> None:
    found = report("layered")
    free = {"input", "full", "broadcast", "reshape", "transpose", "slice"}
    for node in found.after.nodes:
        assert (node.step >= 0) == (node.op not in free), node.line
    for step in found.steps:
        assert tuple(found.after.nodes[i].op for i in step.members) == step.nodes


def test_records_of_graphs_number_as_the_text_does() -> None:
    found = report("layered")
    for graph in (found.before, found.after):
        for node in graph.nodes:
            assert f"  {node.line}" in graph.text
    outputs = sorted(n.output for n in found.before.nodes if n.output >= 0)
    assert outputs == [0, 1, 2]


def test_cuda_lines_and_ptx_lines_are_linked() -> None:
    (kernel,) = report("scaled").kernels
    cuda, ptx = kernel.cuda.splitlines(), kernel.ptx.splitlines()
    assert len(kernel.template_lines) >= len(cuda)
    links = {link.ptx: link.cuda for link in kernel.links}
    assert len(links) > 5
    assert all(1 <= at <= len(cuda) for chain in links.values() for at in chain)
    stores = [n for n, line in enumerate(ptx, 1) if line.strip().startswith("st.global")]
    assert stores
    assert all(n in links for n in stores)
    assert kernel.instructions.classes["global memory"] == sum(
        line.strip().startswith(("st.global", "ld.global")) for line in ptx
    )


def test_llvm_ir_and_the_template_are_there() -> None:
    (kernel,) = report("scaled").kernels
    assert kernel.native_title == "LLVM IR"
    assert "define void" in kernel.native
    assert {name for name, _ in kernel.template_lines} >= {kernel.template}


def test_registered_kernels_tell_how_they_were_chosen() -> None:
    found = report("layered")
    (sort,) = [step for step in found.steps if step.nodes == ("sort",)]
    chosen = [c for c in sort.candidates if c.chosen]
    assert len(chosen) == 1
    assert not found.kernel(sort.kernel).generated
    assert chosen[0].name == found.kernel(sort.kernel).title
    assert str(chosen[0].score) in chosen[0].reason


def test_a_library_step_tells_why() -> None:
    found = report("layered")
    library = [step for step in found.steps if step.library]
    assert library
    assert all(step.reason and not step.kernel for step in library)
    assert library[0].bytes_read == (96 * 128 + 128 * 192) * 4
    assert library[0].bytes_written == 96 * 192 * 4


def test_a_gathered_table_counts_what_is_taken() -> None:
    @jit
    def pick(table, i):  # type: ignore[no-untyped-def]
        return np.take(table, i, axis=0) + 1

    found = collect(pick.compile(np.ones((1000, 8), np.float32), np.array([1, 2])), timed=False)
    (step,) = found.steps
    assert step.bytes_read == 2 * 8 * 4 + 2 * 8  # two rows, two indices


def test_memory_against_the_plan() -> None:
    found, plan = report("layered"), compiled("layered").built.runner
    temps = [b for b in found.memory.buffers if b.offset >= 0]
    assert found.memory.workspace == plan.workspace  # type: ignore[attr-defined]
    assert sum(-(-b.bytes // 128) * 128 for b in temps) == found.memory.apart
    assert found.memory.saved >= 0
    for one in temps:
        assert 0 <= one.first <= one.last < len(found.steps)
        for other in temps:
            if one is not other and one.first <= other.last and other.first <= one.last:
                assert (one.offset + one.bytes <= other.offset
                        or other.offset + other.bytes <= one.offset)  # fmt: skip


def test_steps_are_timed_in_order_and_share_the_whole() -> None:
    found = report("layered")
    assert found.timing.arrays == "given"
    assert found.timing.rounds >= 1
    starts = [step.start for step in found.steps]
    assert starts == sorted(starts)  # type: ignore[type-var]
    assert all(step.seconds and step.bandwidth for step in found.steps)
    assert sum(map(found.share, found.steps)) == pytest.approx(1)


def test_timing_leaves_the_program_as_it_was() -> None:
    function, given = compiled("layered"), arrays("layered")
    expected = evaluate(function.built.graph, given)
    collect(function, given)
    collect(function)  # on made up arrays
    for got, want in zip(function(*given), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_indices_outside_are_told_and_do_not_stay() -> None:
    @jit
    def pick(x, i):  # type: ignore[no-untyped-def]
        return x[i] * 2

    x = np.arange(8, dtype=np.float32)
    function = pick.compile(x, np.array([1]))
    found = collect(function, [x, np.array([99])])
    assert "outside" in found.timing.note
    np.testing.assert_array_equal(function(x, np.array([3])), [6])


def test_untimed_reports_run_nothing() -> None:
    found = collect(compiled("scaled"), timed=False)
    assert found.timing.whole is None
    assert found.steps[0].seconds is None
    assert found.steps[0].bandwidth is None
    assert found.share(found.steps[0]) == 0


def test_strided_half_and_boolean_arguments_are_made_up() -> None:
    @jit
    def odd(x, m, h):  # type: ignore[no-untyped-def]
        return np.where(m, x, h.astype(np.float32))

    x = np.ones((6, 8), np.float32)[::-2, ::2]
    found = collect(odd.compile(x, np.ones((3, 4), bool), np.ones((3, 4), np.float16)))
    assert found.timing.whole is not None
    assert found.timing.arrays.startswith("made up")
    assert found.steps[0].bytes_read == 12 * (4 + 1 + 2)


def test_captured_arrays_are_inputs() -> None:
    weights = np.full((3, 4), 2, np.float32)

    @jit
    def captured(x):  # type: ignore[no-untyped-def]
        return x * weights

    found = collect(captured.compile(np.ones((3, 4), np.float32)))
    assert found.constants == ("float32[3, 4]",)
    assert found.timing.whole is not None


def test_same_kernel_of_two_layers_is_one_record() -> None:
    @jit
    def twice(x, y):  # type: ignore[no-untyped-def]
        return np.sort(x, axis=-1), np.sort(y, axis=-1)

    x = np.ones((4, 32), np.float32)
    found = collect(twice.compile(x, x.copy()), timed=False)
    assert len(found.steps) == 2
    assert len(found.kernels) == 1
    fresh = jit(twice.__wrapped__).compile(x, np.ones((4, 48), np.float32))  # both fixed extents
    found = collect(fresh, timed=False)
    assert [kernel.name for kernel in found.kernels] == ["sort", "sort #2"]
    assert [step.kernel for step in found.steps] == ["sort", "sort #2"]
    assert list(fresh.stages["ptx"]) == ["sort", "sort #2"]


def test_a_build_without_an_executable_is_refused() -> None:
    function = JitFunction(lambda x: x + 1, build=build_reference)
    with pytest.raises(TypeError, match="executable"):
        collect(function.compile(np.ones(3)))


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (View(0, (4, 5), (5, 1)), 80),
        (View(0, (4, 5), (0, 1)), 20),
        (View(0, (), ()), 4),
        (View(0, (4, 0), (0, 1)), 0),
        (View(0, (0, 4), (0, 0)), 0),
        (View(0, (3,), (-2,), 7), 12),
    ],
)
def test_bytes_that_a_view_touches(view: View, expected: int) -> None:
    assert touched(view, 4) == expected
