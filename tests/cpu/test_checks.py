"""Programs with a fault each: every check reports its faults, at the right place."""

from __future__ import annotations

import pytest
from cpu.bad_programs import ALL, Bad
from cpu.checked_run import checking, run_text

from ge2rt.base.errors import DeviceError
from ge2rt.device.cpu import CpuDevice


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice()


@pytest.mark.parametrize("program", ALL, ids=lambda p: p.name.replace(" ", "_"))
def test_fault_is_reported_at_its_place(program: Bad, device: CpuDevice) -> None:
    with checking(), pytest.raises(DeviceError) as caught:
        run_text(
            program.source, device, program.args(), grid=(program.grid,), block=(program.block,),
            shared=program.shared,
        )  # fmt: skip
    record = caught.value.record
    assert record.message.startswith(f"{program.check} check: thread ("), record.message
    assert program.says in record.message
    assert record.where == f"bad.cu:{program.line('HERE')}"
    if program.thread_found is not None:
        assert record.extra["thread"] == (program.thread_found, 0, 0)
    if program.block_found is not None:
        assert record.extra["block"] == (program.block_found, 0, 0)
    other = program.line("OTHER")
    if other is not None:
        assert record.extra["second"]["where"] == f"bad.cu:{other}"
