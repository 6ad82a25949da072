"""Checks through the contract, the command line and raw kernels; gaps are named."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from cpu.bad_programs import RACE, SYNC, floats
from cpu.checked_run import checking, run_text

import ge2rt
from ge2rt.base import switches
from ge2rt.base.errors import DeviceError, InvalidArgumentError, UnsupportedError
from ge2rt.build.compile import compile_text
from ge2rt.cli import main as entry
from ge2rt.device.api import LaunchShape
from ge2rt.device.checks import CheckedLauncher, lent
from ge2rt.device.cpu import CpuDevice
from ge2rt.device.objects import MemoryStore
from ge2rt.run import cases

DECLARATION = """\
api_version: 1
kernels:
  - name: twice
    op: TWICE
    template: twice.cu.j2
    score: 1
    inputs: [{name: x, dtype: f32, shape: [N]}]
    outputs: [{name: y, dtype: f32, shape: [N]}]
    launch: {grid: ["ceildiv(N, 64)"], block: [64]}
    reference: "2 * x"
"""
TEMPLATE = """\
{# reads one element too many #}
extern "C" __global__ void {{ kernel }}({{ params }}) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= {{ N }}) return;
  float next = x[(i + 1) * {{ x.strides[0] }}];
  y[i * {{ y.strides[0] }}] = next == 12345.0f ? next : 2.0f * x[i * {{ x.strides[0] }}];
}
"""


@pytest.fixture
def twice(tmp_path, monkeypatch):
    """A kernel whose fault no comparison of results can find."""
    ge2rt.clear_caches()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(DECLARATION)
    (tmp_path / "twice.cu.j2").write_text(TEMPLATE)
    yield tmp_path / "mine.yaml"
    ge2rt.clear_caches()


def test_the_contract_answers_with_code_and_record(twice):
    ge2rt.load_registry(str(twice))
    x, y = floats(100), np.zeros(100, np.float32)
    desc = {"shape": [100], "dtype": "f32", "device": "cpu"}
    call = ("twice", [x.ctypes.data, y.ctypes.data], {"buffers": [desc, desc]})
    with checking("memory"):
        assert [ge2rt.launch_kernel(*call) for _ in range(3)] == [-2, -2, -2]
    record = ge2rt.last_error()
    assert record.where == "twice.cu.j2:5"
    assert record.kernel == "twice"
    assert record.message == (
        "memory check: thread (35,0,0) of block (1,0,0) reads 4 bytes directly past the end of "
        "input x f32[100]"
    )
    told = {k: record.extra[k] for k in ("check", "block", "thread", "access", "size", "offset")}
    assert told == {"check": "memory", "block": (1, 0, 0), "thread": (35, 0, 0),
                    "access": "read", "size": 4, "offset": 400}  # fmt: skip
    assert record.extra["address"] == x.ctypes.data + 400
    ge2rt.clear_caches()
    ge2rt.load_registry(str(twice))
    assert ge2rt.launch_kernel(*call) == 0
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [(["--checks", "race,sync"], 0, "8 of 8 cases passed on cpu"),
     (["--checks", "all"], 1, "past the end of input x"), (["--checks", "mem"], 2, "mem: not out"),
     (["--checks", "all", "--device", "cuda"], 2, "on the cpu device only")],
)  # fmt: skip
def test_command_line(twice, monkeypatch, capsys, args, status, text):
    monkeypatch.setattr(cases, "QUICK", 8)
    monkeypatch.setattr(sys, "argv", ["ge2rt", "check", "mine.yaml", *args])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    out, err = capsys.readouterr()
    assert (ended.value.code or 0) == status, out + err
    assert text in " ".join((out + err).split())
    assert switches.get("GE2RT_CHECK") == frozenset()


def test_raw_kernels_know_their_arrays_and_what_is_lent():
    code = """
extern "C" __global__ void k(float* y, const float* x, int n) {
  if (threadIdx.x <= n) y[threadIdx.x] = 2 * x[threadIdx.x];
}
extern "C" __global__ void table(float** p) { p[threadIdx.x][1] = 3; }
"""
    module = ge2rt.RawModule(code, device="cpu")
    x, y = floats(50), np.zeros(60, np.float32)
    with checking():
        module.get_function("k")((1,), (64,), (y, x, np.int32(49)))
        assert np.array_equal(y[:50], 2 * x)
        with pytest.raises(DeviceError, match=r"past the end of args\[1\] x float32\[50\]"):
            module.get_function("k")((1,), (64,), (y, x, np.int32(50)))
        view = x[10:20]
        with pytest.raises(DeviceError, match=r"past the end of args\[1\] x float32\[10\]"):
            module.get_function("k")((1,), (64,), (y, view, np.int32(10)))
        pointers = np.array([x.ctypes.data, y.ctypes.data], np.uint64)
        with pytest.raises(DeviceError, match=r"memory check: thread .* writes 4 bytes"):
            module.get_function("table")((1,), (2,), (pointers,))
        with lent(x, y):
            module.get_function("table")((1,), (2,), (pointers,))
        assert (x[1], y[1]) == (3, 3)


def test_allocations_are_known():
    device = CpuDevice()
    start = device.memory.allocate(256)
    source = 'extern "C" __global__ void k(int* p) { p[threadIdx.x] = 1; }'
    binary = compile_text(source, "sm_80", name="a.cu")
    with checking():
        function = device.load(binary.data, "ptx", "a").function("k")
        args = start.to_bytes(8, "little")
        function.launcher(LaunchShape((1, 1, 1), (64, 1, 1)))(args, 0)
        with pytest.raises(DeviceError, match="directly past the end of an allocation"):
            function.launcher(LaunchShape((1, 1, 1), (65, 1, 1)))(args, 0)


def launcher_of(source, device, block=64):
    binary = compile_text(source, "sm_80", name="a.cu")
    function = device.load(binary.data, "ptx", "a").function("k")
    return function.launcher(LaunchShape((1, 1, 1), (block, 1, 1)))


def test_plain_kernels_have_nothing_of_it_and_the_store_keeps_the_sites():
    store, source = MemoryStore(), RACE[0].source
    plain = launcher_of(source, CpuDevice(store=store))
    assert "check" not in plain.kernel.llvm_ir
    assert plain.kernel.checked is None
    assert plain.native is not None
    with checking("memory"):
        made = launcher_of(source, CpuDevice(store=store))
        again = launcher_of(source, CpuDevice(store=store))
    assert isinstance(again, CheckedLauncher)
    assert again.kernel.llvm_ir == ""
    assert again.kernel.checked == made.kernel.checked
    assert {site.form.split(".")[0] for site in made.kernel.checked.sites} == {"ld", "st"}


def test_only_what_was_asked_for_is_reported():
    device = CpuDevice()
    for program in (RACE[1], RACE[10], SYNC[0]):
        others = {"memory", "init", "race", "sync"} - {program.check}
        with checking(",".join(sorted(others))):
            run_text(program.source, device, program.args(), grid=(program.grid,),
                     block=(program.block,))  # fmt: skip


def test_launches_of_one_launcher_from_two_threads():
    source = """
extern "C" __global__ void k(float* out) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x; __syncthreads();
  for (int j = 0; j < 50; ++j) out[threadIdx.x] = s[63 - threadIdx.x];
}
"""
    device = CpuDevice()
    memory = [device.memory.allocate(256) for _ in range(2)]
    with checking():
        launcher = launcher_of(source, device)
        failed: list[Exception] = []

        def work(address: int) -> None:
            try:
                for _ in range(20):
                    launcher(address.to_bytes(8, "little"), 0)
            except DeviceError as fault:
                failed.append(fault)

        threads = [threading.Thread(target=work, args=(address,)) for address in memory]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []


LUCKY = """
extern "C" __global__ void k(float* out, const float* in) {
  __shared__ float s[128];
  int t = threadIdx.x;
  if (t < 32) s[t] = in[t];
  out[t] = t < 32 ? 0 : s[t % 32];
}
"""


def test_a_seed_changes_the_order_of_warps(monkeypatch):
    """A consumer that happens to run after its producer is right; with some seed it is not."""
    device = CpuDevice()
    monkeypatch.setenv("GE2RT_LANES", "32")

    def is_right(start: int) -> bool:
        out, given = np.zeros(128, np.float32), floats(128) + start
        run_text(LUCKY, device, [out, given], block=(128,))
        return np.array_equal(out[32:], np.tile(given[:32], 3))

    assert is_right(1)
    assert is_right(2)
    found = []
    for seed in range(1, 6):
        with checking("", SEED=seed):
            found.append(is_right(10 + seed))
    assert not all(found)
    for seed in ("", "1", "2", "3"):
        with checking("race,init", SEED=seed), pytest.raises(DeviceError):
            is_right(0)


def test_a_malformed_seed_is_named(monkeypatch):
    monkeypatch.setenv("GE2RT_SEED", "one")
    with pytest.raises(InvalidArgumentError, match="GE2RT_SEED is malformed; expected a whole"):
        switches.get("GE2RT_SEED")


REFUSED = {
    "recursion": """
__device__ __noinline__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
extern "C" __global__ void k(float* out) { out[threadIdx.x] = f(threadIdx.x % 5); }
""",
    "for a part of the block": """
extern "C" __global__ void k(float* out) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 32;");
  out[threadIdx.x] = 1;
}
""",
    "lanes that meet at __syncwarp": """
extern "C" __global__ void k(float* out) {
  __shared__ float s[64];
  int t = threadIdx.x;
  if (t % 32 < 16) { s[t] = 1; __syncwarp(); out[t] = s[t + 16]; }
  else { s[t] = 2; __syncwarp(); out[t] = s[t - 16]; }
}
""",
    "a thread waits for one that cannot run meanwhile": """
extern "C" __global__ void k(float* out) {
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) { while (flag == 0) { } }
  if (threadIdx.x == 63) flag = 1;
  out[threadIdx.x] = 1;
}
""",
}


@pytest.mark.parametrize("text", REFUSED)
def test_gaps_are_named(text):
    out = floats(64)
    with checking(), pytest.raises(UnsupportedError, match=text):
        run_text(REFUSED[text], CpuDevice(), [out])
