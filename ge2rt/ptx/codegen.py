"""LLVM IR text to a relocatable object, through llvmlite."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from ge2rt.base.errors import InternalError


@dataclass(frozen=True)
class Target:
    """A processor: LLVM's name and features, and the widest vectors worth using."""

    cpu: str
    features: str

    @property
    def vector_bits(self) -> int:
        """512 with AVX-512, else 256."""
        return 512 if "+avx512f" in self.features else 256

    @property
    def attributes(self) -> str:
        """Function attributes."""
        bits = self.vector_bits
        return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


@cache
def _llvm() -> Any:
    import llvmlite.binding as llvm  # late: heavy

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm


# The quick code generator gives nearly every value a place on the stack: a frame is about as
# large as the code. Beyond this a thread's stack (8 MiB, less on some systems) might not hold it.
_QUICK_BYTES = 1 << 21


@cache
def host() -> Target:
    """The machine that this process runs on."""
    llvm = _llvm()
    return Target(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


def target_of(cpu: str = "", features: str = "") -> Target:
    """The named processor; empty means this machine."""
    if not cpu and not features:
        return host()
    return Target(cpu or host().cpu, features or host().features)


@cache
def _machine(target: Target, level: int = 2) -> Any:
    llvm = _llvm()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="default"
    )


def compile_ir(text: str, target: Target, opt_level: int = 1) -> tuple[bytes, tuple[str, ...]]:
    """Parse, verify, optimise and emit; returns the object and the outside functions it calls.

    ``opt_level`` 0 is the quick tier: registers out of memory, dead branches away, and LLVM's quick
    code generator. It takes a fifth to a tenth of the time and makes slower code.
    """
    module = optimise(text, target, opt_level)
    externs = tuple(
        f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")
    )
    code = bytes(_machine(target, 2 if opt_level else 0).emit_object(module))
    if not opt_level and len(code) > _QUICK_BYTES:
        code = bytes(_machine(target, 1).emit_object(optimise(text, target, 0)))
    return code, externs


def optimise(text: str, target: Target, opt_level: int = 1) -> Any:
    """The optimised llvmlite module (``str`` of it is its IR)."""
    llvm = _llvm()
    try:
        module = llvm.parse_assembly(f"{text}\nattributes #0 = {{ {target.attributes} }}\n")
        # Without a layout no integer counts as legal, and each phi of one is searched for slices.
        module.data_layout = str(_machine(target).target_data)
        module.triple = _machine(target).triple
        module.verify()
    except RuntimeError as fault:
        raise InternalError(
            f"the generated LLVM IR is not valid: {str(fault).strip()[:400]}",
            next_step="please report the kernel",
        ) from None
    if not opt_level:
        return _tidied(module, target)
    options = llvm.create_pipeline_tuning_options(speed_level=opt_level)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(_machine(target), options)
    builder.getModulePassManager().run(module, builder)
    return module


def _tidied(module: Any, target: Target) -> Any:
    llvm = _llvm()
    builder = llvm.create_pass_builder(
        _machine(target, 0), llvm.create_pipeline_tuning_options(speed_level=0)
    )
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


def clear() -> None:
    """Drop target machines."""
    _machine.cache_clear()
    host.cache_clear()
