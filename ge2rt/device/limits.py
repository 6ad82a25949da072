"""What GPUs allow: the virtual GPU that the CPU device presents, and the check of a launch's shape.

Numbers: CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.device.api import DeviceProps, LaunchShape

_KB = 1024

# cc -> (tensor cores, shared memory a block with opt-in)
ARCHS: dict[int, tuple[bool, int]] = {
    75: (True, 64 * _KB),
    80: (True, 163 * _KB),
    86: (True, 99 * _KB),
    87: (True, 163 * _KB),
    89: (True, 99 * _KB),
    90: (True, 227 * _KB),
    100: (True, 227 * _KB),
    103: (True, 227 * _KB),
    110: (True, 227 * _KB),
    120: (True, 99 * _KB),
    121: (True, 99 * _KB),
}

# cc -> threads, blocks and bytes of shared memory a multiprocessor
RESIDENT: dict[int, tuple[int, int, int]] = {
    75: (1024, 16, 64 * _KB),
    80: (2048, 32, 164 * _KB),
    86: (1536, 16, 100 * _KB),
    87: (1536, 16, 164 * _KB),
    89: (1536, 24, 100 * _KB),
    90: (2048, 32, 228 * _KB),
    100: (2048, 32, 228 * _KB),
    103: (2048, 32, 228 * _KB),
    110: (1536, 24, 228 * _KB),
    120: (1536, 24, 100 * _KB),
    121: (1536, 24, 100 * _KB),
}
_RESERVED = _KB  # shared memory that each block takes for the system from compute capability 8 on


def arch_number(arch: str) -> int:
    """80 for ``sm_80``, ``compute_80`` or ``sm_80a``; InvalidArgumentError for anything else."""
    match = re.fullmatch(r"(?:sm|compute)_(\d+)[af]?", arch.strip())
    if match is None:
        raise InvalidArgumentError(
            "not the name of an architecture", expected="a name such as sm_80", got=repr(arch)
        )
    return int(match[1])


def virtual_gpu(arch: str, threads: int) -> DeviceProps:
    """Properties of the CPU device that presents ``arch`` (``GE2RT_CPU_ARCH``)."""
    number = arch_number(arch)
    if number not in ARCHS:
        raise InvalidArgumentError(
            "this architecture is not known", expected=", ".join(f"sm_{n}" for n in ARCHS),
            got=repr(arch), next_step="name one of these",
        )  # fmt: skip
    tensor_cores, optin = ARCHS[number]
    return DeviceProps(
        name=f"cpu as sm_{number}", kind="cpu", arch=f"sm_{number}", cc=number / 10,
        tensor_cores=tensor_cores, shared_optin=optin, multiprocessors=threads,
    )  # fmt: skip


@dataclass(frozen=True)
class KernelNeeds:
    """What one kernel asks for, and what its directives allow."""

    name: str
    shared: int = 0  # static shared memory in bytes
    max_threads: int = 0  # .maxntid; 0 where there is none
    exact_threads: tuple[int, ...] = ()  # .reqntid

    @classmethod
    def from_directives(
        cls, name: str, shared: int, directives: Mapping[str, tuple[int, ...]]
    ) -> KernelNeeds:
        """From the directives of a PTX entry."""
        limit = 1
        for extent in directives.get("maxntid", ()):
            limit *= extent
        return cls(
            name=name, shared=shared,
            max_threads=limit if "maxntid" in directives else 0,
            exact_threads=tuple(directives.get("reqntid", ())),
        )  # fmt: skip


def _refuse(needs: KernelNeeds, what: str, expected: str, got: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        what, kernel=needs.name, expected=expected, got=str(got), detail="cuda",
        next_step="launch within the limits of the device and of __launch_bounds__",
    )  # fmt: skip


def check_shape(props: DeviceProps, needs: KernelNeeds, shape: LaunchShape) -> None:
    """InvalidArgumentError where CUDA would refuse the launch."""
    for axis, extent, most in zip("xyz", shape.grid, props.max_grid, strict=True):
        if not 1 <= extent <= most:
            raise _refuse(needs, f"grid.{axis} is out of range", f"1 .. {most}", shape.grid)
    for axis, extent, most in zip("xyz", shape.block, props.max_block, strict=True):
        if not 1 <= extent <= most:
            raise _refuse(needs, f"block.{axis} is out of range", f"1 .. {most}", shape.block)
    threads = shape.block[0] * shape.block[1] * shape.block[2]
    most = min(props.max_threads, needs.max_threads or props.max_threads)
    if threads > most:
        raise _refuse(needs, "too many threads a block", f"at most {most}", threads)
    if needs.exact_threads:
        exact = (*needs.exact_threads, 1, 1)[:3]
        if shape.block != exact:
            raise _refuse(needs, "the kernel requires its block shape", str(exact), shape.block)
    if shape.shared < 0 or needs.shared + shape.shared > props.shared_optin:
        raise _refuse(
            needs, "too much shared memory a block",
            f"at most {props.shared_optin} bytes, {needs.shared} of them static",
            needs.shared + shape.shared,
        )  # fmt: skip
    if shape.cooperative:
        _check_resident(props, needs, shape)


def resident_blocks(props: DeviceProps, needs: KernelNeeds, shape: LaunchShape) -> int:
    """Blocks that fit a multiprocessor at once by threads, shared memory and number of blocks.

    Registers are not counted: how many a kernel takes is known behind ptxas only.
    """
    threads, blocks, shared = RESIDENT[arch_number(props.arch)]
    warps = -(-(shape.block[0] * shape.block[1] * shape.block[2]) // 32)
    taken = needs.shared + shape.shared + (_RESERVED if props.cc >= 8 else 0)
    return min(blocks, threads // 32 // warps, shared // taken if taken else blocks)


def _check_resident(props: DeviceProps, needs: KernelNeeds, shape: LaunchShape) -> None:
    """A cooperative launch needs all its blocks on the device at once."""
    each = resident_blocks(props, needs, shape)
    wanted = shape.grid[0] * shape.grid[1] * shape.grid[2]
    if wanted > each * props.multiprocessors:
        raise InvalidArgumentError(
            "too many blocks for a cooperative launch (cudaErrorCooperativeLaunchTooLarge)",
            kernel=needs.name,
            expected=f"at most {each * props.multiprocessors} blocks of this size: {each} on each "
            f"of {props.multiprocessors} multiprocessors",
            got=str(wanted), detail="cuda",
            next_step="launch a smaller grid whose threads loop; a cpu device has as many "
            "multiprocessors as threads (GE2RT_THREADS)",
        )  # fmt: skip
