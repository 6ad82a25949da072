"""PTX text with sizes that no machine has: errors with a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import Ge2rtError, OutOfMemoryError, UnsupportedError

TEXT = """.version 8.0
.target sm_80
.address_size 64
{variable}
.visible .entry k(.param .u64 p, .param {align} .b8 q[8]) {{
 .reg .b64 %rd<3>; .reg .b32 %r<2>;
 ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
 mov.u32 %r1, 7; st.global.u32 [%rd2], %r1; ret; }}
"""


def _run(tmp_path: Path, variable: str = "", align: str = ".align 8") -> int:
    path = tmp_path / "broken.ptx"
    path.write_text(TEXT.format(variable=variable, align=align), encoding="utf-8")
    out = np.zeros(4, "i4")
    function = ge2rt.RawModule(path=str(path), device="cpu").get_function("k")
    function((1,), (1,), (out, np.zeros(8, "u1")))
    return int(out[0])


@pytest.mark.parametrize(
    ("variable", "align", "error"),
    [
        (".global .align 4 .b8 g[1099511627776];", ".align 8", OutOfMemoryError),
        (".global .align 4611686018427387904 .b8 g[4];", ".align 8", UnsupportedError),
        ("", ".align 9223372036854775808", UnsupportedError),
    ],
)
def test_sizes_and_alignments_beyond_all_machines(
    tmp_path: Path, variable: str, align: str, error: type[Ge2rtError]
) -> None:
    with pytest.raises(error, match=r"ptx:\d+"):
        _run(tmp_path, variable, align)


def test_large_alignments_that_exist(tmp_path: Path) -> None:
    assert _run(tmp_path, ".global .align 4096 .b8 g[4];") == 7
