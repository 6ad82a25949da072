"""CUDA programs with one fault each, and what the checks must say of them.

``// HERE`` marks the line that must be named, ``// OTHER`` that of the second access.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_HEAD = """#include <cuda_pipeline.h>
"""


@dataclass(frozen=True)
class Bad:
    """One launch that a check must stop; ``says`` is a part of the message."""

    name: str
    check: str
    says: str
    source: str
    grid: int = 1
    block: int = 64
    shared: int = 0
    args: Callable[[], list[Any]] = lambda: [floats(64), floats(64)]
    block_found: int | None = None
    thread_found: int | None = None

    def line(self, mark: str) -> int | None:
        """The line with a mark."""
        lines = self.source.split("\n")
        return next((n for n, text in enumerate(lines, 1) if f"// {mark}" in text), None)


def floats(count: int) -> Any:
    """An array whose elements differ, with room on both sides: no other array is near it."""
    room = np.zeros(64 + count + 64, np.float32)
    room[64:-64] = np.arange(count)
    return room[64:-64]


def _body(text: str, params: str = "float* out, const float* in", before: str = "") -> str:
    return f"""{before}
extern "C" __global__ void k({params}) {{
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
{text}
}}
"""


MEMORY = (
    Bad("read past the end", "memory", "reads 4 bytes directly past the end of buffer 1",
        _body("out[i] = in[i + 1];  // HERE"), thread_found=63),
    Bad("write past the end", "memory", "writes 4 bytes directly past the end of buffer 0",
        _body("out[i + 2] = in[i];  // HERE"), thread_found=62),
    Bad("read before the start", "memory", "12 bytes before the start of buffer 1",
        _body("out[i] = in[i - 3];  // HERE"), thread_found=0),
    Bad("guard with <=", "memory", "writes 4 bytes directly past the end of buffer 0",
        _body("if (i <= n) out[i] = 1;  // HERE", "float* out, int n"), grid=2, thread_found=36,
        args=lambda: [floats(100), np.int32(100)], block_found=1),
    Bad("null pointer", "memory", "reads 4 bytes",
        _body("out[i] = in[i];  // HERE"), args=lambda: [floats(64), None], thread_found=0),
    Bad("far address", "memory", "reads 4 bytes",
        _body("out[i] = in[i * 1000000];  // HERE"), thread_found=1),
    Bad("misaligned float4", "memory", "no multiple of 16",
        _body("((float4*)out)[t] = *(const float4*)(in + 4 * t + 1);  // HERE"), block=8,
        thread_found=0),
    Bad("misaligned double", "memory", "writes 8 bytes at the address",
        _body("*(double*)(out + 2 * t + 1) = 1;  // HERE"), block=16, thread_found=0),
    Bad("float4 across the end", "memory", "reads 16 bytes across the end of buffer 1",
        _body("((float4*)out)[t] = ((const float4*)in)[t];  // HERE"), block=16,
        args=lambda: [floats(64), floats(62)], thread_found=15),
    Bad("static shared", "memory", "writes 4 bytes of shared memory at byte 256",
        _body("__shared__ float s[64]; s[t + 1] = in[i];  // HERE\n"
              "__syncthreads(); out[i] = s[63 - t];"), thread_found=63),
    Bad("dynamic shared", "memory", "of shared memory at byte 128",
        _body("extern __shared__ float s[]; s[t] = in[i];  // HERE\n"
              "__syncthreads(); out[i] = s[63 - t];"), shared=128, thread_found=32),
    Bad("shared through a pointer", "memory", "of shared memory at byte 256",
        _body("__shared__ float s[64]; s[t] = in[i]; __syncthreads(); put(s + t, in[i]);\n"
              "__syncthreads(); out[i] = s[t];",
              before="__device__ __noinline__ void put(float* p, float x) {\n"
                     " p[1] = x;  // HERE\n}"), thread_found=63),
    Bad("local array", "memory", "of its local memory",
        _body("float a[8]; for (int j = 0; j < 8; ++j) a[j] = in[(i + j) % 64];\n"
              "out[i] = a[n + t];  // HERE", "float* out, const float* in, int n"),
        args=lambda: [floats(64), floats(64), np.int32(0)], thread_found=8),
    Bad("atomic", "memory", "changes 4 bytes directly past the end of buffer 0",
        _body("atomicAdd(out + i, 1.f);  // HERE", "float* out"), grid=2, thread_found=36,
        args=lambda: [floats(100)], block_found=1),
    Bad("variable of the module", "memory", "past the end of variable table",
        _body("out[i] = table[i];  // HERE", before="__device__ float table[60];"),
        thread_found=60),
    Bad("constant of the module", "memory", "past the end of variable table",
        _body("out[i] = table[i];  // HERE", before="__constant__ float table[60];"),
        thread_found=60),
    Bad("asynchronous copy", "memory", "reads 16 bytes directly past the end of buffer 1",
        _body("__shared__ float4 s[16];\n"
              "__pipeline_memcpy_async(s + t, (const float4*)in + t + 1, 16);  // HERE\n"
              "__pipeline_commit(); __pipeline_wait_prior(0); __syncthreads();\n"
              "((float4*)out)[t] = s[15 - t];", before=_HEAD), block=16, thread_found=15),
    Bad("bytes", "memory", "writes 1 byte directly past the end of buffer 0",
        _body("if (t % 2 == 0) out[i + 1] = 7;  // HERE", "char* out"),
        args=lambda: [np.zeros(63, np.int8)], thread_found=62),
)  # fmt: skip

INIT = (
    Bad("shared never written", "init", "of shared memory at byte 0",
        _body("__shared__ float s[64]; if (i > 1000) s[t] = 1;\n"
              "out[i] = s[t];  // HERE"), thread_found=0),
    Bad("shared written in part", "init", "of shared memory at byte 160",
        _body("__shared__ float s[64]; if (t < 40) s[t] = in[i];\n __syncthreads();\n"
              "out[i] = s[t];  // HERE"), thread_found=40),
    Bad("shared of the block before", "init", "of shared memory at byte 0",
        _body("__shared__ float s[64]; if (blockIdx.x == 0) s[t] = in[i];\n __syncthreads();\n"
              "out[i] = s[t];  // HERE"), grid=2, thread_found=0, block_found=1,
        args=lambda: [floats(128), floats(128)]),
    Bad("sum onto nothing", "init", "of shared memory at byte 0",
        _body("__shared__ int s; atomicAdd(&s, t);  // HERE\n"
              "__syncthreads(); out[i] = s;"), thread_found=0),
    Bad("half of a vector", "init", "reads 16 bytes",
        _body("__shared__ float4 s[16]; s[t].x = in[i]; s[t].y = in[i];\n"
              "((float4*)out)[t] = s[t];  // HERE"), block=16, thread_found=0),
    Bad("local never written", "init", "of its local memory",
        _body("float a[8]; for (int j = 0; j < n; ++j) a[j] = in[(i + j) % 64];\n"
              "out[i] = a[(t + 7) % 8];  // HERE", "float* out, const float* in, int n"),
        args=lambda: [floats(64), floats(64), np.int32(7)], thread_found=0),
)  # fmt: skip

RACE = (
    Bad("neighbour without a barrier", "race", "which thread (31,0,0) wrote",
        _body("__shared__ float s[64]; s[t] = in[i];  // OTHER\n"
              "if (t >= 32) out[i] = s[63 - t];  // HERE"), thread_found=32),
    Bad("tree without barriers", "race", "with nothing that orders the two",
        _body("__shared__ float s[64]; s[t] = in[i]; __syncthreads();\n"
              "#pragma unroll 1\n"
              "for (int d = 32; d > 0; d /= 2)\n"
              " if (t < d) s[t] += s[t + d];  // HERE\n"
              "if (t == 0) out[0] = s[0];")),
    Bad("written after a read", "race", "read",
        _body("__shared__ float s[64]; s[t] = in[i]; __syncthreads();\n"
              "float x = t < 32 ? s[63 - t] : 0;  // OTHER\n"
              "if (t >= 32) s[t] = x + 1;  // HERE\n"
              "__syncthreads(); out[i] = s[t];")),
    Bad("two writers", "race", "wrote",
        _body("__shared__ float s[32]; s[t % 32] = in[i];  // HERE\n"
              "__syncthreads(); out[i] = s[t % 32];")),
    Bad("two lanes of one store", "race", "which thread (0,0,0) wrote",
        _body("__shared__ float s[32]; s[t / 2] = in[i];  // HERE\n"
              "__syncthreads(); out[i] = s[t % 32];"), block=32, thread_found=1),
    Bad("warp without __syncwarp", "race", "wrote",
        _body("__shared__ float s[32]; s[t] = in[i];  // OTHER\n"
              "out[i] = s[31 - t];  // HERE"), block=32),
    Bad("barrier only before", "race", "wrote",
        _body("__shared__ float s[64]; float sum = 0;\n"
              "#pragma unroll 1\n"
              "for (int tile = 0; tile < 4; ++tile) {\n"
              " s[t] = in[i] + tile;  // OTHER\n"
              " __syncthreads();\n"
              " sum += s[63 - t];  // HERE\n"
              "}\n"
              "out[i] = sum;")),
    Bad("atomic and plain", "race", "changed",
        _body("__shared__ int s; if (t == 0) s = 0; __syncthreads();\n"
              "atomicAdd(&s, t);  // OTHER\n"
              "out[i] = s;  // HERE")),
    Bad("start value without a barrier", "race", "wrote",
        _body("__shared__ int s; if (t == 0) s = 0;  // OTHER\n"
              "atomicAdd(&s, t);  // HERE\n"
              "__syncthreads(); out[i] = s;")),
    Bad("bytes of two warps", "race", "wrote",
        _body("__shared__ char s[64]; s[t] = t;  // OTHER\n"
              "if (t >= 32) out[i] = s[63 - t];  // HERE")),
    Bad("blocks write one place", "race", "of block (0,0,0) wrote",
        _body("if (t == 0) out[0] = blockIdx.x;  // HERE"), grid=3, block_found=1),
    Bad("sum without atomics", "race", "in element [0] of buffer 0",
        _body("if (t == 0) out[0] += in[i];  // HERE"), grid=2, block_found=1,
        args=lambda: [floats(64), floats(128)]),
    Bad("block reads another's result", "race", "of block (0,0,0) wrote",
        _body("out[i] = 2 * in[i];  // OTHER\n"
              "if (blockIdx.x > 0) out[i] += out[i - 64];  // HERE"), grid=2, block_found=1,
        args=lambda: [floats(128), floats(128)], thread_found=0),
    Bad("last block without a fence", "race", "of block (0,0,0) wrote",
        _body("__shared__ bool last; if (t == 0) {\n"
              " out[1 + blockIdx.x] = in[i];  // OTHER\n"
              " last = atomicAdd(&count, 1) == gridDim.x - 1;\n"
              "}\n"
              "__syncthreads();\n"
              "if (last && t < gridDim.x) atomicAdd(out, out[1 + t]);  // HERE",
              before="__device__ int count;"), grid=2, block_found=1,
        args=lambda: [floats(64), floats(128)]),
    Bad("global memory within the block", "race", "which thread (31,0,0) read",
        _body("out[i] = in[i];  // HERE\n"
              "float x = out[63 - i];  // OTHER\n"
              "__syncthreads(); out[i] = x;"), block=64),
)  # fmt: skip

SYNC = (
    Bad("barrier for half of the block", "sync", "goes past the barrier that thread",
        _body("__shared__ float s[128]; s[t] = in[i];\n"
              "if (t < 64) {\n"
              " out[i] = 1;\n"
              " __syncthreads();  // HERE\n"
              "}\n"
              "s[t] = in[i] + 1; out[i] = s[t];"), block=128,
        args=lambda: [floats(128), floats(128)]),
    Bad("two barriers", "sync", "comes to this barrier while thread",
        _body("if (t < 32) {\n"
              " out[i] = 1;\n"
              " __syncthreads();  // OTHER\n"
              " out[i] += in[i];\n"
              "} else {\n"
              " out[i] = 2;\n"
              " __syncthreads();  // HERE\n"
              " out[i] *= in[i];\n"
              "}\n"
              "out[i] += 1;")),
    Bad("barrier in an uneven loop", "sync", "goes past the barrier that thread",
        _body("__shared__ float s[64]; s[t] = in[i];\n"
              "#pragma unroll 1\n"
              "for (int j = 0; j < 1 + t / 32; ++j) {\n"
              " s[t] += 1;\n"
              " __syncthreads();  // HERE\n"
              "}\n"
              "out[i] = s[t];")),
    Bad("barrier for some lanes", "sync", "goes past the barrier that thread",
        _body("__shared__ float s[64]; s[t] = in[i];\n"
              "if (in[i] > 10) {\n"
              " s[t] += 1;\n"
              " __syncthreads();  // HERE\n"
              "}\n"
              "out[i] = s[t];")),
    Bad("shuffle in a branch", "sync", "for lanes that do not come to it",
        _body("float x = in[i];\n"
              "if (t < 20)\n"
              " x += __shfl_down_sync(0xffffffff, x, 1);  // HERE\n"
              "out[i] = x;"), block=32),
    Bad("mask without the lane", "sync", "which lacks its lane",
        _body("float x = in[i];\n"
              "x += __shfl_xor_sync(0x0000ffff, x, 1);  // HERE\n"
              "out[i] = x;"), block=32, thread_found=16),
    Bad("vote in a branch", "sync", "for lanes that do not come to it",
        _body("out[i] = 0;\n"
              "if (in[i] > 8)\n"
              " out[i] = __ballot_sync(0xffffffff, in[i] > 10);  // HERE\n"), block=32),
    Bad("__syncwarp in a branch", "sync", "bar.warp.sync for lanes that do not come to it",
        _body("__shared__ float s[32]; s[t] = in[i]; __syncwarp();\n"
              "if (in[i] > 8) {\n"
              " s[t] += 1;\n"
              " __syncwarp();  // HERE\n"
              " out[i] = s[31];\n"
              "}"), block=32),
    Bad("reduce in a branch", "sync", "for lanes that do not come to it",
        _body("unsigned x = in[i];\n"
              "if (t > 3)\n"
              " x = __reduce_add_sync(0xffffffff, x);  // HERE\n"
              "out[i] = x;"), block=32),
)  # fmt: skip

ALL = (*MEMORY, *INIT, *RACE, *SYNC)
