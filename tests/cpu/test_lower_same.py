"""The lowering gives the same text in every process: nothing follows the order of a set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from corpus.program import programs
from corpus.run import compile_program

_LOWER = """
import hashlib, sys
from ge2rt.ptx.lower import lower_to_ir
from ge2rt.ptx.native import LowerOptions
from ge2rt.ptx.parse import parse_module
module = parse_module(open(sys.argv[1]).read())
for entry in module.entries():
    text = lower_to_ir(module, entry, LowerOptions((256, 1, 1), lanes=0)).llvm_ir
    print(entry, hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.mark.parametrize("name", ["acceptance", "mandelbrot"])
def test_hash_seeds_leave_the_code_alone(name: str, tmp_path) -> None:
    program = next(p for p in programs() if p.name == name)
    path = tmp_path / "program.ptx"
    path.write_bytes(compile_program(program, 75).data)
    texts = {
        subprocess.run(
            [sys.executable, "-c", _LOWER, str(path)], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "3", "6")
    }  # fmt: skip
    assert len(texts) == 1
    assert texts.pop()
