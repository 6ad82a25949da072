"""What a GPU would get, checked without one: machine code, no spills, wide accesses."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from cases import dense

from ge2rt.build.nvrtc import compile_cuda
from ge2rt.build.problem import make_problem
from ge2rt.build.render import render
from ge2rt.spec.match import infer_outputs, match
from ge2rt.spec.registry import default_registry

LARGE = 1 << 20
SQUARE = ((1024, 1024), "f32")
HALF = ((512, 512), "f16")
HEADS = dict.fromkeys("qkv", ((8, 256, 64), "f32"))
TOKEN = {"q": ((8, 1, 128), "f16"), **dict.fromkeys("kv", ((8, 200, 128), "f16"))}
FILTERS = ((64, 64, 3, 3), "f32")
IMAGES = ((8, 64, 56, 56), "f32")
BYTES = ((1024, 1024), "i8")  # large enough for tiles of 128 rows
NO_Q8 = dict.fromkeys(("bias", "a_zero", "b_zero"))
NARROW = {"q8", "conv2d"}  # they read single elements or words of four bytes
SPECIMENS = {
    "copy": ("copy", {"X": ((LARGE,), "u8")}, {}),
    "transpose": ("copy", {"X": SQUARE}, {}),
    "gelu": ("elementwise_unary", {"X": ((LARGE,), "f16")}, {"op": "gelu"}),
    "add": ("elementwise_binary", {"A": SQUARE, "B": ((1024,), "f32")}, {"op": "add"}),
    "sum": ("reduce", {"X": SQUARE}, {"op": "sum", "axes": (1,)}),
    "argmax": ("reduce_arg", {"X": SQUARE}, {"op": "argmax", "axes": (0,)}),
    "softmax": ("softmax", {"X": SQUARE, "mask": None}, {}),
    "layernorm": ("layernorm", {"X": HALF, "gamma": ((512,), "f16"), "beta": None}, {}),
    "rmsnorm": ("rmsnorm", {"X": ((64, 9000), "f32"), "gamma": None, "beta": None}, {}),
    "gemm": ("gemm_bias_act_f32", {"A": SQUARE, "B": SQUARE, "bias": None}, {"act": "gelu"}),
    "attention": ("attention", {**HEADS, "mask": None}, {"causal": True}),
    "one token": ("attention", {**TOKEN, "mask": ((1, 1, 200), "bool")}, {}),
    "cumsum": ("scan", {"X": SQUARE}, {"op": "cumsum"}),
    "sort": ("sort", {"X": ((64, 1000), "f16")}, {}),
    "argsort": ("argsort", {"X": ((4, 100_000), "f32")}, {}),
    "conv2d": ("conv2d", {"X": IMAGES, "W": FILTERS, "bias": None}, {"pad": (1,)}),
    "sdpa": ("sdpa", {**dict.fromkeys("qkv", ((2, 8, 256, 64), "f32")), "mask": None}, {}),
    "q8": ("gemm_q8", {"A": BYTES, "B": BYTES, "scale": ((1024,), "f32"), **NO_Q8}, {}),
    "tensor core": ("gemm_bias_act_tc_f16", {"A": HALF, "B": HALF, "bias": ((512,), "f32")}, {}),
}  # fmt: skip


def source(specimen, arch, *, static=True):
    name, shapes, attrs = SPECIMENS[specimen]
    kernel = default_registry().get(name)
    inputs = [dense(*s) if s else None for s in shapes.values()]
    descs = [*inputs, *infer_outputs(kernel, inputs, attrs)]
    if specimen == "transpose":
        descs[0] = type(descs[0])(descs[0].shape, descs[0].dtype, descs[0].strides[::-1])
    props = SimpleNamespace(kind="cuda", arch=arch, cc=int(arch[3:]) / 10, tensor_cores=True)
    return render(make_problem(match(kernel, descs, attrs, props), props, static=static))


def compiled(specimen, arch, kind, *, static=True):
    return built(source(specimen, arch, static=static).text, arch, kind)


def built(text, arch, kind):
    output = compile_cuda(text, "k.cu", arch=arch, kind=kind, options=("--ptxas-options=-v",))
    assert output.ok, output.log
    return output


# threads that a multiprocessor holds (CUDA C++ Programming Guide, technical specifications)
RESIDENT = {"sm_80": 2048, "sm_90": 2048, "sm_120": 1536}


@pytest.mark.parametrize("arch", sorted(RESIDENT))
@pytest.mark.parametrize("specimen", SPECIMENS)
def test_no_spills_and_no_warnings(specimen, arch):
    for static in (True, False):
        text = source(specimen, arch, static=static).text
        log = built(text, arch, "cubin").log
        spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill", log)
        assert spills == [("0", "0")], log
        assert "warning" not in log
        registers = int(re.findall(r"Used (\d+) registers", log)[0])
        threads = int(re.findall(r"__launch_bounds__\((\d+)", text)[0])
        # two blocks on a multiprocessor, or as many as its threads are enough for
        blocks = min(2, RESIDENT[arch] // threads)
        assert registers * threads * blocks <= 2**16


@pytest.mark.parametrize("specimen", sorted(set(SPECIMENS) - {"tensor core", "transpose"}))
def test_older_gpus_are_served(specimen):
    assert compiled(specimen, "sm_75", "cubin").data[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    "specimen",
    sorted(set(SPECIMENS) - {"transpose", "argmax", "tensor core", "sort", "argsort"} - NARROW),
)
def test_memory_is_read_128_bits_at_a_time(specimen):
    ptx = compiled(specimen, "sm_80", "ptx").data.decode()
    assert re.search(r"ld\.global(\.nc)?\.v4\.[bfu]32", ptx)
    if specimen not in ("sum", "one token"):
        assert re.search(r"st\.global\.v4\.[bfu]32", ptx)


def test_the_tensor_core_kernel_uses_what_it_promises():
    ptx = compiled("tensor core", "sm_80", "ptx").data.decode()
    fragments = "ldmatrix.sync.aligned.m8n8.x4"
    for promised in (f"{fragments}.shared", f"{fragments}.trans", "cp.async.cg.shared.global",
                     "mma.sync.aligned.m16n8k16"):  # fmt: skip
        assert promised in ptx
    assert "ld.global.u16" not in ptx  # no element by element path


def test_the_quantised_product_adds_four_products_at_a_time():
    text = source("q8", "sm_80").text
    assert "a_tile[128]" in text
    assert "dp4a.s32.s32" in built(text, "sm_80", "ptx").data.decode()


def test_a_transposition_goes_through_shared_memory():
    ptx = compiled("transpose", "sm_80", "ptx").data.decode()
    assert "ld.shared" in ptx
    assert "st.shared" in ptx
