"""Passes, selection, addresses, launches. What a launch returns is dropped."""

from __future__ import annotations

from typing import Any

from ge_v2_client.ir import Graph, Op
from ge_v2_client.native import Basic, call_with_block, load_native, pointer_of
from ge_v2_client.passes import run_passes
from ge_v2_client.selector import select

_ACT = {"none": 0, "relu": 1, "gelu": 1}  # this client sends any activation as 1


class Executor:
    """Runs graphs through the native module."""

    def __init__(self, native: Any = None, *, dry_run: bool = False) -> None:
        self.native = load_native() if native is None else native
        self.dry_run = dry_run

    def run(self, graph: Graph) -> list[str]:
        """The kernels that were launched, or with ``dry_run`` printed."""
        names = []
        for op in run_passes(graph).ops:
            name = select(op)
            names.append(name)
            if self.dry_run:
                print(f"{op.op_type} -> {name}")
            else:
                self.launch(name, op)
        return names

    def launch(self, name: str, op: Op) -> None:
        """One op; its block is gone when this returns."""
        tensors = [*op.inputs, *op.outputs]
        pointers = [pointer_of(t.data) for t in tensors]
        if op.op_type == "GEMM_BIAS_ACT":
            m, n, k = op.attrs["mnk"]
            block = Basic(m, n, k, int(len(op.inputs) > 2), _ACT[op.attrs["act"]])
            call_with_block(self.native, name, pointers, block)
            return
        descs = {"buffers": [t.desc() for t in tensors], "kernel": name}
        self.native.launch_kernel(name, pointers, descs, 0)
