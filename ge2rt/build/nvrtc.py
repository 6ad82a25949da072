"""NVRTC: CUDA text to PTX or cubin for any architecture, without a driver or a GPU.

The library of the pip wheel is called directly through ctypes: its interface is a dozen C
functions, and importing CuPy for it costs many times what loading it costs. Where only CuPy knows
where the library is, CuPy's binding does the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from ge2rt.base.errors import CompileError
from ge2rt.base.locks import compilers
from ge2rt.build import headers
from ge2rt.build.diagnostics import PREFIX

_OK = 0
_COMPILATION = 6
_RESULTS = {
    1: "out of memory", 2: "program creation failed", 3: "invalid input", 4: "invalid program",
    5: "invalid option", 7: "builtins library not found or broken", 11: "internal error",
}  # fmt: skip


@dataclass(frozen=True)
class Output:
    """What NVRTC gave. ``ok`` is false for a source with errors: ``log`` says which."""

    ok: bool
    data: bytes
    log: str
    lowered: dict[str, str] = field(default_factory=dict)


class Compiler(Protocol):
    """One way to reach NVRTC."""

    def version(self) -> tuple[int, int]:
        """(major, minor)."""

    def compile(
        self, text: str, name: str, options: Sequence[str], kind: str, names: Sequence[str]
    ) -> Output:
        """Compile; ``names`` are C++ name expressions to look up. Thread-safe, drops the GIL."""


class _Library:
    """The C interface by ctypes."""

    def __init__(self, path: str) -> None:
        if sys.platform == "win32":
            # the builtins library lies beside it
            self._folder = os.add_dll_directory(os.path.dirname(path))
        self._lib = ctypes.CDLL(path)

    def _call(self, function: str, *args: Any) -> int:
        return int(getattr(self._lib, function)(*args))

    def _checked(self, function: str, *args: Any) -> None:
        code = self._call(function, *args)
        if code != _OK:
            raise _refused(function, code, "")

    def version(self) -> tuple[int, int]:
        """(major, minor) by the library itself."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._checked("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._checked(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        self._checked(f"nvrtcGet{what}", program, buffer)
        return buffer.raw[: size.value]

    def compile(
        self, text: str, name: str, options: Sequence[str], kind: str, names: Sequence[str]
    ) -> Output:
        """See :class:`Compiler`."""
        program = ctypes.c_void_p()
        self._checked(
            "nvrtcCreateProgram", ctypes.byref(program), _utf8(text), _utf8(name), 0, None, None
        )
        try:
            for expression in names:
                self._checked("nvrtcAddNameExpression", program, _utf8(expression))
            given = (ctypes.c_char_p * len(options))(*(os.fsencode(o) for o in options))
            code = self._call("nvrtcCompileProgram", program, len(options), given)
            log = self._text(program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
            if code == _COMPILATION:
                return Output(False, b"", log)
            if code != _OK:
                raise _refused("nvrtcCompileProgram", code, log)
            data = self._text(program, "PTX" if kind == "ptx" else "CUBIN")
            return Output(True, data, log, {n: self._lowered(program, n) for n in names})
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _lowered(self, program: ctypes.c_void_p, expression: str) -> str:
        result = ctypes.c_char_p()
        self._checked("nvrtcGetLoweredName", program, _utf8(expression), ctypes.byref(result))
        return (result.value or b"").decode("utf-8")


class _Cupy:
    """CuPy's binding of the same functions."""

    def __init__(self) -> None:
        self._api = _import_cupy_nvrtc()

    def version(self) -> tuple[int, int]:
        """(major, minor) by the library itself."""
        major, minor = self._api.getVersion()
        return int(major), int(minor)

    def compile(
        self, text: str, name: str, options: Sequence[str], kind: str, names: Sequence[str]
    ) -> Output:
        """See :class:`Compiler`."""
        api = self._api
        program = api.createProgram(text, name, (), ())
        try:
            for expression in names:
                api.addNameExpression(program, expression)
            try:
                api.compileProgram(program, tuple(options))
            except api.NVRTCError as fault:
                log = str(api.getProgramLog(program))
                if fault.status == _COMPILATION:
                    return Output(False, b"", log)
                raise _refused("nvrtcCompileProgram", int(fault.status), log) from None
            data = api.getPTX(program) if kind == "ptx" else api.getCUBIN(program)
            data = data.encode("utf-8") if isinstance(data, str) else bytes(data)
            lowered = {n: str(api.getLoweredName(program, n)) for n in names}
            return Output(True, data, str(api.getProgramLog(program)), lowered)
        finally:
            api.destroyProgram(program)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _refused(function: str, code: int, log: str) -> CompileError:
    return CompileError(
        f"{function} failed: {_RESULTS.get(code, f'error {code}')}", got=log.strip(),
        next_step="check the kernel's options and the architecture" if code == 5 else "",
    )  # fmt: skip


def _import_cupy_nvrtc() -> Any:
    """``cupy.cuda.nvrtc``. CuPy makes its cache folder on import: it must be able to."""
    chosen = os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser(os.path.join("~", ".cupy"))
    if not _can_make(chosen):
        os.environ["CUPY_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), "ge2rt-cupy-cache")
    try:
        from cupy.cuda import nvrtc
    except (ImportError, OSError) as fault:
        raise _no_nvrtc(str(fault)) from fault
    return nvrtc


def _can_make(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)  # as CuPy itself would do next
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _no_nvrtc(reason: str) -> CompileError:
    return CompileError(
        "no CUDA compiler (NVRTC) can be loaded", got=reason,
        next_step="pip install 'ge2rt[cuda12]' or 'ge2rt[cuda13]'; no GPU or driver is needed",
    )  # fmt: skip


@cache
def compiler() -> Compiler:
    """NVRTC by the first way that works; raises :class:`CompileError` if none does."""
    path = headers.toolkit().library
    if path:
        try:
            return _Library(path)
        except OSError as fault:
            reason = str(fault)
            if not _has_cupy():
                raise _no_nvrtc(reason) from fault
    return _Cupy()


def _has_cupy() -> bool:
    import importlib.util

    return importlib.util.find_spec("cupy") is not None


def version() -> str:
    """Version of the wheel (nothing is loaded), else of the library; "" if there is none."""
    known = headers.toolkit().nvrtc
    if known:
        return known
    try:
        return ".".join(str(part) for part in compiler().version())
    except CompileError:
        return ""


def clear() -> None:
    """Forget the library and what is installed, for example after an installation."""
    compiler.cache_clear()
    headers.toolkit.cache_clear()


def base_options(arch: str, kind: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """The options of every compilation, as far as ``options`` does not choose otherwise.

    NVRTC's own defaults are what the contract wants: subnormals kept, exact division and square
    root, contraction to fma. Left unsaid, so that a kernel may declare ``-use_fast_math``.
    """
    target = arch if kind == "cubin" else arch.replace("sm_", "compute_")
    base = [f"--gpu-architecture={target}", "-std=c++17", "-lineinfo", "-default-device"]
    chosen = any(o.lstrip("-").startswith("std=") for o in options)
    return tuple(o for o in base if not (chosen and o.startswith("-std")))


def compile_cuda(
    text: str,
    name: str,
    *,
    arch: str,
    kind: str,
    options: Sequence[str] = (),
    names: Sequence[str] = (),
) -> Output:
    """Compile CUDA C++ for ``arch`` (``sm_80``) to ``kind`` ("ptx" or "cubin").

    Raises :class:`CompileError` when NVRTC is missing or refuses the options; errors in the text
    are told by ``Output.ok`` and ``log``.
    """
    includes = [f"-I{path}" for path in headers.toolkit().include_dirs]
    given = [*base_options(arch, kind, options), *options, *includes]
    binding = compiler()
    with compilers:
        output = binding.compile(text, PREFIX + name, given, kind, names)
    if kind == "ptx" and output.ok:
        data = output.data.rstrip(b"\0").replace(b'"' + PREFIX.encode(), b'"')
        return Output(True, data, output.log, output.lowered)
    return output
