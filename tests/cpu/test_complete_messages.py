"""printf, assert and trap on the CPU device; endless loops end by a signal or the abort word."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cpu.native_run import pack, ptx_of

from ge2rt.base.errors import DeviceError
from ge2rt.device.api import LaunchShape
from ge2rt.device.cpu import CpuDevice, CpuLauncher
from ge2rt.device.messages import formatted


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice()


def launcher(
    device: CpuDevice, source: str, grid: Sequence[int], block: Sequence[int]
) -> CpuLauncher:
    function = device.load(ptx_of(source).encode(), "ptx", "test").function("k")
    shapes = [(*shape, 1, 1)[:3] for shape in (grid, block)]
    return function.launcher(LaunchShape(shapes[0], shapes[1], 0))


def run(
    device: CpuDevice, source: str, grid: Sequence[int], block: Sequence[int], *args: Any
) -> None:
    launcher(device, source, grid, block)(pack(args))


def test_printf_in_the_order_of_blocks(
    device: CpuDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    source = """
    extern "C" __global__ void k(float x) {
        if (threadIdx.x % 40 == 3)
            printf("block %d lane %2u: %.2f %s %lld %c%%\\n", blockIdx.x, threadIdx.x, x * 2,
                   "text", 1ll << 40, 'A' + blockIdx.x); }"""
    ready = launcher(device, source, (40,), (70,))
    for _ in range(2):
        ready(pack([np.float32(1.25)]))
        expected = "".join(
            f"block {b} lane {t:2d}: 2.50 text 1099511627776 {chr(65 + b)}%\n"
            for b in range(40) for t in (3, 43)
        )  # fmt: skip
        assert capsys.readouterr().out == expected


def test_printf_counts_what_found_no_room(
    device: CpuDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    source = """
    extern "C" __global__ void k(int *told) {
        told[blockIdx.x * 256 + threadIdx.x] =
            printf("%d %d\\n", blockIdx.x, threadIdx.x); }"""
    told = np.zeros(256 * 512, np.int32)
    run(device, source, (512,), (256,), told)
    lines = capsys.readouterr().out.splitlines()
    assert (told == 2).all()
    assert lines[0] == "0 0"
    room = (4 << 20) // (32 + 8 + 16)
    assert len(lines) == room + 1
    assert lines[-1] == f"[ge2rt: {256 * 512 - room} printf records of k found no room]"


@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        (b"%5d|%-5d|%05d|%+d", np.array([-3, 4, 5, 6], "i4"), b"   -3|4    |00005|+6"),
        (b"%u %x %X %o %#x", np.array([-1, 255, 255, 8, 255], "i4"),
         b"4294967295 ff FF 10 0xff"),
        (b"%ld %lu", np.array([-1, -1], "i8"), b"-1 18446744073709551615"),
        (b"%hd %hhu", np.array([70000, 300], "i4"), b"4464 44"),
        (b"%*d", np.array([6, 42], "i4"), b"    42"),
        (b"%g %e %.3f", np.array([0.5, 1e10, 2.0], "f8"), b"0.5 1.000000e+10 2.000"),
        (b"%p %5c|", np.array([16, 65], "i8"), b"0x10     A|"),
        (b"100%% %s", np.array([0], "i8"), b"100% (null)"),
    ],
)  # fmt: skip
def test_conversions_of_printf(text: bytes, data: np.ndarray, expected: bytes) -> None:
    assert formatted(text, data.tobytes()) == expected


def test_arguments_of_printf_are_aligned() -> None:
    data = np.array([1, 0], "i4").tobytes() + np.float64(2.5).tobytes()
    assert formatted(b"%d %.1f", data) == b"1 2.5"


def test_a_failed_assert_names_block_thread_and_line(device: CpuDevice) -> None:
    source = """
    extern "C" __global__ void k(int *x) {
        int i = threadIdx.y * blockDim.x + threadIdx.x;
        assert(x[i] < 5 && "small");
        x[i] = 1; }"""
    x = np.zeros((2, 32), np.int32)
    x[1, 7] = 9
    run(device, source, (1,), (2, 16), x)
    with pytest.raises(DeviceError) as caught:
        run(device, source, (3, 2), (8, 8), x)
    text = str(caught.value)
    assert caught.value.code == -2
    assert 'block: [0,0,0], thread: [7,4,0] Assertion `x[i] < 5 && "small"` failed.' in text
    assert "test.cu:4: void k(int *):" in text
    assert x[1, 7] == 9
    assert x.sum() == 63 + 9


def test_a_trap_names_block_and_thread_and_stops_its_lanes(device: CpuDevice) -> None:
    source = """extern "C" __global__ void k(int *x) {
        if (threadIdx.x == 33) __trap();
        x[threadIdx.x] = 1; }"""
    x = np.zeros(64, np.int32)
    with pytest.raises(DeviceError, match=r"ptx:\d+: block: \[0,0,0\], thread: \[33,0,0\] trap"):
        run(device, source, (1,), (64,), x)
    assert x[33] == 0
    assert x[:33].all()


ENDLESS = {
    "uniform": "while (*(volatile int *)x == 0) ;",
    "lanes": "while (((volatile int *)x)[threadIdx.x] == 0) ;",
    "no memory": "unsigned s = x[0]; while (s != 77777u || x[1]) { s = s * 1664525u + 1013904223u;"
                 " s = s == 77777u ? 1u : s; } x[2] = s;",
}  # fmt: skip


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS)
def test_endless_loops_end_by_a_signal(device: CpuDevice, body: str) -> None:
    class Stop(Exception):
        pass

    def stop(number: int, frame: object) -> None:
        raise Stop

    ready = launcher(device, f'extern "C" __global__ void k(int *x) {{ {body} }}', (4,), (64,))
    before = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Stop):
            ready(pack([np.zeros(64, np.int32)]))
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
