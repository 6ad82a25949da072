from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from program_samples import Builder, take_kernel, take_program

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import DeviceError, InvalidArgumentError
from ge2rt.device.api import LaunchShape
from ge2rt.device.pointers import describe
from ge2rt.device.registry import get_device, gpu_count
from ge2rt.fuse.program import View
from ge2rt.run.program import Executable

if gpu_count() == 0:
    pytest.skip("no NVIDIA GPU", allow_module_level=True)

pytestmark = pytest.mark.gpu

# out[i] = 2 * out[i] for i < n, out and n as parameters
PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry twice(.param .u64 out, .param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd3, %rd2, %rd3;
  ld.global.f32 %f1, [%rd3];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd3], %f2;
DONE:
  ret;
}
"""


def test_memory_round_trip() -> None:
    memory = get_device("cuda").memory
    address = memory.allocate(1000)
    assert address % 256 == 0
    memory.write(address, bytes(range(200)) * 5)
    memory.fill(address, 9, 3)
    assert memory.read(address, 5) == bytes((9, 9, 9, 3, 4))
    memory.free(address)


@pytest.mark.parametrize("stream", [False, True])
def test_a_kernel_runs(stream: bool) -> None:
    device = get_device("cuda")
    handle = device.create_stream() if stream else 0
    address = device.memory.allocate(4000)
    device.memory.write(address, np.arange(1000, dtype=np.float32).tobytes())
    launch = device.load(PTX, "ptx", "twice").function("twice").launcher(
        LaunchShape((4, 1, 1), (256, 1, 1))
    )  # fmt: skip
    launch(struct.pack("=QI", address, 999), handle)
    device.synchronize(handle)
    expected = np.arange(1000, dtype=np.float32) * 2
    expected[999] = 999
    found = np.frombuffer(device.memory.read(address, 4000), np.float32)
    np.testing.assert_array_equal(found, expected)
    device.memory.free(address)
    if stream:
        device.destroy_stream(handle)


def test_large_shared_memory_and_limits() -> None:
    device = get_device("cuda")
    function = device.load(PTX, "ptx", "twice").function("twice")
    function.launcher(LaunchShape((1, 1, 1), (32, 1, 1), device.props.shared_optin))
    with pytest.raises(InvalidArgumentError, match="shared memory"):
        function.launcher(LaunchShape((1, 1, 1), (32, 1, 1), device.props.shared_optin + 1))
    with pytest.raises(InvalidArgumentError, match="no such kernel"):
        device.load(PTX, "ptx", "twice").function("missing")


def test_arrays_and_events() -> None:
    device = get_device("cuda")
    array = device.empty((8, 4), DTYPES["f16"])
    operand = describe(array)
    assert (operand.device, operand.shape, operand.dtype.name) == ("cuda:0", (8, 4), "f16")
    first, second = device.record_event(0), device.record_event(0)
    device.wait_event(second)
    assert device.elapsed_ms(first, second) >= 0
    device.keep_alive([array], 0)
    device.synchronize()


def test_text_that_is_no_ptx_is_refused() -> None:
    with pytest.raises(DeviceError):
        get_device("cuda").load(b"not ptx", "ptx", "bad")


# -- programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("captured", [False, True])
def test_a_program_of_kernels_and_a_product(stream: bool, captured: bool) -> None:
    import cupy

    device = get_device("cuda")
    made = Builder()
    a, b = made.buffer("input", 64, 48), made.buffer("input", 80, 48)
    t, u = made.buffer("temp", 64, 48), made.buffer("temp", 64, 80)
    made.kernel("UNARY", [a], [t], op="neg")
    made.matmul(t, View(b, (48, 80), (1, 48)), u)
    made.kernel("UNARY", [u], [made.buffer("output", 64, 80)], op="abs")
    program = Executable(made.program(), device)
    runner = program.capture() if captured else program
    handle = device.create_stream() if stream else 0
    numbers = np.random.default_rng(1)
    for _ in range(3):
        x, y = (numbers.standard_normal(s).astype(np.float32) for s in [(64, 48), (80, 48)])
        given = [cupy.asarray(v) for v in (x, y)]
        device.synchronize()
        (out,) = runner.run(given, handle)
        device.synchronize(handle)
        assert np.allclose(cupy.asnumpy(out), np.abs(x @ y.T), rtol=1e-4, atol=1e-4)
    if stream:
        device.destroy_stream(handle)


def test_an_index_outside_of_its_array_is_told(tmp_path: Path) -> None:
    import cupy

    program = Executable(take_program(take_kernel(tmp_path), 10, 5), get_device("cuda"))
    x = cupy.arange(10, dtype=np.float32)
    good = cupy.arange(5, dtype=np.int32)
    for _ in range(2):
        (out,) = program.run([x, good, good])
        assert np.array_equal(cupy.asnumpy(out), 2 * np.arange(5))
        with pytest.raises(InvalidArgumentError, match="take j: an index lies outside"):
            program.run([x, good, good + 9])
