"""``RawModule`` and ``RawKernel``: CuPy's conventions on the cpu device and on the fake GPU."""

from __future__ import annotations

import ctypes
import io
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from null.fake_cupy import FakeCupy

import ge2rt
from ge2rt.base.errors import (
    CompileError,
    DeviceError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
)
from ge2rt.device import cuda, registry
from ge2rt.device.null import NullDevice

F32, I32 = np.float32, np.int32
SAXPY = r"""
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}"""
MODULE = r"""
#include <cuda_fp16.h>
struct Pair { int count; double scale; };
__device__ int calls = 3;
__constant__ float table[4];
namespace ns { __device__ double depth = 1.5; }

template <typename T> __global__ void scale(T* x, T by, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] *= by;
}
namespace ns {
__global__ void look_up(float* out) { out[threadIdx.x] = table[threadIdx.x]; atomicAdd(&calls, 1); }
}
__global__ void __launch_bounds__(64) pairs(Pair p, __half h, float3 v, double* out) {
  __shared__ double kept[16];
  kept[threadIdx.x % 16] = p.count * p.scale + __half2float(h) + v.x + v.y + v.z;
  __syncthreads();
  out[threadIdx.x] = kept[threadIdx.x % 16];
}
extern "C" __global__ void reverse(int* data) {
  extern __shared__ int shared[];
  shared[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void where(int* out) {
  out[0] = gridDim.x * 100 + gridDim.y * 10 + gridDim.z;
  out[1] = blockDim.x * 100 + blockDim.y * 10 + blockDim.z;
}
"""
ROOT = Path(__file__).resolve().parents[2]
NAMES = ("scale<float>", "scale<double>", "ns::look_up", "&calls", "&table", "&ns::depth")


@pytest.fixture(scope="module")
def saxpy():
    return ge2rt.RawKernel(SAXPY, "saxpy")


@pytest.fixture
def module():
    return ge2rt.RawModule(code=MODULE, name_expressions=NAMES)


def vectors(n=1000):
    return np.arange(n, dtype=F32), np.ones(n, F32)


@pytest.mark.parametrize("grid", [(8,), (8, 1), (8, 1, 1), 8, [8]])
def test_a_kernel_takes_grid_block_and_args(saxpy, grid):
    x, y = vectors()
    assert saxpy(grid, (128,), (1000, 2.0, x, y)) is None
    np.testing.assert_array_equal(y, 2 * x + 1)


@pytest.mark.parametrize(
    "args",
    [
        (I32(1000), F32(2)), (np.uint32(1000), 2), (np.array(1000, I32), np.array(2, F32)),
        (ctypes.c_int(1000), ctypes.c_float(2)), (1000, True + 1.0),
    ],
)  # fmt: skip
def test_scalars_of_many_kinds(saxpy, args):
    x, y = vectors()
    saxpy((8,), (128,), (*args, x, y))
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_strides_are_the_kernels_business_and_addresses_will_do(saxpy):
    x, y = vectors(20)
    saxpy((1,), (32,), (5, 2.0, x[10::2], y[3:]))
    np.testing.assert_array_equal(y[3:8], 2 * x[10:15] + 1)
    saxpy((1,), (32,), (3, 0.0, x.ctypes.data, y.ctypes.data))
    saxpy((1,), (32,), (0, 0.0, None, None))
    assert y[0] == 1


def test_nothing_runs_where_an_argument_is_wrong(saxpy):
    x, y = vectors()
    for args, kind in [
        ((1000, np.float64(2), x, y), InvalidTypeError),
        ((1000, 2.0, x.astype(np.float64), y), InvalidTypeError),
        ((1000, 2.0, x), InvalidArgumentError),
        ((1000, 2.0, 1.0, y), InvalidTypeError),
        ((x, 2.0, x, y), InvalidTypeError),
        (([1000], 2.0, x, y), InvalidTypeError),
    ]:
        with pytest.raises(kind, match="saxpy"):
            saxpy((8,), (128,), args)
    with pytest.raises(InvalidTypeError, match="args is a tuple"):
        saxpy((8,), (128,), x)
    assert (y == 1).all()


@pytest.mark.parametrize(
    ("grid", "block", "shared", "what"),
    [
        ((0,), (32,), 0, "grid.x is out of range"),
        ((1, 65536), (32,), 0, "grid.y is out of range"),
        ((1,), (1025,), 0, "block.x is out of range"),
        ((1,), (32, 33), 0, "too many threads a block"),
        ((1,), (1, 1, 65), 0, "block.z is out of range"),
        ((1,), (32,), 164 * 1024, "too much shared memory"),
        ((1,), (32,), -1, "too much shared memory"),
        ((1, 1, 1, 1), (32,), 0, "grid is one to three whole numbers"),
        ((1,), (1.5,), 0, "block is one to three whole numbers"),
        ((), (32,), 0, "grid is one to three whole numbers"),
    ],
)
def test_limits_of_a_launch(saxpy, grid, block, shared, what):
    x, y = vectors()
    with pytest.raises(InvalidArgumentError, match=what):
        saxpy(grid, block, (1000, 2.0, x, y), shared_mem=shared)


def test_streams(saxpy):
    x, y = vectors()
    with ge2rt.Stream("cpu") as stream:
        saxpy((8,), (128,), (1000, 1.0, x, y), stream=stream)
        saxpy((8,), (128,), (1000, 1.0, x, y), stream=stream.handle)
    saxpy((8,), (128,), (1000, 1.0, x, y), stream=0)
    np.testing.assert_array_equal(y, 3 * x + 1)
    with pytest.raises(InvalidArgumentError, match="not a stream"):
        saxpy((8,), (128,), (1000, 1.0, x, y), stream=12345)
    with pytest.raises(InvalidTypeError, match="not a stream"):
        saxpy((8,), (128,), (1000, 1.0, x, y), stream="0")


def test_name_expressions_find_templates_and_namespaces(module):
    x = np.arange(5, dtype=F32)
    module.get_function("scale<float>")((1,), (32,), (x, 3.0, 5))
    np.testing.assert_array_equal(x, 3 * np.arange(5))
    y = np.arange(5.0)
    module.get_function("scale<double>")((1,), (32,), (y, 0.5, 5))
    np.testing.assert_array_equal(y, np.arange(5) / 2)
    with pytest.raises(InvalidTypeError, match=r"expected numpy\.float64"):
        module.get_function("scale<double>")((1,), (32,), (y, F32(1), 5))


def test_a_name_that_is_mangled_alone_is_found_and_others_are_listed(module):
    assert module.get_function("pairs").name == "pairs"
    assert "ns::look_up" in str(module.get_function("ns::look_up"))
    with pytest.raises(InvalidArgumentError, match='extern "C", or list it') as caught:
        module.get_function("nothing")
    assert "scale<float>" in caught.value.record.expected
    with pytest.raises(InvalidArgumentError, match="several kernels have this name"):
        module.get_function("scale")
    assert {"reverse", "where"} < set(module.kernels)


def test_structs_by_value(module):
    pairs, out = module.get_function("pairs"), np.zeros(32)
    layout = np.dtype([("count", I32), ("scale", np.float64)], align=True)
    vector = np.array([1, 2, 3], F32)
    for pair in (
        np.array((3, 0.5), layout),
        np.array((3, 0.5), layout)[()],
        struct.pack("<i4xd", 3, 0.5),
        type("Pair", (ctypes.Structure,), {"_fields_": [("c", ctypes.c_int),
             ("s", ctypes.c_double)]})(3, 0.5),
    ):  # fmt: skip
        out[:] = 0
        pairs((1,), (32,), (pair, np.float16(0.25), vector, out))
        assert (out == 3 * 0.5 + 0.25 + 6).all()
    with pytest.raises(InvalidTypeError, match="a struct of another size; expected 16 bytes: Pair"):
        pairs((1,), (32,), (bytes(12), np.float16(0), vector, out))
    with pytest.raises(InvalidTypeError, match="dtype float16"):
        pairs((1,), (32,), (bytes(16), 0.5, vector, out))


def test_attributes(module):
    pairs = module.get_function("pairs")
    assert (pairs.shared_size_bytes, pairs.max_threads_per_block) == (128, 64)
    assert pairs.local_size_bytes == 0
    assert pairs.attributes["max_threads_per_block"] == 64
    assert pairs.max_dynamic_shared_size_bytes == 163 * 1024 - 128
    pairs.max_dynamic_shared_size_bytes = 96 * 1024
    with pytest.raises(InvalidArgumentError, match="less shared memory"):
        pairs.max_dynamic_shared_size_bytes = 164 * 1024
    with pytest.raises(UnsupportedError, match="num_regs is not known on device cpu"):
        _ = pairs.num_regs
    with pytest.raises(InvalidArgumentError, match="at most 64"):
        pairs((1,), (128,), (bytes(16), np.float16(0), bytes(12), np.zeros(128)))


def test_dynamic_shared_memory_and_geometry(module):
    data = np.arange(64, dtype=I32)
    module.get_function("reverse")((1,), (64,), (data,), shared_mem=256)
    np.testing.assert_array_equal(data, np.arange(64)[::-1])
    out = np.zeros(2, I32)
    module.get_function("where")((3, 2, 4), (5, 6, 7), (out,))
    assert list(out) == [324, 567]


def test_variables_are_read_written_and_kept(module):
    table, calls = module.get_global("table"), module.get_global("calls")
    assert (table.nbytes, calls.nbytes, module.get_global("ns::depth").nbytes) == (16, 4, 8)
    table.set(np.array([1, 2, 3, 4], F32))
    look_up, out = module.get_function("ns::look_up"), np.zeros(4, F32)
    look_up((1,), (4,), (out,))
    look_up((1,), (4,), (out,))
    assert list(out) == [1, 2, 3, 4]
    assert calls.get(I32)[0] == 3 + 8
    view = table.array(F32)
    view[0] = 9
    look_up((1,), (4,), (out,))
    assert out[0] == 9
    assert np.asarray(table).view(F32)[0] == 9
    assert module.get_global("ns::depth").array(np.float64)[0] == 1.5
    assert calls.array(I32, ()).shape == ()
    assert f"{calls.ptr:#x}" in repr(calls)
    with pytest.raises(InvalidArgumentError, match="expected 16 bytes, got 8"):
        table.set(bytes(8))
    with pytest.raises(InvalidArgumentError, match="16 bytes"):
        table.array(F32, (5,))
    with pytest.raises(InvalidArgumentError, match="no variable 'missing'") as caught:
        module.get_global("missing")
    assert set(caught.value.record.expected.split(", ")) == {"calls", "table", "ns::depth"}
    with pytest.raises(InvalidArgumentError, match="there are no __device__ or __constant__"):
        ge2rt.RawModule(code=SAXPY).get_global("missing")
    mangled = "namespace ns { __device__ int a; }" + SAXPY.replace("y[i];", "y[i] + ns::a++;")
    with pytest.raises(InvalidArgumentError, match="in name_expressions"):
        ge2rt.RawModule(code=mangled).get_global("a")


def test_a_view_of_a_variable_outlives_its_module():
    view = ge2rt.RawModule(code=MODULE).get_global("calls").array(I32)
    assert view[0] == 3


def test_a_variable_is_an_argument_and_each_module_has_its_own():
    first, second = ge2rt.RawModule(code=MODULE), ge2rt.RawModule(code=MODULE)
    kernel = ge2rt.RawKernel('extern "C" __global__ void one(int* p) { *p += 1; }', "one")
    kernel((1,), (1,), (first.get_global("calls"),))
    kernel((1,), (1,), (first.get_global("calls").ptr,))
    assert first.get_global("calls").get(I32)[0] == 5
    assert second.get_global("calls").get(I32)[0] == 3


def test_the_same_name_never_runs_another_text():
    out = np.zeros(1, I32)
    for value in (1, 2, 3):
        code = f'extern "C" __global__ void k(int* p) {{ *p = {value}; }}'
        ge2rt.RawKernel(code, "k")((1,), (1,), (out,))
        assert out[0] == value
    code = 'extern "C" __global__ void k(int* p) { *p = VALUE; }'
    for value in (4, 5):
        ge2rt.RawKernel(code, "k", options=(f"-DVALUE={value}",))((1,), (1,), (out,))
        assert out[0] == value


def test_a_kernel_by_expression_and_its_properties():
    code = "template <int N> __global__ void fill(int* p) { *p = N; }"
    kernel = ge2rt.RawKernel(code, "fill<7>", ("-DX",))
    out = np.zeros(1, I32)
    kernel((1,), (1,), (out,))
    assert out[0] == 7
    assert (kernel.code, kernel.options, kernel.backend) == (code, ("-DX",), "nvrtc")
    assert kernel.kernel is kernel
    assert repr(kernel) == "<RawFunction fill<7>(int* p)>"


def test_errors_point_at_the_line_and_column_of_the_text():
    bad = 'extern "C" __global__ void bad(float* x) {\n  x[0] = y;\n}'
    with pytest.raises(CompileError) as caught:
        ge2rt.RawKernel(bad, "bad").compile()
    assert caught.value.record.where == "bad.cu:2"
    assert 'bad.cu:2:10: error: identifier "y" is undefined' in str(caught.value)
    assert "  x[0] = y;\n" + " " * 11 + "^" in str(caught.value)
    with pytest.raises(CompileError, match=r"nothing_like_it\.h"):
        ge2rt.RawModule(code='#include "nothing_like_it.h"').compile()
    opened = 'extern "C" __global__ void open(int* p) {\n  if (p) { int unused;\n  *p = 1;\n}\n'
    with pytest.raises(CompileError) as caught:
        ge2rt.RawKernel(opened, "open").compile()
    assert str(caught.value).splitlines() == [
        "[-4 COMPILE] open.cu:4: open.cu: 1 error for sm_80",
        'open.cu:4: error: expected a "}" at the end of the text',
        'open.cu:1:41: note: to match this "{"',
        '  extern "C" __global__ void open(int* p) {',
        "  " + " " * 40 + "^",
    ]


def test_warnings_go_to_the_log():
    log = io.StringIO()
    code = 'extern "C" __global__ void f(int* p) { int unused; *p = 1; }'
    ge2rt.RawModule(code=code).compile(log_stream=log)
    assert "unused" in log.getvalue()


def test_files_and_include_folders(tmp_path):
    (tmp_path / "value.h").write_text("#define VALUE 11\n", "utf-8")
    (tmp_path / "k.cu").write_text(
        '#include "value.h"\nextern "C" __global__ void k(int* p) { *p = VALUE; }', "utf-8"
    )
    out = np.zeros(1, I32)
    ge2rt.RawModule(path=tmp_path / "k.cu").get_function("k")((1,), (1,), (out,))
    assert out[0] == 11
    code = (tmp_path / "k.cu").read_text("utf-8")
    ge2rt.RawKernel(code.replace('"value.h"', "<value.h>"), "k", (f"-I{tmp_path}",))(
        (1,), (1,), (out,)
    )
    ptx = ge2rt.RawModule(code=code, options=("-I", str(tmp_path))).load().ptx
    (tmp_path / "k.ptx").write_text(ptx.replace("11", "12"), "utf-8")
    ge2rt.RawModule(path=str(tmp_path / "k.ptx")).get_function("k")((1,), (1,), (out,))
    assert out[0] == 12
    (tmp_path / "k.cubin").write_bytes(b"\x7fELF")
    with pytest.raises(InvalidArgumentError, match="loads PTX text"):
        ge2rt.RawModule(path=tmp_path / "k.cubin").compile()


def test_what_is_not_offered_says_so():
    for options in ({"backend": "nvcc"}, {"jitify": True}, {"translate_cucomplex": True}):
        with pytest.raises(UnsupportedError, match=next(iter(options))):
            ge2rt.RawModule(code=SAXPY, **options)
    with pytest.raises(InvalidArgumentError, match="one of code and path"):
        ge2rt.RawModule()
    with pytest.raises(InvalidTypeError, match="options are a tuple"):
        ge2rt.RawModule(code=SAXPY, options="-DX")


def test_a_trap_is_a_device_error():
    kernel = ge2rt.RawKernel('extern "C" __global__ void t() { __trap(); }', "t")
    with pytest.raises(DeviceError, match="trap"):
        kernel((1,), (1,), ())


def test_the_device_is_where_the_arrays_lie_unless_it_is_given():
    null = NullDevice()
    kernel = ge2rt.RawKernel(SAXPY, "saxpy", device=null)
    x, y = vectors(8)
    kernel((2,), (4,), (8, 2.0, x, y), shared_mem=16)
    (launch,) = null.launches
    assert (launch.shape.grid, launch.shape.block, launch.shape.shared) == (
        (2, 1, 1), (4, 1, 1), 16,
    )  # fmt: skip
    assert launch.args == struct.pack("<ifQQ", 8, 2.0, x.ctypes.data, y.ctypes.data)


class OnGpu:
    """An array in the fake GPU's memory."""

    def __init__(self, host: np.ndarray) -> None:
        self.host = host
        self.__cuda_array_interface__ = {
            "version": 3, "shape": host.shape, "typestr": host.dtype.str,
            "data": (host.ctypes.data, False),
        }  # fmt: skip


@pytest.fixture
def gpu(monkeypatch):
    fake = FakeCupy()
    for name, replaced in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, replaced)
    monkeypatch.setattr(registry, "gpu_count", lambda: 2)
    cuda.clear()
    registry.clear()
    yield fake
    cuda.clear()
    registry.clear()


def test_on_a_gpu_the_same_call_enqueues_the_same_bytes(gpu):
    kernel = ge2rt.RawKernel(SAXPY, "saxpy")
    x, y = vectors(8)
    kernel((2,), (4,), (8, 2.0, OnGpu(x), OnGpu(y)), shared_mem=16)
    (launch,) = gpu.launches
    assert launch.args == struct.pack("<ifQQ", 8, 2.0, x.ctypes.data, y.ctypes.data)
    assert (launch.grid, launch.block) == ((2, 1, 1), (4, 1, 1))
    assert (launch.shared, launch.stream) == (16, 0)
    assert [entry[1][:4] for entry in gpu.log if entry[0] == "load"] == [b"\x7fELF"]
    stream = type("Stream", (), {"ptr": 4242})()
    kernel((2,), (4,), (8, 2.0, OnGpu(x), OnGpu(y)), stream=stream)
    assert gpu.launches[-1].stream == 4242
    with pytest.raises(InvalidTypeError, match=r"expected numpy\.float32"):
        kernel((2,), (4,), (8, np.float64(2), OnGpu(x), OnGpu(y)))
    with pytest.raises(InvalidArgumentError, match="lies on another device than cuda:0"):
        kernel((2,), (4,), (8, 2.0, OnGpu(x), y))
    assert len(gpu.launches) == 2


def test_with_a_gpu_numpy_arrays_still_run_on_the_cpu(gpu):
    x, y = vectors()
    ge2rt.RawKernel(SAXPY, "saxpy")((8,), (128,), (1000, 2.0, x, y))
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert gpu.launches == []


def test_sizes_of_variables_on_a_gpu_come_from_the_ptx(gpu):
    module = ge2rt.RawModule(code=MODULE)
    table = module.get_global("table")
    assert (table.ptr, table.nbytes) == (4096, 16)
    assert table.__cuda_array_interface__["shape"] == (16,)
    assert not hasattr(table, "__array_interface__")
    with pytest.raises(UnsupportedError, match="lies on cuda:0"):
        table.array(F32)
    with pytest.raises(UnsupportedError, match="cooperative"):
        ge2rt.RawKernel(SAXPY, "saxpy", enable_cooperative_groups=True)(
            (1,), (1,), (0, 0.0, None, None)
        )


SECOND = """
import sys
import numpy as np
import ge2rt
from ge2rt.base import events
x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
ge2rt.RawKernel(CODE, "saxpy")((8,), (128,), (1000, 2.0, x, y))
assert (y == 2 * x + 1).all()
assert (ge2rt.ElementwiseKernel("T x", "T y", "y = x + 1", "plus")(x) == x + 1).all()
loaded = [m for m in ("cupy", "jinja2", "yaml", "pydantic") if m in sys.modules]
print(events.counts().get("compile"), events.counts().get("ptx.lower"), loaded)
"""


def test_a_second_process_compiles_nothing_and_imports_little(tmp_path):
    env = {**os.environ, "GE2RT_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SECOND.replace("CODE", repr(SAXPY))]
    said = [
        subprocess.run(
            command, env=env, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    ]
    assert said == ["2 2 []\n", "None None []\n"]
