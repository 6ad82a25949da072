"""Selection by scores: the module's own, if it tells them, and the client's rules."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from ge_v2_client.ir import Op


@dataclass(frozen=True)
class Known:
    """What the client knows of a kernel."""

    name: str
    op_type: str
    score: int
    tensor_core: bool = False
    min_mnk: tuple[int, int, int] | None = None


KERNELS = (
    Known("gemm_bias_act_f32", "GEMM_BIAS_ACT", 50),
    Known("gemm_bias_act_tc_f16", "GEMM_BIAS_ACT", 10, tensor_core=True),
    Known("copy", "COPY", 10),
)


def native_scores(op_type: str) -> dict[str, int]:
    """What ``graph_executor`` says: by that name, whatever GE_NATIVE is. Nothing if it cannot."""
    try:
        native = importlib.import_module("graph_executor")
        return dict(native.query_capability(op_type, {}, {}))
    except (ImportError, AttributeError):
        return {}


def select(op: Op, *, tensor_cores: bool = True) -> str:
    """The kernel with the best sum of scores; dtypes are not looked at."""
    stated = native_scores(op.op_type)
    best: tuple[int, str] | None = None
    for kernel in KERNELS:
        if kernel.op_type != op.op_type:
            continue
        score = stated.get(kernel.name, kernel.score)
        score += 30 if kernel.tensor_core and tensor_cores else 0
        mnk = op.attrs.get("mnk", (0, 0, 0))
        if kernel.min_mnk and all(x >= y for x, y in zip(mnk, kernel.min_mnk, strict=True)):
            score += 20
        if best is None or score > best[0]:
            best = score, kernel.name
    if best is None:
        raise LookupError(f"no kernel for {op.op_type}")
    return best[1]
