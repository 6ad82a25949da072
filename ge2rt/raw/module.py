"""``RawModule`` and ``RawKernel``: CUDA C++ text, PTX or a cubin to callable kernels."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from ge2rt.build.compile import compile_source
from ge2rt.build.records import LineMap, Source
from ge2rt.device.api import Device, Dim3, Function, Launcher, LaunchShape, Module
from ge2rt.device.registry import get_device
from ge2rt.raw.arguments import Packer, home_of, look, pack_unchecked
from ge2rt.raw.signature import (
    Signature,
    entries_of,
    local_bytes,
    signature_of,
    variable_bytes,
    variables_of,
)
from ge2rt.raw.variable import Variable

_KEPT_LAUNCHERS = 256
_BINARIES = (".ptx", ".cubin")


@dataclass(frozen=True)
class Loaded:
    """The module on one device."""

    device: Device
    module: Module
    ptx: str  # "" for a cubin
    symbols: Mapping[str, str]  # C++ name expression -> symbol
    log: str


@dataclass
class _Ready:
    """A kernel on one device, with the launchers made so far."""

    device: Device
    function: Function
    packer: Packer | None
    launchers: dict[tuple[Any, ...], Launcher] = field(default_factory=dict)

    def launcher(self, key: tuple[Any, ...], kernel: str) -> Launcher:
        found = self.launchers.get(key)
        if found is None:
            grid, block, shared, *cooperative = key
            shape = LaunchShape(
                _dim3(grid, "grid", kernel), _dim3(block, "block", kernel), int(shared),
                any(cooperative),
            )  # fmt: skip
            if len(self.launchers) >= _KEPT_LAUNCHERS:
                self.launchers.pop(next(iter(self.launchers)))
            found = self.launchers[key] = self.function.launcher(shape)
        return found


class RawModule:
    """A module of CUDA C++ text, compiled for a device when it is first used there.

    Args:
        code: CUDA C++ text.
        path: instead of ``code``, a file: ``.cu``, ``.ptx`` or ``.cubin``.
        options: NVRTC's options (``-I``, ``-D``, ``--std=``...). Headers of installed CUDA wheels
            are found without.
        name_expressions: C++ names (``"scale<float>"``, ``"ns::f"``, ``"&variable"``) to look up
            afterwards; templates need it.
        backend: ``"nvrtc"``.
        device: where it runs. Without one a launch goes where its arrays lie (NumPy: the cpu
            device), and anything else to the default device.

    Each RawModule has its own variables. Raises :class:`CompileError` on first use.

    """

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | Path | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool = False,
        device: str | Device | None = None,
    ) -> None:
        if (code is None) == (path is None):
            raise InvalidArgumentError("one of code and path is needed", argument="code")
        _refuse_unsupported(backend, translate_cucomplex, jitify)
        self.code = code
        self.file_path = str(path) if path is not None else None
        self.options = _options(options)
        self.backend = backend
        self.enable_cooperative_groups = enable_cooperative_groups
        self.name_expressions = tuple(name_expressions or ())
        self.title = Path(path).name if path is not None else "module.cu"
        self.line_map = LineMap(())
        self._device = device
        self._loaded: dict[str, Loaded] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<RawModule {self.title}>"

    @property
    def kernels(self) -> list[str]:
        """The symbols of the module's kernels, in the order of the PTX."""
        return entries_of(self.load().ptx)

    def compile(self, log_stream: TextIO | None = None) -> None:
        """Compile now, for the default device; the compiler's log goes to ``log_stream``."""
        loaded = self.load()
        if log_stream is not None:
            log_stream.write(loaded.log)

    def get_function(self, name: str) -> RawFunction:
        """The kernel ``name``: a plain name, or one of ``name_expressions``."""
        function = RawFunction(self, name)
        function.ready(self.load())
        return function

    def get_global(self, name: str) -> Variable:
        """The ``__device__`` or ``__constant__`` variable ``name``.

        InvalidArgumentError lists the variables where there is none of that name.
        """
        loaded = self.load()
        symbol = loaded.symbols.get(name) or loaded.symbols.get(f"&{name}") or name.lstrip("&")
        try:
            address, nbytes = loaded.module.global_address(symbol)
        except InvalidArgumentError:
            raise _no_variable(name, loaded) from None
        nbytes = nbytes or variable_bytes(loaded.ptx, symbol)
        return Variable(name, address, nbytes, loaded.device, loaded.module)

    def load(self, home: str | None = None) -> Loaded:
        """The module on the device for arrays of device ``home``, compiled and loaded once."""
        device = self._target(home)
        found = self._loaded.get(device.name)
        if found is None or found.device is not device:
            with self._lock:
                found = self._loaded.get(device.name)
                if found is None or found.device is not device:
                    found = self._loaded[device.name] = self._load(device)
        return found

    def _target(self, home: str | None) -> Device:
        if isinstance(self._device, Device):
            return self._device
        default = get_device(self._device)
        if self._device is not None or home is None or default.accepts(home):
            return default
        return get_device(home)

    def _load(self, device: Device) -> Loaded:
        kind, arch = device.props.binary_kind, device.props.arch
        if self.file_path is not None and self.file_path.endswith(_BINARIES):
            return self._load_file(device)
        source = self.source()
        ptx = compile_source(source, arch, "ptx", names=self.name_expressions)
        built = ptx
        if kind != "ptx":  # the PTX is wanted all the same: it tells the parameters
            built = compile_source(source, arch, kind, names=self.name_expressions)
        module = device.load(built.data, built.kind, built.key.digest)
        return Loaded(device, module, ptx.data.decode(), ptx.lowered, ptx.log)

    def _load_file(self, device: Device) -> Loaded:
        path = Path(self.file_path or "")
        data, kind = path.read_bytes(), path.suffix[1:]
        module = device.load(data, kind, path.name)
        text = data.rstrip(b"\0").decode("utf-8", "replace") if kind == "ptx" else ""
        return Loaded(device, module, text, {}, "")

    def source(self) -> Source:
        """The text that is compiled, with its options."""
        if self.file_path is None:
            return Source(self.code or "", "", self.title, self.options, self.line_map)
        path = Path(self.file_path)
        options = (*self.options, f"-I{path.resolve().parent}")
        return Source(path.read_text("utf-8"), "", self.title, options, self.line_map)


class RawFunction:
    """A kernel of a :class:`RawModule`. Call it with ``(grid, block, args)``."""

    def __init__(self, module: RawModule, name: str) -> None:
        self.module = module
        self.name = name
        self._ready: dict[str, _Ready] = {}

    def __repr__(self) -> str:
        return f"<RawFunction {self.signature or self.name}>"

    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        """Launch.

        Args:
            grid: blocks, one to three numbers.
            block: threads a block, one to three numbers.
            args: arrays (the pointer to their first element is passed; strides are the kernel's
                business), numbers, NumPy scalars, structs (bytes, structured NumPy scalars,
                ctypes structures), None for a null pointer, addresses as ints.
            shared_mem: bytes of dynamic shared memory.
            stream: 0, a handle, or a stream object of ge2rt, CuPy or Torch; by default CuPy's
                current stream on a GPU.
            enable_cooperative_groups: CuPy's flag for grid-wide synchronisation; refused on a GPU.

        What does not fit the kernel's parameters, or the device's limits, raises
        :class:`InvalidArgumentError` (a TypeError too where a type is wrong) before any launch.

        """
        values = _look_at(args, self.name)
        loaded = self.module.load(home_of(values))
        cooperative = enable_cooperative_groups or self.module.enable_cooperative_groups
        if cooperative and loaded.device.props.kind == "cuda":
            raise UnsupportedError(
                "cooperative launches are not supported on a GPU yet", kernel=self.name,
                next_step="synchronise the grid by two launches",
            )  # fmt: skip
        shape = (_hashable(grid), _hashable(block), shared_mem, cooperative)
        self.launch(loaded, shape, values, stream)
        loaded.device.keep_alive(args, stream_handle(stream, loaded.device))

    def launch(
        self, loaded: Loaded, shape: tuple[Any, ...], values: Sequence[Any], stream: Any
    ) -> None:
        """Launch with arguments that :func:`look` has seen.

        ``shape`` is grid, block and shared memory, and whether all blocks must run at once.
        """
        ready = self.ready(loaded)
        packed = ready.packer.pack(values) if ready.packer else pack_unchecked(values)
        launcher: Any = ready.launcher(shape, self.name)
        watching = getattr(launcher, "watching", None)
        if watching is not None:
            from ge2rt.raw.spans import argument_spans  # late: for checked launches only

            named = ready.packer.signature.parameters if ready.packer else ()
            launcher = watching(argument_spans(values, [p.name for p in named]), live=True)
        handle = stream_handle(stream, loaded.device)
        loaded.device.check_stream(handle)
        launcher(packed, handle)

    @property
    def signature(self) -> Signature | None:
        """The parameters, as far as PTX and text tell them; None for a cubin."""
        packer = self.ready(self.module.load()).packer
        return packer.signature if packer else None

    @property
    def kernel(self) -> RawFunction:
        """The function itself: CuPy's kernels have their function here."""
        return self

    @property
    def attributes(self) -> dict[str, int]:
        """What the device tells: ``max_threads_per_block``, ``shared_size_bytes``..."""
        loaded = self.module.load()
        known = self.ready(loaded).function.attributes()
        if "local_size_bytes" not in known and loaded.ptx:
            known["local_size_bytes"] = local_bytes(loaded.ptx, self._symbol(loaded))
        return known

    @property
    def max_threads_per_block(self) -> int:
        """The most threads a block of this kernel may have."""
        return self._attribute("max_threads_per_block")

    @property
    def shared_size_bytes(self) -> int:
        """Static shared memory in bytes."""
        return self._attribute("shared_size_bytes")

    @property
    def const_size_bytes(self) -> int:
        """Constant memory that the kernel needs for itself, in bytes."""
        return self._attribute("const_size_bytes")

    @property
    def local_size_bytes(self) -> int:
        """Local memory a thread in bytes."""
        return self._attribute("local_size_bytes")

    @property
    def num_regs(self) -> int:
        """Registers a thread; known on a GPU only."""
        return self._attribute("num_regs")

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The most dynamic shared memory a launch may ask for; larger ones opt in by themselves."""
        props = self.module.load().device.props
        return props.shared_optin - self.shared_size_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes: int) -> None:
        """Accepted for CuPy's sake, and checked."""
        most = self.max_dynamic_shared_size_bytes
        if not 0 <= nbytes <= most:
            raise InvalidArgumentError(
                "the device has less shared memory", kernel=self.name,
                expected=f"at most {most} bytes", got=str(nbytes), detail="cuda",
            )  # fmt: skip

    def _attribute(self, name: str) -> int:
        known = self.attributes
        if name not in known:
            raise UnsupportedError(
                f"{name} is not known on device {self.module.load().device.name}",
                kernel=self.name, expected=f"one of {', '.join(sorted(known))}",
            )  # fmt: skip
        return known[name]

    def ready(self, loaded: Loaded) -> _Ready:
        """The kernel on a device where its module is loaded."""
        found = self._ready.get(loaded.device.name)
        if found is None or found.device is not loaded.device:
            symbol = self._symbol(loaded)
            packer = None
            if loaded.ptx:
                signature = signature_of(loaded.ptx, symbol, self._text(), self.name)
                packer = Packer(signature, loaded.device)
            found = _Ready(loaded.device, loaded.module.function(symbol), packer)
            self._ready[loaded.device.name] = found
        return found

    def _text(self) -> str:
        path = self.module.file_path
        return "" if path is not None and path.endswith(_BINARIES) else self.module.source().text

    def _symbol(self, loaded: Loaded) -> str:
        """The PTX name: as given, by name expression, or the one kernel that is mangled from it."""
        if self.name in loaded.symbols:
            return loaded.symbols[self.name]
        entries = entries_of(loaded.ptx)
        if self.name in entries or not loaded.ptx:
            return self.name
        parts = [f"{len(part)}{part}" for part in self.name.split("::")]
        start = f"_Z{parts[0]}" if len(parts) == 1 else f"_ZN{''.join(parts)}E"
        mangled = [entry for entry in entries if entry.startswith(start)]
        if len(mangled) == 1 and re.fullmatch(r"[\w:]+", self.name):
            return mangled[0]
        listed = [*(loaded.symbols or ()), *(e for e in entries if not e.startswith("_Z"))]
        raise InvalidArgumentError(
            "several kernels have this name" if mangled else "no such kernel in the module",
            kernel=self.name, expected=", ".join(listed or entries) or "none: there are no kernels",
            next_step='declare it extern "C", or list it in name_expressions',
        )  # fmt: skip


class RawKernel(RawFunction):
    """One kernel of a CUDA C++ text: ``RawKernel(code, name)(grid, block, args)``.

    ``name`` is a plain name or a name expression (``"scale<float>"``). Other arguments are those of
    :class:`RawModule`. Nothing is compiled before the first use.
    """

    def __init__(
        self,
        code: str,
        name: str,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        *,
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        jitify: bool = False,
        device: str | Device | None = None,
    ) -> None:
        expressions = () if re.fullmatch(r"[\w:]+", name) else (name,)
        module = RawModule(
            code, options=options, backend=backend, translate_cucomplex=translate_cucomplex,
            enable_cooperative_groups=enable_cooperative_groups, name_expressions=expressions,
            jitify=jitify, device=device,
        )  # fmt: skip
        module.title = f"{re.sub('[^A-Za-z0-9_]+', '_', name)}.cu"
        super().__init__(module, name)

    def compile(self, log_stream: TextIO | None = None) -> None:
        """Compile now, for the default device; the compiler's log goes to ``log_stream``."""
        self.module.compile(log_stream)
        self.ready(self.module.load())

    @property
    def code(self) -> str:
        """The CUDA text."""
        return self.module.code or ""

    @property
    def options(self) -> tuple[str, ...]:
        """The compiler's options."""
        return self.module.options

    @property
    def backend(self) -> str:
        """The compiler."""
        return self.module.backend


def _no_variable(name: str, loaded: Loaded) -> InvalidArgumentError:
    shown = {symbol: text.lstrip("&") for text, symbol in loaded.symbols.items()}
    listed = [shown.get(symbol, symbol) for symbol in variables_of(loaded.ptx)]
    inside = any(symbol.startswith("_Z") for symbol in listed)
    return InvalidArgumentError(
        f"no variable {name!r} in the module",
        expected=", ".join(listed) or "none: there are no __device__ or __constant__ variables",
        next_step="list one of a namespace in name_expressions, (\"&ns::name\",)" if inside else "",
    )  # fmt: skip


def _refuse_unsupported(backend: str, translate_cucomplex: bool, jitify: bool) -> None:
    wanted = {f"backend={backend!r}": backend != "nvrtc", "jitify=True": jitify,
              "translate_cucomplex=True": translate_cucomplex}  # fmt: skip
    for text, refused in wanted.items():
        if refused:
            raise UnsupportedError(
                f"{text} is not supported", next_step="NVRTC finds the headers of installed wheels"
                "; use it without",
            )  # fmt: skip


def _options(options: Sequence[str]) -> tuple[str, ...]:
    if isinstance(options, str) or not all(isinstance(option, str) for option in options):
        raise InvalidTypeError(
            "options are a tuple of str", argument="options", got=repr(options)[:80],
            next_step='write options=("-DX=1",)',
        )  # fmt: skip
    return tuple(options)


def _look_at(args: Any, kernel: str) -> list[Any]:
    if not isinstance(args, (tuple, list)):
        raise InvalidTypeError(
            "args is a tuple of the kernel's arguments", kernel=kernel, argument="args",
            got=type(args).__name__, next_step="write kernel(grid, block, (x,))",
        )  # fmt: skip
    try:
        return [look(value, index) for index, value in enumerate(args)]
    except InvalidArgumentError as fault:
        raise fault.about(kernel=kernel) from None


def _hashable(extents: Any) -> Any:
    return tuple(extents) if isinstance(extents, list) else extents


def _dim3(extents: Any, what: str, kernel: str) -> Dim3:
    given = extents if isinstance(extents, tuple) else (extents,)
    whole = all(hasattr(e, "__index__") and not isinstance(e, bool) for e in given)
    if not whole or not 1 <= len(given) <= 3:
        raise InvalidTypeError(
            f"{what} is one to three whole numbers", kernel=kernel, argument=what,
            got=repr(extents)[:80],
        )  # fmt: skip
    x, y, z = (*(int(e) for e in given), 1, 1)[:3]
    return x, y, z


def stream_handle(stream: Any, device: Device) -> int:
    """A stream as the device's handle; CuPy's current one on a GPU where none is given."""
    if stream is None:
        cupy = sys.modules.get("cupy") if device.props.kind == "cuda" else None
        current = getattr(getattr(cupy, "cuda", None), "get_current_stream", None)
        return int(current().ptr) if current else 0
    for name in ("handle", "ptr", "cuda_stream"):
        value = getattr(stream, name, None)
        if isinstance(value, int):
            return value
    if isinstance(stream, int):
        return stream
    raise InvalidTypeError(
        "not a stream", argument="stream", got=type(stream).__name__,
        expected="0, a handle, or a stream of ge2rt, CuPy or Torch",
    )  # fmt: skip
